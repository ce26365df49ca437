"""What training reads: a text in tokens, or pairs of sentences, each with a held-out part and a hash."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import sha256

import torch

from empirical.corpora import library, topics
from empirical.corpora.splitting import held_out
from theory.errors import InvalidInput
from theory.registry import find

Tensor = torch.Tensor

TEXTS: dict[str, Callable[[], dict[str, str]]] = {"topics": topics.documents, "library": library.documents}
"""Name → documents of a text by their names."""

BYTES = 256
"""Vocabulary of a text."""

PAD, BEGIN, END = 0, 1, 2
"""Ids in every vocabulary of pairs: padding, begin and end of a sentence."""


@dataclass(frozen=True, eq=False)
class Text:
    """A text for language modelling.

    Attributes:
        name: as `text` knows it.
        digest: SHA-256 of the whole text, for the record.
        vocabulary: number of different tokens.
        train, held_out: int64, one-dimensional; no document stands in both.
    """

    name: str
    digest: str
    vocabulary: int
    train: Tensor
    held_out: Tensor

    def windows(self, generator: torch.Generator, batch: int, length: int) -> Tensor:
        """(batch, length + 1) tokens of the training part, at uniform places drawn from ``generator`` (on the CPU)."""
        starts = torch.randint(self._places(self.train, length), (batch,), generator=generator)
        return self.train[starts[:, None] + torch.arange(length + 1)]

    def held_out_windows(self, length: int, limit: int) -> Tensor:
        """(windows, length + 1) tokens of the held-out part: at most ``limit``, evenly spaced, predicting no token twice."""
        count = min(limit, (len(self.held_out) - 1) // length)
        last = self._places(self.held_out, length) - 1
        starts = torch.arange(count) * last // max(count - 1, 1)
        return self.held_out[starts[:, None] + torch.arange(length + 1)]

    @cached_property
    def unigram_entropy(self) -> float:
        """Nats per held-out token under the training part's frequencies, one added to every count.

        A model that ignores the context cannot do much better.
        """
        return float(-self._unigram.log()[self.held_out].mean())

    @cached_property
    def bigram_entropy(self) -> float:
        """Nats per held-out token given the one before it, under the training part's pairs.

        Every context has one more observation, spread as the unigram distribution.
        """
        return self.bigram_loss(self.held_out)

    def unigram_loss(self, windows: Tensor) -> float:
        """What `unigram_entropy` is, of all tokens but the first of each window, (…, length + 1)."""
        return float(-self._unigram.log()[windows[..., 1:]].mean())

    def bigram_loss(self, windows: Tensor) -> float:
        """What `bigram_entropy` is, of all tokens but the first of each window, (…, length + 1)."""
        return float(-self._bigram[windows[..., :-1], windows[..., 1:]].log().mean())

    @cached_property
    def _unigram(self) -> Tensor:
        counts = torch.bincount(self.train, minlength=self.vocabulary).double() + 1
        return counts / counts.sum()

    @cached_property
    def _bigram(self) -> Tensor:
        before, after = self.train[:-1], self.train[1:]
        counts = torch.bincount(before * self.vocabulary + after, minlength=self.vocabulary**2).double()
        counts = counts.view(self.vocabulary, self.vocabulary) + self._unigram
        return counts / counts.sum(1, keepdim=True)

    @staticmethod
    def _places(tokens: Tensor, length: int) -> int:
        places = len(tokens) - length
        if length < 1 or places < 1:
            raise InvalidInput(
                f"windows of {length} tokens from a text of {len(tokens)}: give a length from 1 to {len(tokens) - 1}"
            )
        return places


@dataclass(frozen=True, eq=False)
class Pairs:
    """Sentences and their translations, in ids of one vocabulary that source and target share.

    A source ends with `END`; a target begins with `BEGIN` and ends with `END`.

    Attributes:
        name: as `empirical.corpora.pairs` knows it.
        digest: SHA-256 of all sentences and of the vocabulary, for the record.
        vocabulary: number of ids, `PAD`, `BEGIN` and `END` among them.
        train, held_out: (source, target), each an int64 tensor of its own length; no source stands in both.
        references: the held-out targets as they were written, for BLEU.
        decoder: ids without special ones → text.
    """

    name: str
    digest: str
    vocabulary: int
    train: tuple[tuple[Tensor, Tensor], ...]
    held_out: tuple[tuple[Tensor, Tensor], ...]
    references: list[str]
    decoder: Callable[[list[int]], str]

    def decode(self, ids: Sequence[int] | Tensor) -> str:
        """The text of one sentence: what stands before the first `END`, without `BEGIN` and `PAD`."""
        kept: list[int] = []
        for i in torch.as_tensor(ids).tolist():
            if i == END:
                break
            if i not in (BEGIN, PAD):
                kept.append(i)
        return self.decoder(kept)

    def batches(self, generator: torch.Generator, batch: int) -> tuple[Tensor, Tensor]:
        """``batch`` training pairs drawn from ``generator`` (on the CPU) with replacement: sources and targets as in `padded`."""
        chosen = torch.randint(len(self.train), (batch,), generator=generator)
        return padded([self.train[i] for i in chosen.tolist()])


def padded(pairs: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Sources (pairs, longest source) and targets (pairs, longest target), filled up with `PAD` at the end."""
    sources, targets = (
        torch.nn.utils.rnn.pad_sequence([pair[side] for pair in pairs], batch_first=True, padding_value=PAD) for side in (0, 1)
    )
    return sources, targets


@lru_cache
def text(name: str) -> Text:
    """The text called ``name``, in bytes.

    Raises:
        InvalidInput: unknown name.
    """
    found = documents(name)
    apart = held_out(found)
    train, rest = ([document for key, document in found.items() if (key in apart) == side] for side in (False, True))
    return Text(name, sha256(_joined(found.values())).hexdigest(), BYTES, _tokens(train), _tokens(rest))


@lru_cache
def whole(name: str) -> Tensor:
    """All bytes of the text called ``name``, whose SHA-256 is its digest, int64.

    Raises:
        InvalidInput: unknown name.
    """
    return _tokens(documents(name).values())


@lru_cache
def documents(name: str) -> dict[str, str]:
    """Documents of the text called ``name``, by their own names.

    Raises:
        InvalidInput: unknown name.
    """
    return find("text", name, TEXTS)()


def _joined(documents: Iterable[str]) -> bytes:
    return "\n".join(documents).encode()


def _tokens(documents: Iterable[str]) -> Tensor:
    return torch.frombuffer(bytearray(_joined(documents)), dtype=torch.uint8).long()
