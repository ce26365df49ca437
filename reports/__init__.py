"""Recorded verdicts → a Markdown report with figures, and a summary for the terminal."""
