"""How verdicts are put into words and symbols, the same in every place."""

from __future__ import annotations

from collections import Counter

from reports.records import Claim, Results

SYMBOLS = {"supported": "🔵", "refuted": "🟠", "by condition": "🟣", "inconclusive": "⚪"}
"""Colours say what was found of the statement, not whether the claim passed: neither is good or bad."""
STATEMENTS = {
    "supported": "The statement is supported",
    "refuted": "The statement is refuted",
    "by condition": "The statement holds under some conditions and fails under others",
    "inconclusive": "The evidence is inconclusive",
}
GROUPS = {"gradients": "Gradients at initialisation", "forward": "Forward scale", "training": "Training", "variants": "Variants"}

SUMMARIES = {"post-ln-growth": "Gradients that grow like L − l + 1"}
"""Headings of the pages on one statement in several readings, by the key that its claims share."""
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def count(number: int, noun: str) -> str:
    """Such as ``five readings``."""
    written = _NUMBERS[number] if number < len(_NUMBERS) else str(number)
    return f"{written} {noun}{'' if number == 1 else 's'}"


def sentence(claim: Claim) -> str:
    """One claim's outcome in one sentence."""
    if claim.error is not None:
        return f"Not judged: {claim.error}"
    found = STATEMENTS[claim.verdict]
    if claim.verdict != claim.expected or claim.verdict == "inconclusive":
        return f"{found}; theory expects: {claim.expected}."
    if claim.as_expected:
        return f"{found}, as theory expects."
    if claim.sanity is not None and not claim.sanity.passed:
        return f"{found}, but the sanity gate did not pass."
    if not claim.checks:
        return f"{found}, but no check was recorded."
    return f"{found}, but {len(claim.failing)} of {len(claim.checks)} checks did not come out as theory expects."


def mark(claim: Claim) -> str:
    """Whether the claim came out as theory expects."""
    return "✅" if claim.as_expected else "❌"


def counts(results: Results) -> dict[str, int]:
    """Claims by verdict, in the order of the symbols; without those that do not occur."""
    found: Counter[str] = Counter(claim.verdict for claim in results.claims)
    return {verdict: found[verdict] for verdict in SYMBOLS if found[verdict]}


def total(results: Results) -> str:
    """How many of the planned claims came out as expected, in one sentence."""
    passed = len(results.claims) - len(results.failed)
    everything = len(results.claims) + len(results.missing)
    text = f"{passed} of {everything} claims came out as theory expects"
    if results.failed:
        text += f", {len(results.failed)} did not"
    if results.missing:
        text += f", {len(results.missing)} {'is' if len(results.missing) == 1 else 'are'} missing"
    return text


def grouped(results: Results) -> dict[str, list[Claim]]:
    """Claims by group, the known groups first and the many generic ones of the variants last."""
    found: dict[str, list[Claim]] = {}
    for claim in results.claims:
        found.setdefault(claim.group, []).append(claim)
    known = list(GROUPS)
    order = sorted(found, key=lambda g: (g == "variants", known.index(g) if g in known else len(known)))
    return {group: found[group] for group in order}
