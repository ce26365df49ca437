"""Data of the training claims, offline: documentation that every CPython carries, translations and a regression task."""

from empirical.corpora.base import BEGIN, BYTES, END, PAD, TEXTS, Pairs, Text, padded, text, whole
from empirical.corpora.regression import Regression, regression
from empirical.corpora.translation import bleu, pairs

__all__ = [
    "BEGIN",
    "BYTES",
    "END",
    "PAD",
    "TEXTS",
    "Pairs",
    "Regression",
    "Text",
    "bleu",
    "padded",
    "pairs",
    "regression",
    "text",
    "whole",
]
