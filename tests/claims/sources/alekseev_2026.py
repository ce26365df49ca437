"""Claims of Alekseev 2026: Pre-LN's gradient is a power law of depth, a pointwise stand-in's a stretched exponential."""

from __future__ import annotations

import numpy as np

from empirical.estimands import growth_of_logarithm_along, log_ratio, slope_on
from empirical.statistics import Means
from empirical.verdicts import Band, Verdict
from tests.claims.checks import VARIANT, follows_law
from tests.claims.declaration import REFUTED, SUPPORTED, Check, Claim, Profile, Whose, claim
from tests.claims.figures import across_layers
from tests.claims.laws import relative_gradient_law
from tests.claims.sweeps import Sweep, cells_of
from tests.claims.texts import ISOTROPIC
from theory.laws.derivation import values_of
from theory.laws.law import derive
from theory.sublayers import sublayer
from theory.variants import load

ALEKSEEV = "Alekseev, arXiv 2604.11890 (2026; mean-field signal propagation in Transformers, part 1)"
GRADIENT, MOMENT = "stream-gradient", "stream-moment"
_FROM = 8
ROWS = (32, 128, 512)


def exponent(sweep: Sweep, value: float, of: Whose, why: str) -> Check:
    """The gradient's exponent in q_l, which is linear in l."""
    depth, rows = sweep.depths[-1], slice(_FROM, None)
    x = -np.log(sweep.predicted(MOMENT, depth))[rows]
    return Check(
        f"exponent ζ of the squared gradient in L/l, l = {_FROM} to {depth}, {sweep.name}",
        slope_on(sweep.deepest, GRADIENT, x, rows),
        (sweep.deepest,),
        Band(value - 0.1, value + 0.1, f"{why}; finite width adds up to 2 ΣV/d, 0.02 in the exponent; the rest is resolution"),
        of,
    )


@claim
def pre_ln_power_law(profile: Profile) -> Claim:
    """Supported: ζ = κ²/s², 1 for ReLU and the identity."""
    names = ("linear", "relu", "tanh")
    sweeps = [Sweep("pre-ln", name, profile.depths, profile.seed) for name in names]
    return Claim(
        id="pre-ln-power-law",
        group="gradients",
        title="Pre-LN's gradient is the power law (L/l)^ζ, with ζ = 1 for ReLU and the identity",
        statement="Pre-LN: the averaged squared Jacobian from layer l to layer L is ∏(1 + ζ/k), so (L/l)^ζ, with ζ = 1 for ReLU and the identity.",
        source=ALEKSEEV,
        reading=f"Slope of the logarithm of the squared stream gradient on −ln q_l (q_l is linear in l), layers {_FROM} to L of the deepest network.",
        law=relative_gradient_law(
            "pre-ln",
            f"A ratio of Gamma functions that falls as (L/l)^(κ²/s²): 1 by homogeneity for linear and ReLU, {zeta('tanh'):.3f} for tanh.",
            homogeneous=False,
        ),
        cells=cells_of(*sweeps),
        checks=(
            *(exponent(sweep, 1.0, "statement", "ζ = 1") for sweep in sweeps[:2]),
            exponent(sweeps[2], zeta("tanh"), "law", "ζ = κ²/s²"),
            *(follows_law(sweep, GRADIENT, resolution=VARIANT) for sweep in sweeps),
        ),
        expected=SUPPORTED,
        assumptions=ISOTROPIC,
        derived=("pre-ln", "relu"),
        figures=(
            across_layers(
                "Pre-LN: squared gradient across the layers",
                "square over the last layer's",
                sweeps,
                GRADIENT,
                relative=True,
                scales=("log", "log"),
            ),
        ),
    )


def zeta(name: str) -> float:
    """ζ of a sublayer, from Pre-LN's law."""
    law = derive(load("pre-ln"))
    values = values_of(law, (sublayer(name),))
    assert values is not None
    return float(law.product.subs(values).exponent)


def stretched(sweep: Sweep, power: float, what: str, of: Whose, expected: Verdict) -> Check:
    """ln G between layers 128 and 512 over ln G between layers 32 and 128."""
    return Check(
        f"fall of ln(squared gradient) over layers {ROWS[1]} to {ROWS[2]}, over its fall from {ROWS[0]} to {ROWS[1]}, {sweep.name}",
        growth_of_logarithm_along(sweep.deepest, GRADIENT, ROWS),
        (sweep.deepest,),
        Band(4 ** (power - 0.25), 4 ** (power + 0.25), f"{what}: 4^p for e^(l^p), p within a quarter of {power:g}"),
        of,
        expected,
        logarithm=True,
    )


@claim
def dynamic_tanh_stretched_exponential(profile: Profile) -> Claim:
    """Supported: ln G grows like √L, neither like ln L nor like L."""
    tanh, pre = (Sweep(variant, "relu", (512,), profile.seed, 128, 2) for variant in ("dynamic-tanh", "pre-ln"))
    fall = float(np.log(tanh.predicted(GRADIENT, 512)[ROWS[0]] / tanh.predicted(GRADIENT, 512)[ROWS[2]]))
    half = 0.05 + 2 / tanh.width

    def relative(means: Means) -> np.ndarray:
        return log_ratio(tanh.deepest, GRADIENT, ROWS[0], ROWS[2])(means) / fall

    return Claim(
        id="dynamic-tanh-stretched-exponential",
        group="variants",
        title="With dynamic tanh for norms the gradient is a stretched exponential, e^√(l/λ)",
        statement="With a pointwise tanh or erf in place of Pre-LN's norms the averaged squared Jacobian is a stretched exponential e^√(l/λ) from the "
        "last layer to the first, where LN has a power law.",
        source=ALEKSEEV,
        reading="512 ReLU blocks: ln of the squared stream gradient falls twice as much from layer 128 to 512 as from 32 to 128 (e^√l), not equally "
        "much (a power law) or four times as much (an exponential). Pre-LN beside it.",
        law={
            "latex": r"\chi - 1 = \kappa^2\,\alpha^2\, E\operatorname{sech}^4(\alpha\sqrt{q_l}\,z) \to \frac{2\alpha}{3\sqrt{\pi l}},\qquad "
            r"\ln G(l \to L) \to \sqrt{L/\lambda} - \sqrt{l/\lambda},\qquad \lambda = \frac{9\pi}{16\,\alpha^2}",
            "text": "tanh(αx) saturates: a block adds about s² = 1/2 to q, and hands a gradient back only where |x| is below 1/α, a share of the coordinates "
            "that falls as 1/√q. ∫sech⁴ = 4/3, density at 0 1/√(2πq), q → l/2. λ = 7.07 at α = 1/2, for ReLU.",
        },
        cells=cells_of(tanh, pre),
        checks=(
            stretched(tanh, 0.5, "a stretched exponential e^√l", "statement", SUPPORTED),
            stretched(tanh, 0.0, "a power law", "law", REFUTED),
            stretched(pre, 0.0, "a power law", "statement", SUPPORTED),
            Check(
                f"ln of the squared gradient, layer {ROWS[0]} over layer {ROWS[2]}, measured over predicted, {tanh.name}",
                relative,
                (tanh.deepest,),
                Band(
                    1 - half,
                    1 + half,
                    f"finite width: a step of gain χ has V ≈ 2(χ − 1), so the square gains ΣV/d = 2 ln(G)/d, 2/d = {2 / tanh.width:.3f} of ln G; "
                    "plus 5 % resolution",
                ),
                "law",
            ),
        ),
        expected=SUPPORTED,
        assumptions=(*ISOTROPIC, "no attention; d = 128, 2 tokens"),
        derived=("dynamic-tanh", "relu"),
        figures=(
            across_layers(
                "Squared gradient across 512 blocks", "square over the last layer's", [tanh, pre], GRADIENT, relative=True
            ),
        ),
    )
