"""The atlas: what the generic claims record for it, and the page and panels that the report makes of it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reports.atlas import OTHERS, atlas
from reports.decoding import decode
from reports.panels import draw_panels
from reports.records import Claim, Entry, Results, Run
from reports.render import render
from tests.claims.atlas import Entry as Recorded
from tests.claims.sweeps import Sweep

DEPTH = 4


def recorded(variant: str, sublayers: str = "relu", base: float = 1.0) -> dict:
    """An entry with networks that follow ``base``^(L − l) exactly."""
    sweep = Sweep(variant, sublayers, (DEPTH,), 0, width=32)
    readings = np.outer([0.9, 1.0, 1.1], base ** np.arange(DEPTH, -1, -1.0))
    return Recorded(sweep).record({sweep.deepest: {"stream-gradient": readings}})


@pytest.mark.parametrize(
    ("variant", "gradient", "moment", "worst"),
    [
        ("post-ln", 1.0, 1.0, math.e * 7 / 9 * 1000),  # flat; worst case e·V·m with V = 7/9 (THEORY.md 3), to its first order
        ("pre-ln", 501.0, 501.0, None),  # q_L = 1 + L/2, and g_0/g_L = q_L/q_0 by Euler
        ("skipinit", 1.0005**1000, 1.0005**1000, None),  # (1 + 1/(2L))^L
        ("residual", None, 1.0, None),
        ("rezero", 1.0, 1.0, 1.0),
        ("no-residual", None, None, None),  # 2^(−1000) of the stream: its square leaves the range of floats
    ],
)
def test_the_figures_at_a_thousand_blocks(
    variant: str, gradient: float | None, moment: float | None, worst: float | None
) -> None:
    deep = recorded(variant)["deep"]
    assert deep["depth"] == 1000
    if gradient is not None:
        assert deep["gradient"] == pytest.approx(gradient, rel=1e-6)
    assert deep["moment"] == (None if moment is None else pytest.approx(moment, rel=1e-6))
    if worst is not None:
        assert deep["worst"] == pytest.approx(worst, rel=0.01)
    if variant in ("residual", "no-residual"):
        assert deep["worst"] is None


def test_classes_are_the_laws_own() -> None:
    post, pre, gelu = recorded("post-ln"), recorded("pre-ln"), recorded("post-ln", "gelu")
    assert post["classes"]["kind"] == "flat" and pre["classes"]["kind"] == "power"
    assert pre["classes"]["in_depth"] == "flat in L" and gelu["classes"]["in_depth"].startswith("exponential: (1.0214")
    assert pre["worst_case"] == "2·e·κ²/s² · ln(L/l)" and post["worst_case"].endswith(" · (L − l)")


def test_without_measurement_there_is_no_curve() -> None:
    sweep = Sweep("post-ln", "attention,gelu", (2,), 0, width=32, tokens=4)
    entry = Recorded(sweep).record({})
    assert entry["series"] == [] and entry["deep"] is None and not entry["tokenwise"] and entry["worst_case"] == ""


def results(*entries: dict) -> Results:
    claims = [
        Claim(
            f"variant-{e['variant']}-{k}", f"law of {e['variant']}", "supported", "supported", True, (), atlas=(decode(Entry, e),)
        )
        for k, e in enumerate(entries)
    ]
    return Results(Run("quick", tuple(c.id for c in claims)), tuple(claims))


def test_rows_are_grouped_by_class_and_sorted_by_size() -> None:
    names = ("no-residual", "pre-ln", "post-ln", "sandwich-ln", "residual")
    page = atlas(results(*(recorded(name) for name in names)))
    assert page is not None and page.depth == 1000
    found = {heading: [row.variant for row in rows] for heading, rows in page.groups.items()}
    assert [rows for heading, rows in found.items() if heading != OTHERS][:2] == [
        ["post-ln", "residual"],
        ["pre-ln", "sandwich-ln"],
    ]
    assert sorted(name for rows in found.values() for name in rows) == sorted(names)
    assert [len(own) for own in (panels.entries for panels in page.panels)] == [5]


def test_one_wording_for_all_sublayers_that_share_it() -> None:
    page = atlas(results(recorded("post-ln"), recorded("post-ln", "gelu"), recorded("pre-ln"), recorded("pre-ln", "gelu")))
    assert page is not None
    rows = {row.variant: row for group in page.groups.values() for row in group}
    assert rows["post-ln"].words("forward") == "flat in L"
    assert (
        rows["post-ln"].words("in_depth").startswith("flat in L (relu); exponential: (1.0214")
        and len(rows["post-ln"].claims) == 2
    )


def test_a_single_variant_has_no_atlas() -> None:
    one = results(recorded("post-ln"), recorded("post-ln", "gelu"))
    assert atlas(one) is None and "## Atlas" not in render(one)


def test_the_page_is_in_the_report() -> None:
    report = render(results(recorded("post-ln"), recorded("pre-ln")))
    assert report.index("## Atlas of variants") < report.index("## Claims")
    assert "| **pre-ln**<br>" in report and "figures/atlas-tokenwise.png" in report
    row = next(line for line in report.splitlines() if line.startswith("| **pre-ln**"))
    assert row.count("|") - row.count(r"\|") == 10 and "| 501 | 501 |" in row


def test_the_panels_are_a_picture_that_does_not_change() -> None:
    """Also with curves that leave the common axes, and intervals that reach 0."""
    page = atlas(results(recorded("post-ln", base=1e3), recorded("pre-ln", base=1e-4), recorded("residual")))
    assert page is not None
    (panels,) = page.panels
    assert draw_panels(panels)[:8] == b"\x89PNG\r\n\x1a\n" and draw_panels(panels) == draw_panels(panels)
