"""Translation from English: the messages of Django's catalogues in subwords, one language or all in one task."""

from __future__ import annotations

import json
import re
from functools import cache, lru_cache
from hashlib import sha256
from typing import NamedTuple

import torch

from empirical.corpora.base import BEGIN, END, Pairs
from empirical.corpora.catalogues import languages, required, translations
from empirical.corpora.subwords import Subwords
from theory.errors import InvalidInput

ALL = "en-all"
"""Name of the task that pools all languages."""

SUBWORDS = {ALL: 2000}
"""Size of the vocabulary, `ONE_LANGUAGE` of them otherwise."""

ONE_LANGUAGE = 1000

LONGEST = 64
"""Subwords; pairs with a longer side are left out (2 to 5 % of them; they would set the size of their batches)."""

HELD_OUT = 32
"""Of 256 sources, this many are held out."""


class Row(NamedTuple):
    """A message and its translation."""

    language: str
    source: str
    target: str


@lru_cache
def pairs(name: str) -> Pairs:
    """English → German for ``en-de``, likewise for every other language of the catalogues; ``en-all`` pools them.

    The pooled task's sources begin with an id of the language wanted. Both parts are in the order of their rows' hashes, so that
    a part's first pairs are a fair sample of it. The vocabulary is learnt from the training part.

    Raises:
        InvalidInput: unknown name; the extra ``data`` is not installed.
    """
    wanted = _languages(name)
    rows = sorted((Row(language, *pair) for language in wanted for pair in translations(language).items()), key=_digest)
    trained = [row for row in rows if not is_held_out(row.source)]
    first = END + 1 + (len(wanted) if name == ALL else 0)
    tags = {language: [END + 1 + i] if name == ALL else [] for i, language in enumerate(wanted)}
    subwords = Subwords((text for row in trained for text in row[1:]), SUBWORDS.get(name, ONE_LANGUAGE) - first, first)
    texts = sorted({text for row in rows for text in row[1:]})
    ids = dict(zip(texts, subwords.encode(texts), strict=True))

    train, held_out, references = [], [], []
    for row in rows:
        source, target = ids[row.source], ids[row.target]
        if max(len(source), len(target)) > LONGEST:
            continue
        pair = torch.tensor([*tags[row.language], *source, END]), torch.tensor([BEGIN, *target, END])
        if is_held_out(row.source):
            held_out.append(pair)
            references.append(row.target)
        else:
            train.append(pair)
    digest = sha256((json.dumps(rows) + subwords.record()).encode()).hexdigest()
    return Pairs(name, digest, first + len(subwords), tuple(train), tuple(held_out), references, subwords.decode)


@cache
def is_held_out(source: str) -> bool:
    """Whether an English source is held out, in all languages alike: by a hash of its letters and digits without case."""
    letters = "".join(re.findall(r"[^\W_]+", source.casefold()))
    return sha256(letters.encode()).digest()[0] < HELD_OUT


def bleu(hypotheses: list[str], *references: list[str]) -> float:
    """Corpus BLEU from 0 to 100 with sacrebleu's defaults (13a tokens, exponential smoothing).

    Args:
        hypotheses: translations to be scored.
        references: one list of a reference for every translation, or several such lists.

    Raises:
        InvalidInput: unequal numbers of sentences, or none; the extra ``data`` is not installed.
    """
    if not hypotheses or not references or any(len(hypotheses) != len(texts) for texts in references):
        counts = ", ".join(str(len(texts)) for texts in references) or "no"
        raise InvalidInput(f"BLEU of {len(hypotheses)} translations against {counts} references: give one for each")
    return float(required("sacrebleu").corpus_bleu(hypotheses, references).score)


def _languages(name: str) -> list[str]:
    known = languages()
    if name == ALL:
        return known
    language = name.removeprefix("en-")
    if name == language or language not in known:
        raise InvalidInput(f"unknown pairs {name!r}: known are {ALL} and en-LANGUAGE for one of {', '.join(known)}")
    return [language]


def _digest(row: Row) -> bytes:
    return sha256(json.dumps(row).encode()).digest()
