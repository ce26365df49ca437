"""Data of the training claims, offline: documentation that every CPython carries, translations and a regression task."""

from empirical.corpora.base import BEGIN, BYTES, END, PAD, TEXTS, Pairs, Text, padded, text, whole

__all__ = ["BEGIN", "BYTES", "END", "PAD", "TEXTS", "Pairs", "Text", "padded", "text", "whole"]
