"""Where a network's input and its loss gradient come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from empirical import text
from empirical.draws import Draws
from theory.configuration import Configuration
from theory.registry import find

Tensor = torch.Tensor


@dataclass(frozen=True)
class Feed:
    """One batch's input and the gradient it sends into the output.

    Attributes:
        inputs: the stream entering block 1, (members, tokens, width), part of the autograd graph.
        objective: a scalar whose gradient at the output is ∂𝓛/∂y, summed over members (each has its own loss).
    """

    inputs: Tensor
    objective: Callable[[Tensor], Tensor]


def isotropic(configuration: Configuration, draws: Draws) -> Feed:
    """Independent N(0, 1) inputs, and an independent N(0, 1) gradient at every coordinate of the output."""
    shape = (configuration.tokens, configuration.width)
    inputs = draws.normal("inputs", *shape).requires_grad_()
    upstream = draws.normal("upstream", *shape)
    return Feed(inputs, lambda output: (output * upstream).sum())


def real_text(configuration: Configuration, draws: Draws) -> Feed:
    """Bytes of CPython's documentation, embedded; next-byte cross-entropy, mean over positions.

    Every member reads a window of its own. Embedding rows are N(0, 1) per coordinate, the unembedding matrix
    N(0, 1/width). The gradient runs through the embedding, which is a leaf of the graph.
    """
    tokens, width = configuration.tokens, configuration.width
    data = torch.frombuffer(bytearray(text.corpus()), dtype=torch.uint8).long()
    starts = draws.integers("inputs", len(data) - tokens - 1)
    windows = torch.stack([data[start : start + tokens + 1] for start in starts]).to(draws.device)
    embedding = draws.normal("inputs", text.VOCABULARY, width).requires_grad_()
    unembedding = draws.normal("upstream", width, text.VOCABULARY, std=width**-0.5)
    inputs = torch.gather(embedding, 1, windows[:, :-1, None].expand(-1, -1, width))

    def objective(output: Tensor) -> Tensor:
        logits = (output @ unembedding).float() if output.dtype == torch.bfloat16 else output @ unembedding
        losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten(), reduction="sum")
        return losses / tokens

    return Feed(inputs, objective)


SOURCES: dict[str, Callable[[Configuration, Draws], Feed]] = {"isotropic": isotropic, "text": real_text}


def source(name: str) -> Callable[[Configuration, Draws], Feed]:
    """The source called ``name``.

    Raises:
        InvalidInput: unknown source.
    """
    return find("input", name, SOURCES)
