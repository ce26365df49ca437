"""A small vocabulary of subwords: byte-level BPE, by the library ``tokenizers``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence

from empirical.corpora.catalogues import required


class Subwords:
    """Subwords learnt from ``texts``; every text can be encoded and comes back as it was.

    Args:
        texts: what to learn from; order and repetitions do not matter.
        size: number of subwords at most, 256 bytes among them.
        first: id of the first subword, so that lower ones are free for special ids.
    """

    def __init__(self, texts: Iterable[str], size: int, first: int) -> None:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # one thread a process, as torch
        library = required("tokenizers")
        self.first = first
        self._tokenizer = library.Tokenizer(library.models.BPE())
        self._tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
        self._tokenizer.decoder = library.decoders.ByteLevel()
        alphabet = sorted(library.pre_tokenizers.ByteLevel.alphabet())
        trainer = library.trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
        self._tokenizer.train_from_iterator(sorted(set(texts)), trainer)

    def __len__(self) -> int:
        """Number of subwords."""
        return int(self._tokenizer.get_vocab_size())

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text's subwords, from ``first`` on."""
        return [[self.first + i for i in encoding.ids] for encoding in self._tokenizer.encode_batch_fast(texts)]

    def decode(self, ids: list[int]) -> str:
        """The text of such ids; others are passed over, bytes that are no UTF-8 become U+FFFD."""
        return str(self._tokenizer.decode([i - self.first for i in ids if i >= self.first]))

    def record(self) -> str:
        """All subwords and their ids as JSON, to be hashed."""
        return json.dumps(self._tokenizer.get_vocab(), sort_keys=True)
