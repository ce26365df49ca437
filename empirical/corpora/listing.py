"""One row a corpus: sizes, hash, and what a model that learns nothing reaches."""

from __future__ import annotations

from typing import Any

from empirical.corpora.base import TEXTS, text
from empirical.corpora.hashes import release, standing
from empirical.corpora.regression import regression
from empirical.corpora.translation import ALL, bleu, pairs
from theory.errors import InvalidInput
from theory.registry import find

REGRESSION = "regression"
NAMES = (*TEXTS, "en-de", ALL, REGRESSION)
"""Corpora that are listed unless others are asked for."""


def row_if_installed(name: str) -> dict[str, Any]:
    """`row`, or the name and what is ``missing``."""
    try:
        return row(name)
    except InvalidInput as error:
        return {"name": name, "missing": str(error)}


def row(name: str) -> dict[str, Any]:
    """Sizes of both parts, vocabulary, hash and yardsticks of the corpus called ``name``.

    Raises:
        InvalidInput: unknown name; the extra ``data`` is not installed.
    """
    corpus: Any
    if name == REGRESSION:
        corpus = regression()
        held_out = corpus.held_out[1]
        unit, train, rest, vocabulary = "inputs", None, len(held_out), None
        losses = {"loss of the mean": float(held_out.square().mean()), "loss of the best line": corpus.linear_loss}
    elif name.startswith("en-"):
        corpus = pairs(name)
        unit, train, rest, vocabulary = "pairs", len(corpus.train), len(corpus.held_out), corpus.vocabulary
        copies = [corpus.decode(source) for source, _ in corpus.held_out]
        losses = {"BLEU of the source left as it is": bleu(copies, corpus.references)}
    else:
        find("corpus", name, dict.fromkeys(NAMES))
        corpus = text(name)
        unit, train, rest, vocabulary = "bytes", len(corpus.train), len(corpus.held_out), corpus.vocabulary
        losses = {"unigram entropy": corpus.unigram_entropy, "bigram entropy": corpus.bigram_entropy}
    return {
        "name": name,
        "source": release(name),
        "unit": unit,
        "train": train,
        "held_out": rest,
        "vocabulary": vocabulary,
        "yardsticks": losses,
        "digest": corpus.digest,
        "standing": standing(name, corpus.digest),
    }


def line(row: dict[str, Any]) -> str:
    """The row in one line for people."""
    if "missing" in row:
        return f"{row['name']}: {row['missing']}"
    train = "fresh" if row["train"] is None else f"{row['train']:,}"
    vocabulary = f", vocabulary {row['vocabulary']:,}" if row["vocabulary"] else ""
    yardsticks = ", ".join(f"{name} {value:.3f}" for name, value in row["yardsticks"].items())
    sizes = f"{train} {row['unit']} to train on, {row['held_out']:,} held out{vocabulary}"
    return f"{row['name']}: {sizes}; {yardsticks}; sha256 {row['digest'][:12]}…, {row['standing']}"
