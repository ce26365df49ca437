"""What is learned: data, the model that fits them, and what a model that has learned nothing loses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch.nn.functional import pad

from empirical.training.models import Batch, LanguageModel, Model, Regressor, Translator
from empirical.training.parameters import Store
from theory.configuration import Configuration
from theory.errors import InvalidInput

Tensor = torch.Tensor
_DECODED = 128  # sentences whose translations are scored


class Task(Protocol):
    """Data and a model's shape."""

    @property
    def digest(self) -> str:
        """Hash of the data, for the record and for a checkpoint."""

    def unlearned(self, held_out: Batch) -> float | None:
        """Loss on these examples of the best model that ignores its input (for a text, byte frequencies); None where unknown."""

    def model(self, configuration: Configuration) -> Model:
        """The network with blocks as in ``configuration``."""

    def batch(self, configuration: Configuration, generators: Sequence[torch.Generator], size: int) -> Batch:
        """``size`` training examples for each member, drawn from its generator."""

    def held_out(self, configuration: Configuration, limit: int) -> Batch:
        """At most ``limit`` held-out examples, one members' axis of length 1."""

    def scores(self, model: Any, store: Store, limit: int) -> Mapping[str, np.ndarray]:
        """What is read of a trained network besides its loss: (members, rows) by name."""


@dataclass(frozen=True)
class TextTask:
    """Next-token prediction on a text of `empirical.corpora`."""

    text: Any

    @property
    def digest(self) -> str:
        return str(self.text.digest)

    def unlearned(self, held_out: Batch) -> float:
        return float(self.text.unigram_loss(held_out[0]))

    def model(self, configuration: Configuration) -> LanguageModel:
        return LanguageModel(configuration, self.text.vocabulary)

    def batch(self, configuration: Configuration, generators: Sequence[torch.Generator], size: int) -> Batch:
        return (torch.stack([self.text.windows(generator, size, configuration.tokens) for generator in generators]),)

    def held_out(self, configuration: Configuration, limit: int) -> Batch:
        return (self.text.held_out_windows(configuration.tokens, limit)[None],)

    def scores(self, model: LanguageModel, store: Store, limit: int) -> Mapping[str, np.ndarray]:
        """``bigram-loss``, a yardstick: that of a model that reads one token, on the same windows."""
        windows = self.text.held_out_windows(model.configuration.tokens, limit)
        return {"bigram-loss": np.full((len(store.draws.members), 1), self.text.bigram_loss(windows))}


@dataclass(frozen=True)
class TranslationTask:
    """Translation of the sentence pairs of `empirical.corpora`, scored by BLEU on held-out ones."""

    pairs: Any
    bleu: Callable[[list[str], list[str]], float]
    padded: Callable[[Sequence[tuple[Tensor, Tensor]]], tuple[Tensor, Tensor]]
    special: tuple[int, int, int]
    """Padding, begin, end."""

    @property
    def digest(self) -> str:
        return str(self.pairs.digest)

    def unlearned(self, held_out: Batch) -> float:
        """Nats per target token under the training targets' frequencies, one added to every count."""
        _, targets = held_out
        train = torch.cat([target[1:] for _, target in self.pairs.train])
        counts = torch.bincount(train, minlength=self.pairs.vocabulary).double() + 1
        judged = targets[..., 1:]
        return float(-(counts / counts.sum()).log()[judged[judged != self.special[0]]].mean())

    def model(self, configuration: Configuration) -> Translator:
        both = (*self.pairs.train, *self.pairs.held_out)
        longest = max(len(side) for pair in both for side in pair)
        return Translator(replace(configuration, tokens=longest), self.pairs.vocabulary, *self.special)

    def batch(self, configuration: Configuration, generators: Sequence[torch.Generator], size: int) -> Batch:
        sides = zip(*(self.pairs.batches(generator, size) for generator in generators), strict=True)
        return tuple(self._stacked(side) for side in sides)

    def held_out(self, configuration: Configuration, limit: int) -> Batch:
        sources, targets = self.padded(self.pairs.held_out[:limit])
        return sources[None], targets[None]

    def scores(self, model: Translator, store: Store, limit: int) -> Mapping[str, np.ndarray]:
        """BLEU of greedy translations of the first held-out sentences."""
        limit = min(limit, _DECODED)
        sources, _ = self.padded(self.pairs.held_out[:limit])
        members = len(store.draws.members)
        written = model.greedy(store, sources.to(store.draws.device).expand(members, -1, -1))
        texts = [[self.pairs.decode(sentence) for sentence in member] for member in written.cpu()]
        return {"bleu": np.array([[self.bleu(member, self.pairs.references[:limit])] for member in texts])}

    def _stacked(self, side: Sequence[Tensor]) -> Tensor:
        longest = max(sentences.shape[1] for sentences in side)
        return torch.stack([pad(sentences, (0, longest - sentences.shape[1]), value=self.special[0]) for sentences in side])


@dataclass(frozen=True)
class RegressionTask:
    """Least squares on a regression of `empirical.corpora`, whose targets have mean 0 and variance 1."""

    data: Any

    @property
    def digest(self) -> str:
        return str(self.data.digest)

    def model(self, configuration: Configuration) -> Regressor:
        inputs, targets = self.data.held_out
        return Regressor(configuration, inputs.shape[1], targets.shape[1])

    def batch(self, configuration: Configuration, generators: Sequence[torch.Generator], size: int) -> Batch:
        sides = zip(*(self.data.batches(generator, size) for generator in generators), strict=True)
        return tuple(torch.stack(side) for side in sides)

    def held_out(self, configuration: Configuration, limit: int) -> Batch:
        return tuple(side[None, :limit] for side in self.data.held_out)

    def unlearned(self, held_out: Batch) -> float:
        return 1.0

    def scores(self, model: Regressor, store: Store, limit: int) -> Mapping[str, np.ndarray]:
        return {}


def _text(name: str) -> Task:
    from empirical.corpora import text

    return TextTask(text(name))


def _translation(name: str) -> Task:
    from empirical.corpora import BEGIN, END, PAD, padded
    from empirical.corpora.translation import bleu, pairs

    return TranslationTask(pairs(name), bleu, padded, (PAD, BEGIN, END))


def _regression(name: str) -> Task:
    from empirical.corpora.regression import regression

    if name != "tanh":
        raise InvalidInput(f"unknown regression {name!r}: the only one is tanh")
    return RegressionTask(regression())


KINDS: dict[str, tuple[str, Callable[[str], Task]]] = {
    "text": ("topics", _text),
    "translation": ("en-de", _translation),
    "regression": ("tanh", _regression),
}
"""Kind of task → the data it takes unless told, and how it is made of the name of data."""


def task(name: str) -> Task:
    """``text``, ``translation``, or one of them with its data: ``text:library``.

    Raises:
        InvalidInput: unknown kind, unknown data, or an extra that is not installed.
    """
    kind, _, data = name.partition(":")
    if kind not in KINDS:
        raise InvalidInput(f"unknown task {name!r}: use {', '.join(KINDS)}, or KIND:DATA such as text:topics")
    usual, make = KINDS[kind]
    return make(data or usual)
