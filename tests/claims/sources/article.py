"""Claims of the article: products of Jacobians, residuals, variance drift."""

from __future__ import annotations

import numpy as np

from empirical.estimands import count_positive, log_bend, reading, slope_on
from empirical.verdicts import Band
from tests.claims.checks import follows_law, lower, ratio_of_rows
from tests.claims.declaration import SUPPORTED, Check, Claim, Profile, claim
from tests.claims.figures import across_layers
from tests.claims.laws import gradient_law, stream_law
from tests.claims.sweeps import Sweep, cells_of
from tests.claims.texts import ARTICLE, ISOTROPIC, UNPUBLISHED
from theory.underflow import underflow_depth

GRADIENT = "stream-gradient"


def _theirs(what: str, value: str, ours: str) -> dict[str, str]:
    """A figure of the article beside ours."""
    return {"what": what, "source": "the article", "value": value, "ours": ours, "note": UNPUBLISHED}


@claim
def jacobian_product(profile: Profile) -> Claim:
    """Supported: ρ^L with log10 ρ = ½ log10 κ², down to the dtype's smallest number."""
    sweeps = [Sweep("no-residual", "relu", (64,), profile.seed), Sweep("no-residual", "linear", (64,), profile.seed, gain=0.5)]
    single = Sweep("no-residual", "linear", (96,), profile.seed, gain=1 / 16, engine="dense", dtype="float32", width=64)
    layers = np.arange(65.0)
    blocks = underflow_depth(1 / 16, "float32")

    def slope(sweep: Sweep) -> Check:
        kappa = 0.5 * np.log10(0.5)
        return Check(
            f"log10 of the norm per block going down, {sweep.name}",
            slope_on(sweep.deepest, GRADIENT, layers, power=-0.5 / np.log(10)),
            (sweep.deepest,),
            Band(
                kappa - 0.006,
                kappa + 0.006,
                "½ log10 κ² exactly in the mean; ± 0.006 a block is the slope's resolution over 64 blocks (4 %)",
            ),
            "law",
        )

    def straight(sweep: Sweep) -> Check:
        """Twice the log ratio over the upper half is the log ratio over all: a power ρ^L."""
        return Check(
            f"norm over 64 blocks against its extrapolation from the upper 32, {sweep.name}",
            log_bend(sweep.deepest, GRADIENT, (0, 32, 64), power=0.5),
            (sweep.deepest,),
            Band(0.5, 2.0, "ρ^L over 64 blocks spans ten decades: a factor two is straight to 0.005 decades a block"),
            "statement",
            logarithm=True,
        )

    return Claim(
        id="jacobian-product",
        group="gradients",
        title="Without residual the gradient is a power ρ^L, until it underflows",
        statement="Without residual ‖∂y/∂x‖ ≈ ρ^L: over 64 blocks last/first above 10^27, log10 slope 0.443 per block, 40 blocks exactly 0 in fp32.",
        source=ARTICLE,
        reading="The norm of the stream gradient is a straight line in l on a logarithmic scale, with slope ½ log10 κ²; in float32 it is exactly "
        "zero beyond the depth where κ^m crosses half of the smallest subnormal number.",
        law=gradient_law(
            "no-residual", "κ^(2m) for homogeneous sublayers; in float32 exactly 0 beyond m = log(2^-150)/log κ blocks."
        ),
        cells=cells_of(*sweeps, single),
        checks=(
            *(straight(sweep) for sweep in sweeps),
            *(slope(sweep) for sweep in sweeps),
            Check(
                f"layers with a gradient that is not exactly 0, of 97, {single.name}",
                count_positive(single.deepest, GRADIENT),
                (single.deepest,),
                Band(
                    blocks - 4,
                    blocks + 4,
                    "75 blocks of two bits; the largest of 10^5 coordinates lasts one block longer, products that underflow before "
                    "they are summed (width 64: 3 bits) lose up to two",
                ),
                "law",
                predicted=blocks + 1,
            ),
        ),
        expected=SUPPORTED,
        assumptions=ISOTROPIC,
        derived=("no-residual", "relu"),
        zeros_allowed=True,
        figures=(
            across_layers(
                "No residual: gradient norm across the layers",
                "root mean square stream gradient",
                [*sweeps, single],
                GRADIENT,
                0.5,
            ),
        ),
        reported=(
            _theirs("log10 of the norm per block", "0.443", "½ log10 κ²: 0.443 is κ² = 0.130"),
            _theirs("last over first, 64 blocks", "above 10^27", "10^(0.443 · 64) = 10^28 by the law"),
            _theirs("blocks exactly 0 in fp32", "40 of 64", "depends on κ and on the first gradient's size; see the check"),
        ),
    )


@claim
def residual_keeps_order_one(profile: Profile) -> Claim:
    """Supported: (1 + κ²)^m, of order one when κ² L is."""
    small = Sweep("residual-only", "relu", (64,), profile.seed, gain=0.2)
    unit = Sweep("residual-only", "relu", (16,), profile.seed)
    return Claim(
        id="residual-keeps-order-one",
        group="gradients",
        title="With a residual the gradient grows as (1 + κ²)^m: order one for weak branches",
        statement="With residual connections the gradient keeps its order of magnitude: ratio 1.9 over 64 blocks (1.96 → 3.65).",
        source=ARTICLE,
        reading="Norm of the stream gradient at the first over the last layer of 64 blocks within a factor ten, for a branch of κ² = 0.02 "
        "(the strength that the source's ratio implies). The law is checked at unit gain too, where the ratio is not of order one for long. "
        "J = 1 + J_F exactly is a property test (tests/test_blocks.py).",
        law=gradient_law("residual-only", "J = 1 + J_F, whose mean square gain is 1 + κ²."),
        cells=small.cells | unit.cells,
        checks=(
            ratio_of_rows(
                small,
                "norm at 0 over norm at L",
                GRADIENT,
                (0, 64),
                Band(0.1, 10, "order one: within a factor ten over the whole stack"),
                "statement",
                SUPPORTED,
                0.5,
            ),
            follows_law(small, GRADIENT),
            follows_law(unit, GRADIENT),
        ),
        expected=SUPPORTED,
        assumptions=ISOTROPIC,
        derived=("residual-only", "relu"),
        figures=(
            across_layers(
                "Residual without norm: gradient norm across the layers",
                "root mean square stream gradient",
                [small, unit],
                GRADIENT,
                0.5,
            ),
        ),
        reported=(
            _theirs(
                "norm ratio over 64 blocks",
                "1.9 (1.96 → 3.65)",
                f"{np.sqrt(small.predicted(GRADIENT, 64)[0]):.2f} by the law at κ² = 0.02",
            ),
        ),
    )


@claim
def variance_drift(profile: Profile) -> Claim:
    """Supported: (1 + s²)^l."""
    small, unit = (
        Sweep("residual-only", "relu", (40,), profile.seed, gain=0.3),
        Sweep("residual-only", "relu", (16,), profile.seed),
    )
    name = "branch-variance"
    return Claim(
        id="variance-drift",
        group="forward",
        title="Without norm the variance drifts as (1 + s²)^l",
        statement="Without norm the variance of the sublayer's input drifts from 1 to 6.05 over 40 blocks.",
        source=ARTICLE,
        reading="The variance of what enters the sublayer grows geometrically; a branch of s² = 0.045, near the strength that the source's figure "
        "implies, and unit gain.",
        law=stream_law("residual-only", "Independent branches add in square: (1 + s²)^l; 6.05 over 40 blocks is s² = 0.046."),
        cells=small.cells | unit.cells,
        checks=(
            ratio_of_rows(
                small,
                "variance at block 40 over block 1",
                name,
                (39, 0),
                lower(2.0, "drift: the variance at least doubles over the stack"),
                "statement",
                SUPPORTED,
            ),
            follows_law(small, name),
            follows_law(unit, name),
        ),
        expected=SUPPORTED,
        assumptions=ISOTROPIC,
        derived=("residual-only", "relu"),
        figures=(
            across_layers(
                "Residual without norm: variance of the sublayer's input", "variance", [small, unit], name, file="blocks"
            ),
        ),
        reported=(
            _theirs(
                "variance over 40 blocks",
                "1 → 6.05",
                f"1 → {small.predicted('stream-moment', 40)[-1]:.2f} by the law at s² = 0.045",
            ),
        ),
    )


@claim
def norm_pins_variance(profile: Profile) -> Claim:
    """Supported; RMSNorm fixes the second moment, so its variance is 1 − O(1/d)."""
    layer, rms = (
        Sweep("pre-ln", "relu", (40,), profile.seed, width=64),
        Sweep("pre-rmsnorm", "relu", (40,), profile.seed, width=64),
    )
    name = "branch-variance"
    return Claim(
        id="norm-pins-variance",
        group="forward",
        title="LayerNorm pins the variance at 1, RMSNorm at 1 − 1/d",
        statement="With LayerNorm the sublayer's input has variance 1.000 at the last block, with RMSNorm 0.986.",
        source=ARTICLE,
        reading="Variance over the width of what enters the last of 40 sublayers, Pre-LN placement, d = 64.",
        law={
            "latex": r"\mathrm{Var}[\mathrm{LN}(x)] = 1,\qquad \mathrm{Var}[\mathrm{RMS}(x)] = 1 - \bar x^2/\mathrm{RMS}(x)^2 \approx 1 - 1/d",
            "text": "RMSNorm fixes the second moment; the mean of d nearly independent coordinates takes 1/d of it.",
        },
        cells=layer.cells | rms.cells,
        checks=(
            Check(
                f"variance at block 40, {layer.name}",
                reading(layer.deepest, name, -1),
                layer.names,
                Band(1 - 1e-9, 1 + 1e-9, "exact up to rounding"),
                "statement",
            ),
            Check(
                f"variance at block 40, {rms.name}",
                reading(rms.deepest, name, -1),
                rms.names,
                Band(0.98, 0.99, "1 − 1/d = 0.984 at d = 64, ± 0.005: the source's 0.986 fits this width"),
                "statement",
                predicted=1 - 1 / 64,
            ),
        ),
        expected=SUPPORTED,
        assumptions=ISOTROPIC,
        figures=(
            across_layers(
                "Variance of the sublayer's input",
                "variance",
                [layer, rms],
                name,
                scales=("linear", "linear"),
                lines=[("1 − 1/d", [1, 40], [1 - 1 / 64] * 2)],
                file="blocks",
            ),
        ),
        reported=(
            _theirs("variance at the last block, LayerNorm", "1.000", "1 exactly"),
            _theirs("variance at the last block, RMSNorm", "0.986", "1 − 1/d: 0.986 fits d = 64 … 72"),
        ),
    )
