"""Attention's law for exchangeable tokens: its recursion on (q, c; g, γ), and how tokens collapse."""
