"""One constant, three laws: V from three derivations, the scatter's recursion, and claims that refute another V."""
# ruff: noqa: D103

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from empirical.estimands import log_scatter_relative
from empirical.measurement import Cell, measure
from empirical.statistics import estimate
from empirical.verdicts import Verdict
from tests.claims.declaration import PROFILES
from tests.claims.sources.finite_size import Network, one_constant_three_laws
from tests.claims.sweeps import Sweep
from theory.configuration import Configuration
from theory.errors import InvalidInput
from theory.finite_width import derivation
from theory.finite_width.derivation import SUBLAYERS, VALUES, A, B, R, c, one_constant
from theory.finite_width.variance import singular_variance
from theory.prediction import mean_square
from theory.quantities import quantity
from theory.scatter import log_gradient, scatter_steps
from theory.stack import profile
from theory.sublayers import sublayer
from theory.variants import load

CPU = torch.device("cpu")
LOGARITHMS = ("log-gradient", "squared-log-gradient")


@pytest.mark.parametrize("kind", SUBLAYERS.values(), ids=list(SUBLAYERS))
def test_three_derivations_give_one_constant(kind: derivation.Homogeneous) -> None:
    """THEORY.md 3: (2κ² + τ((BB*)²) − κ⁴)/(1+κ²)² with τ((BB*)²) = κ⁴(1 + V_F), as rational functions."""
    known = (2 * A * B + kind.free * B**2) / (A + B) ** 2
    for formula in (derivation.variance(kind), derivation.excess(kind), derivation.scatter(kind) / 4):
        assert sympy.cancel(formula - known) == 0


@pytest.mark.parametrize(("name", "value"), [("linear", sympy.Rational(3, 4)), ("relu", sympy.Rational(7, 9)), ("attention", 1)])
def test_known_constants(name: str, value: sympy.Expr) -> None:
    key, values = VALUES[name]
    gain = sympy.Rational(1, 2) if name == "relu" else sympy.Integer(1)
    assert derivation.variance(SUBLAYERS[key]).subs(values).subs({A: 1, B: gain}) == value


def test_the_linear_constant_is_the_notes() -> None:
    """THEORY.md 2: V = (2σ²+σ⁴)/(1+σ²)², from (4σ²+2σ⁴)/(1+σ²)² − σ²/(1+σ²) − σ²/(1+σ²)²."""
    s = sympy.Symbol("sigma2", positive=True)
    notes = (4 * s + 2 * s**2) / (1 + s) ** 2 - s / (1 + s) - s / (1 + s) ** 2
    assert sympy.cancel(derivation.excess(SUBLAYERS["linear"]).subs({A: 1, B: s}) - notes) == 0


@pytest.mark.parametrize("name", ["linear", "relu", "leaky-relu", "attention"])
@pytest.mark.parametrize("expansion", [1, 4])
def test_symbols_are_the_sublayers_own_fluctuations(name: str, expansion: int) -> None:
    maps = sublayer(name)
    numbers = maps.fluctuations(1.3, expansion)
    kind = SUBLAYERS[{"linear": "linear", "attention": "attention"}.get(name, "ffn")]
    ratio = {"relu": 2.0, "leaky-relu": 2 * (1 + 1e-8) / (1 + 1e-4) ** 2}.get(name, 1.0)
    for field in ("length", "gradient", "coupling", "conditioned"):
        value = float(getattr(kind, field).subs({R: ratio, c: expansion}))
        assert getattr(numbers, field) == pytest.approx(value, abs=1e-6), field
    assert maps.spread(1.3, expansion) - 1 == pytest.approx(float(kind.free.subs({R: ratio, c: expansion})), abs=1e-6)


@settings(deadline=None, max_examples=12)
@given(st.sampled_from(["linear", "relu"]), st.floats(0.2, 4.0), st.sampled_from(["post-ln", "post-rmsnorm", "deepnorm"]))
def test_homogeneous_blocks_have_v_in_mean_and_scatter(name: str, gain: float, variant: str) -> None:
    """The numeric recursion, per block and times d: the excess of the mean is V, a quarter of the scatter is V."""
    excess, quarter, v = _per_block(name, gain, variant)
    assert excess == pytest.approx(v, rel=2e-3)
    assert quarter == pytest.approx(v, rel=2e-3)


@pytest.mark.parametrize("name", ["tanh", "gelu"])
def test_others_do_not(name: str) -> None:
    excess, quarter, v = _per_block(name, 1.0, "post-ln")
    assert excess < quarter < 0.98 * v and excess < 0.95 * v


def _per_block(name: str, gain: float, variant: str) -> tuple[float, float, float]:
    configuration = Configuration(load(variant), (name,), 12, 2**14, gain=gain)
    finite, infinite = (profile(configuration, 1, infinite_width=limit) for limit in (False, True))
    log = [np.log(mean_square(a) / mean_square(b)) for a, b in zip(finite.backward, infinite.backward, strict=True)]
    assert finite.scatter is not None
    scatter = [float(value[0]) for value in finite.scatter]
    excess, quarter = (2**14 * (values[1] - values[11]) / 10 for values in (log, [value / 4 for value in scatter]))
    return float(excess), float(quarter), singular_variance(configuration, infinite.blocks[5][0])


@pytest.mark.parametrize("tokens", [1, 3])
def test_attention_of_tokens_that_are_alike(tokens: int) -> None:
    """V adds over a block's sublayers: 1 for W_O W_V, 7/9 for the ReLU FFN behind it."""
    found = profile(Configuration(load("post-ln"), ("attention", "relu"), 40, 2**14, tokens=tokens, heads=1), tokens)
    values = [singular_variance(found.configuration, step) for step in found.blocks[-2]]
    np.testing.assert_allclose(values, [1.0, 7 / 9], rtol=1e-3)


@pytest.mark.parametrize(
    ("variant", "name", "gain"),
    [
        ("post-ln", "relu", 1.0),
        ("post-rmsnorm", "linear", 2.0),
        ("post-ln", "tanh", 1.0),
        ("pre-ln", "gelu", 1.0),
        ("residual-only", "relu", 1.0),
    ],
)
def test_scatter_of_real_networks(variant: str, name: str, gain: float) -> None:
    """Every layer within 10 % plus sampling error; four times the law, or a quarter, is refuted."""
    sweep = Sweep(variant, name, (6,), 1, 96, 1, gain=gain, extra=LOGARITHMS)
    values = measure(sweep.cells[sweep.deepest], range(3000), CPU).values
    mean, square = (sweep.predicted(quantity_, 6) for quantity_ in LOGARITHMS)
    found = estimate(log_scatter_relative("own", square - mean**2), {"own": {n: values[n] for n in LOGARITHMS}})
    assert (found.low < np.log(1.1)).all() and (found.high > -np.log(1.1)).all()
    assert (np.abs(found.value) < np.log(1.2)).all()
    np.testing.assert_allclose(values["log-gradient"].mean(axis=0), mean, atol=0.05)


def test_the_probes_read_each_token() -> None:
    cell = Cell(Configuration(load("post-ln"), ("relu",), 2, 16, 3), seed=2, extra=LOGARITHMS)
    values = measure(cell, range(5), CPU).values
    assert (values["squared-log-gradient"] >= values["log-gradient"] ** 2).all()
    plain = measure(replace(cell, extra=()), range(5), CPU).values
    assert (values["log-gradient"] <= np.log(plain["stream-gradient"])).all()  # Jensen, over tokens
    assert not set(LOGARITHMS) & set(plain)


def test_no_scatter_for_several_streams() -> None:
    with pytest.raises(InvalidInput, match="are not derived"):
        quantity("log-gradient").predicted(Configuration(load("residual"), ("relu",), 2, 16))


def test_pre_lns_scatter_is_a_logarithm() -> None:
    """8/j a block: half-way up it does not grow with L, at the bottom each doubling adds 8 ln 2."""
    width = 2**14
    bottom, middle = [], []
    for depth in (256, 512, 1024):
        variances = [
            variance[0] for _, variance in log_gradient(profile(Configuration(load("pre-ln"), ("linear",), depth, width), 1))
        ]
        bottom.append(width * variances[0])
        middle.append(width * variances[depth // 2])
    np.testing.assert_allclose(np.diff(bottom), 8 * np.log(2), rtol=0.01)
    assert max(middle) / min(middle) < 1.01
    assert any("8" in step.text and "ln(L/l)" in step.text for step in scatter_steps())


@pytest.mark.parametrize("gain", [1.0, 0.25])
def test_the_claims_readings_tell_one_constant_from_another(gain: float) -> None:
    """Negative control: networks of V = 3/4 against the bands of V = 3/4, and of V = 9/25: refuted, by each reading."""
    network = Network("post-rmsnorm", "linear", 1.0, (32, 64), 3)
    other = Network("post-rmsnorm", "linear", gain, (32, 64), 3)
    assert other.derived == pytest.approx((2 * gain + gain**2) / (1 + gain) ** 2, rel=1e-3)
    members = {sweep.deepest: 2048 for sweep in (network.stack, *network.norms)}
    values = {
        sweep.deepest: measure(sweep.cells[sweep.deepest], range(members[sweep.deepest]), CPU).values
        for sweep in (network.stack, *network.norms)
    }
    for reading, (statistic, cells) in network.readings().items():
        found = estimate(statistic, {label: values[label] for label in cells})
        low, high = np.exp([found.low[0], found.high[0]])
        if gain == 1.0:
            assert low < 1.05 * other.derived and high > 0.95 * other.derived, reading
        else:
            assert low > 1.15 * other.derived, reading


def test_the_claim_expects_what_its_checks_do() -> None:
    claim = one_constant_three_laws(PROFILES["quick"])
    assert {check.expected for check in claim.checks} == {Verdict.SUPPORTED} and len(claim.checks) % 3 == 0
    assert [step.title for step in claim.steps] == [step.title for step in one_constant("relu")]
