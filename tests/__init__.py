"""Tests of the suite; `tests.claims` holds the claims that it verifies."""
