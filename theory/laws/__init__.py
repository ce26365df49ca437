"""Recursions, closed forms, asymptotic classes, proofs, derivations."""
