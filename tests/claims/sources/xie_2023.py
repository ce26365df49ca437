"""Claims of Xie et al. 2023 (ResiDual): the gradient's lower bound, its printed size, and the output's change per layer."""

from __future__ import annotations

from math import exp, log, sqrt

import numpy as np

from empirical.estimands import local_exponents, log_ratio, log_relative, slope_on
from empirical.verdicts import Band, Verdict
from tests.claims.checks import VARIANT, follows_law, law_band, lower
from tests.claims.declaration import BY_CONDITION, REFUTED, SUPPORTED, Check, Claim, Profile, claim
from tests.claims.figures import across_layers
from tests.claims.sweeps import Sweep, cells_of, short_transformer
from tests.claims.texts import ROUNDED, SECOND_HAND
from theory.prediction import profile as recursion

XIE = "Xie et al., ResiDual: Transformer with Dual Residual Connections, arXiv 2304.14802 (2023)"
PARAMETER, CHANGE = "output-matrix-gradient", "output-change"
_RELU_SQUARE = 0.5  # E relu(z)², the second moment of what W₂ reads


def dual_part(sweep: Sweep) -> float:
    """W₂'s squared gradient through the dual stream alone, the same for every block: r hands its gradient down unchanged."""
    depth = sweep.depths[-1]
    gradients = recursion(sweep.configuration(depth), sweep.tokens, infinite_width=True).backward[0]["r", "r"]
    return float(np.trace(gradients)) * sweep.width**2 * _RELU_SQUARE


def printed(block: int, depth: int) -> float:
    """max{(1/2)^((N−k)/2) e^√(N−k), √(log(N−k)/N)} for k < N."""
    above = depth - block
    return max(0.5 ** (above / 2) * exp(sqrt(above)), sqrt(log(above) / depth))


def bounded_below(sweep: Sweep) -> Check:
    """Every block's W₂ over the dual stream's part."""
    depth = sweep.depths[-1]
    return Check(
        f"square of W₂'s gradient over the dual stream's part alone, every block of L={depth}, {sweep.name}",
        log_relative(sweep.deepest, PARAMETER, np.full(depth, dual_part(sweep))),
        sweep.names,
        lower(1.0, "a lower bound: at least the part that comes down the dual stream"),
        "statement",
        logarithm=True,
    )


@claim
def residual_gradient_bound(profile: Profile) -> Claim:
    """Supported, with much room: the dual stream's part is a small share at initialisation."""
    tokenwise = Sweep("residual", "relu", (32,), profile.seed)
    attention = short_transformer("residual", profile.seed, 24)
    return Claim(
        id="residual-gradient-bound",
        group="variants",
        title="ResiDual's gradient has a lower bound: what its second stream hands down",
        statement="ResiDual has a lower bound on the gradient, from the residual connection that it shares with Pre-LN, and so no vanishing.",
        source=XIE + ", abstract",
        reading="W₂'s squared gradient in every block is at least what reaches it down the second stream alone; the whole profile of the "
        "token-wise stack follows the recursion of the two streams' gradients.",
        law={
            "latex": r"\frac1d E|\partial\mathcal L/\partial r_l|^2 = \frac{1}{q_r(L)}\ \text{at every } l,\qquad q_r(L) = q_0 + s^2 L",
            "text": "∂r_{l+1}/∂r_l = 1 exactly, and ∂x/∂r = 0: the second stream's gradient is the final norm's at every layer, 1/(1 + L/2) for "
            "ReLU. Its share of W₂'s square falls as 1/L; the rest is the first stream's, which does not vanish either.",
        },
        cells=cells_of(tokenwise, attention),
        checks=(bounded_below(tokenwise), bounded_below(attention), follows_law(tokenwise, PARAMETER, resolution=VARIANT)),
        expected=SUPPORTED,
        assumptions=ROUNDED,
        derived=("residual", "relu"),
        figures=(
            across_layers(
                "ResiDual: squared gradient of W₂ across the blocks, token by token",
                "squared Frobenius norm",
                [tokenwise],
                PARAMETER,
                lines=[
                    ("the dual stream's part", [1, tokenwise.depths[-1]], [dual_part(tokenwise)] * 2),
                ],
                file="parameters",
            ),
        ),
    )


def _fall(sweep: Sweep) -> Check:
    depth = sweep.depths[-1]
    value = printed(depth // 2, depth) / printed(depth - 1, depth)
    return Check(
        f"norm of W₂'s gradient, block L/2 over block L − 1, L={depth}, {sweep.name}",
        log_ratio(sweep.deepest, PARAMETER, depth // 2 - 1, depth - 2, power=0.5),
        (sweep.deepest,),
        Band(value / 2, value * 2, f"the formula's {value:.3f}, to a factor 2 either way"),
        "statement",
        REFUTED,
        logarithm=True,
    )


@claim
def residual_printed_gradient(profile: Profile) -> Claim:
    """Refuted: neither the fall along the blocks nor the fall with depth."""
    tokenwise = Sweep("residual", "relu", profile.depths, profile.seed)
    attention = short_transformer("residual", profile.seed, 24)
    (shallow, _), (depth, _) = tokenwise.labels[-2:]
    exponent = log(printed(1, depth) / printed(1, shallow)) / log(depth / shallow)
    blocks = range(1, depth)
    formula = [printed(k, depth) / printed(depth - 1, depth) for k in blocks]
    return Claim(
        id="residual-printed-gradient",
        group="variants",
        title="ResiDual's gradient does not follow max{(1/2)^((N−k)/2) e^√(N−k), √(log(N−k)/N)}",
        statement="‖∂𝓛/∂w_k‖_F ≈ max{O((1/2)^((N−k)/2) e^√(N−k)), O(√(log(N−k)/N))}: the Post-LN part dies out, the dual part falls with depth.",
        source=f"{XIE}, theorem 3.1, {SECOND_HAND}",
        reading=f"Norm of W₂'s gradient in proportion to the formula: at block 1 as a function of N (exponent {exponent:.2f} from {shallow} to {depth} "
        "blocks), and at mid-stack over the last block but one.",
        law={
            "latex": r"g_x(l) = \chi\, g_x(l+1) + \kappa^2 g_r + \frac{2\kappa^2}{\sqrt{1+s^2}}\, c(l+1),\qquad "
            r"g_r = \frac{1}{q_r(L)},\qquad \chi = \frac{1+\kappa^2}{1+s^2}",
            "text": "For ReLU χ = 1: the Post-LN part keeps its size, the second stream adds to it (c is the streams' gradients' cross moment), and W₂'s "
            "norm is flat in k and N to within a factor 1.5. With attention the stream's gradient falls, W₂'s does not: tokens that have become "
            "alike add up.",
        },
        cells=cells_of(tokenwise, attention),
        checks=(
            Check(
                f"exponent in L of W₂'s gradient (norm) at block 1, L = {shallow} to {depth}, {tokenwise.name}",
                local_exponents(tokenwise.labels[-2:], PARAMETER, 0, 0.5),
                tuple(label for _, label in tokenwise.labels[-2:]),
                Band(exponent - 0.15, exponent + 0.15, f"the formula's {exponent:.3f} between these depths; 0.15 is resolution"),
                "statement",
                REFUTED,
            ),
            _fall(tokenwise),
            _fall(attention),
        ),
        expected=REFUTED,
        assumptions=ROUNDED,
        derived=("residual", "relu"),
        figures=(
            across_layers(
                "ResiDual: norm of W₂'s gradient across the blocks",
                "norm over the last block's",
                [tokenwise, attention],
                PARAMETER,
                0.5,
                relative=True,
                lines=[(f"statement, N = {depth}", blocks, formula)],
                file="parameters",
            ),
        ),
        erratum={
            "printed": "a Post-LN part that falls as (1/2)^((N−k)/2) e^√(N−k) in norm",
            "right": "χ^((N−k)/2) token by token, χ = (1+κ²)/(1+s²) = 1 for ReLU",
            "why": "the block's own gain 1 + κ² is left out, as in Xiong et al.'s appendix F",
        },
    )


def _falls(pre: Sweep, value: float, reason: str, expected: Verdict) -> Check:
    """Exponent of the output's squared change in the block's index, upper half of the stack."""
    depth = pre.depths[-1]
    upper_half = slice(depth // 2 - 1, depth)
    return Check(
        f"exponent of the output's squared change per block, upper half of the stack, {pre.name}",
        slope_on(pre.deepest, CHANGE, np.log(np.arange(1.0, depth + 1))[upper_half], upper_half),
        pre.names,
        Band(value - 0.1, value + 0.1, f"{reason}; the rest is resolution"),
        "statement",
        expected,
    )


def _size(post: Sweep, value: float, reason: str, expected: Verdict) -> Check:
    """The output's squared change over a constant, every block."""
    depth = post.depths[-1]
    room = law_band(post, depth)
    return Check(
        f"output's squared change per block over {value:.3f}, every block of L={depth}, {post.name}",
        log_relative(post.deepest, CHANGE, np.full(depth, value)),
        post.names,
        Band(room.low, room.high, f"{reason}; {room.reason}"),
        "statement",
        expected,
        logarithm=True,
    )


@claim
def residual_output_change(profile: Profile) -> Claim:
    """By condition: as variances the accounts' formulas hold; as the standard deviations that they are printed as they do not."""
    post, pre, dual = (
        Sweep(variant, "relu", (64,), profile.seed, extra=(CHANGE,)) for variant in ("post-ln", "pre-ln", "residual")
    )
    depth = 64
    plateau = 2 - 2 / sqrt(1.5)
    return Claim(
        id="residual-output-change",
        group="variants",
        title="The output's change per block: 1/k for Pre-LN, bounded below for ResiDual",
        statement="Pre-LN's output changes by N(0, ω_k²), ω_k = √2/(√k(√(k−1)+√k)), from layer k to k + 1: it collapses. Post-LN's and "
        "ResiDual's change by ω = 2 − 2/√(1+σ²), independent of k: they do not.",
        source=f"{XIE}, section 3.2, {SECOND_HAND} (no collapse: the abstract)",
        reading="Squared change per coordinate of what would be read out after k blocks, ReLU. The formulas are read as printed (standard deviations) "
        "and as variances.",
        law={
            "latex": r"\omega_k^2 = 2 - 2\sqrt{q_{k-1}/q_k} \sim \frac1k\ (\text{Pre-LN}),\qquad \omega^2 = 2 - \frac{2}{\sqrt{1+s^2}}\ (\text{Post-LN})",
            "text": "Independent branches: the cosine between successive outputs is √(q_{k−1}/q_k). With q_k in proportion to k this is "
            "2/(√k(√(k−1)+√k)), the accounts' ω_k without the outer root. ResiDual's output x + LN(r) adds to Post-LN's change, so Post-LN's is "
            "its floor.",
        },
        cells=cells_of(post, pre, dual),
        checks=(
            Check(
                f"ResiDual's squared change per block over the floor {plateau:.3f}, every block of L={depth}, {dual.name}",
                log_relative(dual.deepest, CHANGE, np.full(depth, plateau)),
                dual.names,
                lower(1.0, "no collapse: at every block at least Post-LN's change"),
                "statement",
                logarithm=True,
            ),
            _falls(pre, -1, "as a variance: 1/k; q_k = 1 + k/2 makes it −0.96 here", SUPPORTED),
            _falls(pre, -2, "as printed, a standard deviation 1/k: exponent −2 of the square", REFUTED),
            _size(post, plateau, "as a variance", SUPPORTED),
            _size(post, plateau**2, "as printed, a standard deviation", REFUTED),
            *(follows_law(sweep, CHANGE, resolution=VARIANT) for sweep in (pre, dual)),
        ),
        expected=BY_CONDITION,
        assumptions=ROUNDED[:2],
        derived=("residual", "relu"),
        figures=(
            across_layers(
                "Squared change of the output, block by block",
                "squared change per coordinate",
                [post, pre, dual],
                CHANGE,
                scales=("log", "log"),
                lines=[("Pre-LN as printed: ω_k²", range(1, depth + 1), [_printed_step(k) ** 2 for k in range(1, depth + 1)])],
                file="change",
            ),
        ),
        erratum={
            "printed": "ω_k = √2/(√k(√(k−1)+√k)) and ω = 2 − 2/√(1+σ²) as standard deviations (in second-hand accounts)",
            "right": "ω_k² = 2/(√k(√(k−1)+√k)) and ω² = 2 − 2/√(1+σ²)",
            "why": "the square was lost: 2 − 2 cos is a squared distance",
        },
    )


def _printed_step(k: int) -> float:
    return sqrt(2) / (sqrt(k) * (sqrt(k - 1) + sqrt(k)))
