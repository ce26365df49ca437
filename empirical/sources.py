"""Where a network's input and its loss gradient come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from empirical import corpora
from empirical.draws import Draws
from theory.configuration import Configuration
from theory.errors import InvalidInput
from theory.registry import find

Tensor = torch.Tensor


@dataclass(frozen=True)
class Feed:
    """One batch's input and the gradient it sends into the output.

    Attributes:
        inputs: the stream entering block 1, (members, tokens, width), part of the autograd graph.
        objective: a scalar whose gradient at the output is ∂𝓛/∂y, summed over members (each has its own loss).
        ends: from the output, the second moments per coordinate of the inputs and of ∂𝓛/∂y, each (members, tokens, tokens);
            averages over what the feed itself draws (embeddings, unembeddings, upstream gradients), given the data.
    """

    inputs: Tensor
    objective: Callable[[Tensor], Tensor]
    ends: Callable[[Tensor], tuple[Tensor, Tensor]]


def isotropic(configuration: Configuration, draws: Draws) -> Feed:
    """Independent N(0, 1) inputs, and an independent N(0, 1) gradient at every coordinate of the output."""
    return coherent(configuration, draws, 0.0)


def coherent(configuration: Configuration, draws: Draws, cosine: float) -> Feed:
    """Isotropic, but the output's gradients of any two tokens have the mean cosine ``cosine``: a part that all tokens share."""
    shape = (configuration.tokens, configuration.width)
    inputs = draws.normal("inputs", *shape).requires_grad_()
    upstream = draws.normal("upstream", *shape)
    same_token = torch.eye(configuration.tokens).expand(len(inputs), -1, -1)
    gradients = same_token
    if cosine:
        shared = draws.normal("upstream", 1, configuration.width)
        upstream = (1 - cosine) ** 0.5 * upstream + cosine**0.5 * shared
        gradients = (1 - cosine) * same_token + cosine
    return Feed(inputs, lambda output: (output * upstream).sum(), lambda _: (same_token, gradients))


def real_text(configuration: Configuration, draws: Draws) -> Feed:
    """Bytes of CPython's documentation, embedded; next-byte cross-entropy, mean over positions.

    Every member reads a window of its own. Embedding rows are N(0, 1) per coordinate, the unembedding matrix
    N(0, 1/width). The gradient runs through the embedding, which is a leaf of the graph.
    """
    tokens, width = configuration.tokens, configuration.width
    data = corpora.whole("topics")
    starts = draws.integers("inputs", len(data) - tokens - 1)
    windows = torch.stack([data[start : start + tokens + 1] for start in starts]).to(draws.device)
    embedding = draws.normal("inputs", corpora.BYTES, width).requires_grad_()
    unembedding = draws.normal("upstream", width, corpora.BYTES, std=width**-0.5)
    inputs = torch.gather(embedding, 1, windows[:, :-1, None].expand(-1, -1, width))

    def logits(output: Tensor) -> Tensor:
        return (output @ unembedding).float() if output.dtype == torch.bfloat16 else output @ unembedding

    def objective(output: Tensor) -> Tensor:
        losses = torch.nn.functional.cross_entropy(logits(output).flatten(0, 1), windows[:, 1:].flatten(), reduction="sum")
        return losses / tokens

    def ends(output: Tensor) -> tuple[Tensor, Tensor]:
        here, following = windows[:, :-1], windows[:, 1:]
        error = torch.softmax(logits(output).double(), -1) - torch.nn.functional.one_hot(following, corpora.BYTES)
        same_byte = (here[:, :, None] == here[:, None, :]).double()
        return same_byte, error @ error.mT / (width * tokens**2)

    return Feed(inputs, objective, ends)


SOURCES: dict[str, Callable[[Configuration, Draws], Feed]] = {"isotropic": isotropic, "text": real_text}


def source(name: str) -> Callable[[Configuration, Draws], Feed]:
    """The source called ``name``; ``coherent:0.2`` is isotropic with gradients of cosine 0.2 across tokens.

    Raises:
        InvalidInput: unknown source, a cosine outside [0, 1].
    """
    kind, colon, cosine = name.partition(":")
    if kind != "coherent":
        return find("input", name, SOURCES)
    if not colon or not _is_share(cosine):
        raise InvalidInput(f"input {name!r}: give the cosine of the tokens' gradients, from 0 to 1, as in coherent:0.2")
    return partial(coherent, cosine=float(cosine))


def _is_share(text: str) -> bool:
    try:
        return 0 <= float(text) <= 1
    except ValueError:
        return False
