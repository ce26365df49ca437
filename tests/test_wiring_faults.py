"""Mistakes of public implementations are told from the right variant by the generic claims' checks or the sanity gate.

Each is built as a faulty network (another expression, or weights drawn another way) and judged as if it were the right one:
by the right variant's gate and, where that passes, by its generic checks. The right network passes the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from empirical import measurement
from empirical.layers import RandomLinear
from empirical.measurement import Cell
from tests.claims.declaration import PROFILES, Claim
from tests.claims.runner import Laboratory, run
from tests.claims.sources import generic
from theory.algebra import LN, F, Stream, Variant
from theory.variants import load

x, r = Stream("x"), Stream("r")
FAULT = "a fault seen in public implementations"
DEEPNORM, RESIDUAL = load("deepnorm"), load("residual")
((ALPHA, _),) = DEEPNORM.formulas
TINY = replace(PROFILES["quick"], name="tiny", depths=(2, 4, 8), budget=1024, sublayers=("relu",), seed=17)


def judged(claim: Claim) -> dict[str, Any]:
    return run(claim, Laboratory(torch.device("cpu"), TINY.budget))


def claims(name: str) -> list[Claim]:
    """Both generic claims of a variant, small."""
    tokenwise, attention = (part(name, TINY) for part in generic.PARTS.values())
    return [tokenwise, attention]


def built_as(claim: Claim, wiring: Variant) -> Claim:
    """The claim, on networks with another wiring; laws and bands stay the right variant's."""
    cells = {
        label: replace(cell, configuration=replace(cell.configuration, variant=wiring))
        for label, cell in claim.cells.items()
        if isinstance(cell, Cell)
    }
    return replace(claim, cells=cells, atlas=())


WIRINGS = {
    # x = N(x); x = x + F(x), where the residual should be taken before the norm.
    "residual after the norm": ("pre-ln", Variant("wrong", LN(x) + F(LN(x)), FAULT, read_out=LN(x))),
    # α scales the branch in place of the stream: gradients stay flat, but a block moves the stream α⁴ times as far (in square).
    "alpha on the branch": (
        "deepnorm",
        Variant("wrong", LN(x + ALPHA * F(x)), FAULT, constants=DEEPNORM.constants, gain=DEEPNORM.gain),
    ),
    # r is normalised in every block, where only the read-out should do it.
    "norm inside ResiDual's loop": (
        "residual",
        Variant("wrong", {"x": LN(x + F(x)), "r": LN(r + F(x))}, FAULT, read_out=RESIDUAL.read_out),
    ),
    "final norm missing": ("pre-ln", Variant("wrong", x + F(LN(x)), FAULT)),
}


@pytest.mark.parametrize("fault", WIRINGS)
def test_another_wiring_is_refuted(fault: str) -> None:
    name, wrong = WIRINGS[fault]
    (claim, _) = claims(name)
    found = judged(built_as(claim, wrong))
    assert found["error"] is None and not found["passed"]
    assert "refuted" in {check["verdict"] for check in found["checks"]}


@pytest.mark.parametrize("fault", ["residual after the norm", "final norm missing"])
def test_another_wiring_is_refuted_with_attention(fault: str) -> None:
    name, wrong = WIRINGS[fault]
    (_, claim) = claims(name)
    found = judged(built_as(claim, wrong))
    assert found["error"] is None and "refuted" in {check["verdict"] for check in found["checks"]}


@pytest.mark.parametrize("name", sorted({name for name, _ in WIRINGS.values()} | {"post-ln"}))
def test_the_right_wiring_passes(name: str) -> None:
    (claim, _) = claims(name)
    assert judged(replace(claim, atlas=()))["passed"]


def test_a_doubled_final_norm_is_the_same_function() -> None:
    """LN(LN(x)) = LN(x), value and Jacobian, at gain 1 and bias 0: no measurement at initialisation can tell them apart.

    They differ in training only, by a second gain and bias. So the claim passes, and has to.
    """
    (claim, _) = claims("post-ln")
    doubled = Variant("wrong", LN(x + F(x)), FAULT, read_out=LN(x))
    pairs = [(judged(built_as(claim, variant))) for variant in (load("post-ln"), doubled)]
    assert all(found["passed"] for found in pairs)
    values = [[check["measured"] for check in found["checks"]] for found in pairs]
    assert values[1] == pytest.approx(values[0], rel=5e-3)  # the read-out's LN takes the gradient along x out: 1/d of its square


class Cloned(RandomLinear):
    """All layers start as copies of the first, as a stack that deep-copies one layer does."""

    def __call__(self, key: tuple[int, int, str], x: torch.Tensor, *rest: Any, **more: Any) -> torch.Tensor:
        first = (1, *key[1:])
        if key == first:
            return super().__call__(key, x, *rest, **more)
        drawn, self.draws.normal = self.draws.normal, lambda *_, **__: self.matrices[first]  # type: ignore[method-assign]
        try:
            return super().__call__(key, x, *rest, **more)
        finally:
            self.draws.normal = drawn  # type: ignore[method-assign]


class Packed(RandomLinear):
    """Queries, keys and values drawn as one packed matrix by Xavier's rule: 2/(d + 3d) in place of 1/d, half the variance."""

    def __call__(self, key: tuple[int, int, str], x: torch.Tensor, *rest: Any, **more: Any) -> torch.Tensor:
        if key[2] not in ("WQ", "WK", "WV"):
            return super().__call__(key, x, *rest, **more)
        drawn = self.draws.normal
        self.draws.normal = lambda *a, **b: drawn(*a, **b) / 2**0.5  # type: ignore[method-assign]
        try:
            return super().__call__(key, x, *rest, **more)
        finally:
            self.draws.normal = drawn  # type: ignore[method-assign]


def drawn_by(linear: type[RandomLinear], monkeypatch: pytest.MonkeyPatch, claim: Claim) -> dict[str, Any]:
    """The claim on few dense networks whose weights ``linear`` draws."""
    monkeypatch.setattr(measurement, "RandomLinear", lambda draws, engine, *_, **__: linear(draws, engine, keep=True))
    cells = {
        label: replace(cell, engine="dense", configuration=replace(cell.configuration, width=64))
        for label, cell in claim.cells.items()
        if isinstance(cell, Cell)
    }
    laboratory = Laboratory(torch.device("cpu"), 8)
    return run(replace(claim, cells=cells, atlas=(), figures=(), first_look=8), laboratory)


def test_cloned_layers_are_refused_by_the_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    (claim, _) = claims("pre-ln")
    assert "layers are clones of each other" in drawn_by(Cloned, monkeypatch, claim)["error"]


def test_packed_initialisation_is_refused_by_the_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    (_, claim) = claims("pre-ln")
    assert "W" in (error := drawn_by(Packed, monkeypatch, claim)["error"]) and "the weights' variance is 0.5" in error


def test_right_weights_pass_the_same_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    for claim in claims("pre-ln"):
        found = drawn_by(RandomLinear, monkeypatch, claim)
        assert found["error"] is None and found["sanity"]["passed"]
