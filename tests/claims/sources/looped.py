"""The article's looped blocks at initialisation: one block's weights, applied again and again."""

from __future__ import annotations

import sympy

from empirical.estimands import log_ratio_of_cells, log_reading
from empirical.verdicts import Band
from tests.claims.checks import follows_law_in_the_limit, ratio_of_rows, upper
from tests.claims.declaration import BY_CONDITION, REFUTED, SUPPORTED, Check, Claim, Profile, claim
from tests.claims.figures import across_layers
from tests.claims.sweeps import Sweep, cells_of
from tests.claims.texts import ARTICLE
from theory.laws.tied import derive_tied
from theory.variants import load

GRADIENT = "stream-gradient"
WIDTHS, SHALLOW, DEEP, WEAK = (128, 256), 8, 24, 64
_ORDER_ONE = Band(0.1, 10, "order one: within a factor ten over the whole stack, as for residuals with fresh weights")


def sweep(variant: str, sublayers: str, depth: int, profile: Profile, width: int = 256, gain: float = 1.0) -> Sweep:
    """One looped network."""
    return Sweep(variant, sublayers, (depth,), profile.seed, width, gain=gain, dtype="float32")


def _law() -> dict[str, str]:
    law = derive_tied(load("looped-residual"))
    left = r"\frac{E|\partial\mathcal{L}/\partial x_{L-m}|^2}{E|\partial\mathcal{L}/\partial x_L|^2}"
    return {
        "latex": rf"{left} = {sympy.latex(law.gain)} \sim \frac{{(1+\kappa)^{{2m+1}}}}{{2\sqrt{{\pi m\kappa}}}}",
        "text": "Linear sublayer of gain κ² around a shortcut: binomial(2m, m) at κ = 1, where fresh weights give 2^m. Without a shortcut κ^(2m), "
        "tied or not. Looped Pre-LN: the stream grows as l² in square, and the gradient at its input is flat in L.",
    }


@claim
def looped_blocks(profile: Profile) -> Claim:
    """By condition: the shortcut keeps the gradient alive, but without a norm it explodes, faster than with fresh weights."""
    bare, unit, pre = (
        sweep(variant, "relu", DEEP, profile) for variant in ("looped-no-residual", "looped-residual", "looped-pre-ln")
    )
    weak = sweep("looped-residual", "relu", WEAK, profile, gain=0.2)
    pairs = [
        [sweep(variant, sublayers, SHALLOW, profile, width) for width in WIDTHS]
        for variant, sublayers in (
            ("looped-residual", "linear"),
            ("looped-residual", "relu"),
            ("looped-no-residual", "linear"),
            ("looped-pre-ln", "relu"),
        )
    ]
    shallow = pairs[-1][-1]
    ends = "norm at 0 over norm at L"

    def survives(of: Sweep) -> Check:
        return ratio_of_rows(of, ends, GRADIENT, (0, of.depths[-1]), _ORDER_ONE, "statement", REFUTED, 0.5)

    return Claim(
        id="looped-blocks",
        group="gradients",
        title="One block applied again and again: the shortcut needs a norm",
        statement="The shortcut lets one block be applied again and again.",
        source=ARTICLE,
        reading=f"At initialisation, all blocks with the same weights. Without a shortcut the gradient is lost over {DEEP} uses (norm below a hundredth). "
        f"With one it keeps its order: norm at the first over the last layer within a factor ten, over {DEEP} uses at unit gain and over {WEAK} at "
        "κ² = 0.02, the strength that the article's own figures imply. With Pre-LN and its final norm: the squared gradient at the input within a factor "
        f"ten of the output's, and the same at {DEEP} as at {SHALLOW} uses within a factor two. Training is a claim of its own.",
        law=_law(),
        cells=cells_of(bare, unit, pre, weak, *(of for pair in pairs for of in pair)),
        checks=(
            ratio_of_rows(
                bare,
                ends,
                GRADIENT,
                (0, DEEP),
                upper(0.01, "lost: below a hundredth of the output's"),
                "statement",
                SUPPORTED,
                0.5,
            ),
            survives(unit),
            survives(weak),
            Check(
                f"squared gradient at the input, {pre.name}",
                log_reading(pre.deepest, GRADIENT, 0),
                pre.names,
                _ORDER_ONE,
                "statement",
                logarithm=True,
            ),
            Check(
                f"squared gradient at the input, L={DEEP} over L={SHALLOW}, {pre.name}",
                log_ratio_of_cells(pre.deepest, shallow.deepest, GRADIENT, 0),
                (pre.deepest, shallow.deepest),
                Band(1 / 2, 2, "flat in depth: less than a factor two"),
                "statement",
                logarithm=True,
            ),
            *(follows_law_in_the_limit(pair, GRADIENT, 0.1) for pair in pairs),
        ),
        expected=BY_CONDITION,
        assumptions=(
            "weights independent N(0, 1/fan_in), one block's for all blocks, at initialisation",
            "inputs independent N(0, 1), independent N(0, 1) gradient at every coordinate of the output",
            "float32 (rounding is below 1e-5 of every reading)",
        ),
        derived=("looped-residual", "relu"),
        figures=(
            across_layers(
                "Looped blocks: squared stream gradient across the layers", "squared stream gradient", [unit, pre, bare], GRADIENT
            ),
        ),
    )
