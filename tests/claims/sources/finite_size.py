"""Claims on finite width: one constant that sets three laws, and how the scatter of gradients grows with depth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from empirical.estimands import (
    log_excess_per_block,
    log_scatter_increments,
    log_scatter_per_block,
    log_scatter_ratio,
    log_scatter_relative,
    minus,
    slope_across_widths,
)
from empirical.statistics import Statistic, estimate
from empirical.verdicts import Band
from tests.claims.declaration import BY_CONDITION, REFUTED, SUPPORTED, Check, Claim, Profile, Whose, claim
from tests.claims.figures import LEVEL, Figure, Values, scatter_across_layers
from tests.claims.sweeps import Sweep, cells_of
from tests.claims.texts import ISOTROPIC
from theory.finite_width.derivation import one_constant
from theory.finite_width.variance import singular_variance
from theory.prediction import profile as recursion
from theory.scatter import scatter_steps
from theory.spectrum.edge import edges

NORM, GRADIENT, LOGARITHMS = "operator-norm", "stream-gradient", ("log-gradient", "squared-log-gradient")
READINGS = ("worst-case slope over e", "excess of the mean", "scatter over 4")
_BLOCKS, _SHALLOW = 10, 5


@dataclass(frozen=True)
class Network:
    """One kind of block, measured twice: mean and scatter at one width, operator norms at several."""

    variant: str
    sublayers: str
    gain: float
    widths: tuple[int, ...]
    base_seed: int
    tokens: int = 4

    @property
    def stack(self) -> Sweep:
        """For mean and scatter: blocks 1 and 10, whose ends differ, are left out."""
        axes: dict[str, Any] = {"gain": self.gain, "dtype": "float32", "extra": LOGARITHMS}
        return Sweep(self.variant, self.sublayers, (_BLOCKS,), self.base_seed, 64, self.tokens, **axes)

    @property
    def norms(self) -> tuple[Sweep, ...]:
        """For the worst case."""
        axes: dict[str, Any] = {"gain": self.gain, "engine": "dense", "dtype": "float32", "extra": (NORM,)}
        return tuple(Sweep(self.variant, self.sublayers, (_SHALLOW,), self.base_seed, w, 1, **axes) for w in self.widths)

    @property
    def derived(self) -> float:
        """V of an inner block."""
        configuration = self.stack.configuration(_BLOCKS)
        return singular_variance(configuration, recursion(configuration, 1, infinite_width=True).blocks[5][0])

    def readings(self) -> dict[str, tuple[Statistic, tuple[str, ...]]]:
        """log V from each of the three laws, and the cells it is read from."""
        stack, inner = self.stack, slice(1, _BLOCKS)
        worst = (self._worst_case(), tuple(sweep.deepest for sweep in self.norms))
        mean = log_excess_per_block(stack.deepest, GRADIENT, stack.width, inner)
        spread = log_scatter_per_block(stack.deepest, stack.width, inner)
        return dict(zip(READINGS, (worst, (mean, stack.names), (spread, stack.names)), strict=True))

    def _worst_case(self) -> Statistic:
        """Slope over blocks 1 to 4 below the output, at infinite width, over e and over the exact edge's own slope in units of e·V there."""
        exact = edges(recursion(self.norms[-1].configuration(_SHALLOW), 1, infinite_width=True))
        own = float(exact.ratio[1] - exact.ratio[_SHALLOW - 1]) / (_SHALLOW - 2) / self.derived
        corrections = {s.deepest: s.predicted(NORM, _SHALLOW) / exact.infinite_width for s in self.norms}
        cells = tuple((sweep.width, sweep.deepest) for sweep in self.norms)
        return minus(slope_across_widths(cells, NORM, corrections, slice(1, _SHALLOW)), float(np.log(own)))


def _networks(profile: Profile) -> list[Network]:
    kinds = [("post-ln", "relu", 1.0), ("post-rmsnorm", "linear", 4.0)]
    if profile.name == "full":
        kinds += [
            ("post-rmsnorm", "relu", 1.0),
            ("post-ln", "linear", 1.0),
            ("post-ln", "linear", 0.25),
            ("post-ln", "relu", 0.5),
        ]
        return [Network(*kind, (48, 96, 192), profile.seed, tokens=16) for kind in kinds]
    return [Network(*kind, (32, 64), profile.seed) for kind in kinds]


def _three_estimates(networks: list[Network]) -> Figure:
    def draw(values: Values) -> dict[str, Any]:
        derived = [network.derived for network in networks]
        order = np.argsort(derived)
        series: list[dict[str, Any]] = [
            {"label": "derived V", "style": "law", "x": sorted(derived), "y": sorted(derived), "group": "derived V"}
        ]
        for place, reading in enumerate(READINGS):
            aside = [v + (place - 1) * 0.01 * max(derived) for v in sorted(derived)]  # so that intervals do not hide each other
            found = [_estimated(networks[k], reading, values) for k in order]
            y, low, high = (list(part) for part in zip(*found, strict=True))
            series.append({"label": reading, "style": "measured", "x": aside, "y": y, "low": low, "high": high, "group": reading})
        return {
            "name": "three-laws",
            "title": "One constant: V from the worst case, from the mean and from the scatter",
            "xlabel": "V derived from the expression (readings drawn side by side)",
            "ylabel": "V measured",
            "xscale": "linear",
            "yscale": "linear",
            "series": series,
        }

    return draw


def _estimated(network: Network, reading: str, values: Mapping[str, Mapping[str, np.ndarray]]) -> tuple[float, float, float]:
    statistic, cells = network.readings()[reading]
    found = estimate(statistic, {label: values[label] for label in cells}, LEVEL)
    value, low, high = (float(np.exp(part[0])) for part in (found.value, found.low, found.high))
    return value, low, high


@claim
def one_constant_three_laws(profile: Profile) -> Claim:
    """Supported: one V for all three."""
    networks = _networks(profile)

    def band(network: Network) -> Band:
        resolution = 0.1 if profile.name == "full" and network.derived > 0.3 else 0.15
        return Band(
            (1 - resolution) * network.derived,
            (1 + resolution) * network.derived,
            f"{resolution:.0%} of V, what this profile's networks can resolve (a small V is a small excess); terms of second order in 1/d, a "
            "few per cent at d = 64, are in it",
        )

    return Claim(
        id="one-constant-three-laws",
        group="gradients",
        title="One constant sets the worst case, the mean's excess and the scatter",
        statement="V, the variance of a block's squared singular values over their mean, gives the slope e·V of the "
        "worst-case squared gradient, "
        "the excess (1 + V/d)^m of the mean squared gradient, and the scatter 4V·m/d of log|∂𝓛/∂x|² over networks.",
        source="this suite; Kargin 2008 (edge of a free product), Hanin & Nica 2019 (log-normal gradients)",
        reading="Three independent measurements on Post-LN stacks, each divided by its law's dependence on m and d, "
        "give V; each is compared with the V "
        "that is derived from the expression. The worst case is read from operator norms at several widths and extrapolated.",
        law={
            "latex": r"\Lambda(m) \sim e\,V\,m, \qquad E\,G(m) = \left(1 + \tfrac Vd\right)^m, \qquad \mathrm{Var}\log G(m) = \tfrac{4Vm}{d}",
            "text": "V = (2AB + B²V_F)/(A + B)²: 3/4 for a linear sublayer, 7/9 for a ReLU FFN, 1 for attention where tokens are alike.",
        },
        cells=cells_of(*(sweep for network in networks for sweep in (network.stack, *network.norms))),
        checks=tuple(
            Check(
                f"V from the {reading}, {network.stack.name}",
                statistic,
                cells,
                band(network),
                "statement",
                logarithm=True,
            )
            for network in networks
            for reading, (statistic, cells) in network.readings().items()
        ),
        expected=SUPPORTED,
        assumptions=ISOTROPIC,
        steps=tuple(one_constant("relu")),
        figures=(_three_estimates(networks),),
        first_look=2048,
        budget=16384,
    )


def _increments(sweep: Sweep, share: float, what: str, band: Band, of: Whose, expected: Any) -> Check:
    places = [int(depth * share) for depth in sweep.depths[-3:]]
    return Check(
        f"scatter's increment over the last doubling of L against the one before, {what}, {sweep.name}",
        log_scatter_increments(sweep.labels, places),
        tuple(label for _, label in sweep.labels[-3:]),
        band,
        of,
        expected,
        logarithm=True,
    )


def _follows(sweep: Sweep) -> Check:
    depth = sweep.depths[-1]
    mean, square = (sweep.predicted(name, depth) for name in LOGARITHMS)
    return Check(
        f"scatter, measured over predicted, every layer of L = {depth}, {sweep.name}",
        log_scatter_relative(sweep.deepest, square - mean**2),
        (sweep.deepest,),
        Band(
            1 / 1.15,
            1.15,
            "15 %: what a few thousand networks resolve at all layers together; terms of second order, a few per cent at d = 128",
        ),
        "law",
        logarithm=True,
    )


@claim
def scatter_saturates(profile: Profile) -> Claim:
    """By condition: a logarithm of L/l, so bounded at a fixed fraction of the depth, unbounded at a fixed layer."""
    depths = tuple(depth for depth in profile.depths if depth <= 128)[-3:]
    axes: dict[str, Any] = {"dtype": "float32", "extra": LOGARITHMS}
    pre = Sweep("pre-ln", "linear", depths, profile.seed, 32, 8, **axes)
    post = Sweep("post-ln", "linear", tuple(depth // 2 for depth in depths), profile.seed, 32, 8, **axes)
    layers = [Sweep(variant, "relu", depths[:1], profile.seed, 128, 2, **axes) for variant in ("pre-ln", "post-ln")]
    halves = [(label, depth // 2) for depth, label in pre.labels[-3::2]]
    return Claim(
        id="scatter-saturates",
        group="gradients",
        title="Pre-LN's scatter over networks is a logarithm: it saturates at mid-depth, not at the first layers",
        statement="Pre-LN: the scatter of log|∂𝓛/∂x_l|² over networks saturates as L grows.",
        source="this suite's own notes",
        reading="Var over networks of one token's log|∂𝓛/∂x_l|². At a fixed fraction of the depth (l = L/2) it has to "
        "stay when L grows fourfold; at a "
        "fixed layer (l = 0) its increments per doubling of L have to fall.",
        law={
            "latex": r"d\,\mathrm{Var}\log|g_l|^2 \approx 2 + \lambda_l + \sum_{j>l} \frac{8}{j} = 2 + \lambda_l + 8\ln\frac Ll",
            "text": "Every step adds 4V_j/d with V_j = 2κ²/q_j falling as 1/j: 8 ln(L/l)/d, bounded at a fixed l/L and unbounded at fixed l; "
            "Post-LN adds 4V/d in every block.",
        },
        cells=cells_of(pre, post, *layers),
        checks=(
            Check(
                f"scatter at l = L/2, L = {depths[-1]} over L = {depths[-3]}, {pre.name}",
                log_scatter_ratio(halves[1], halves[0]),
                tuple(label for label, _ in halves),
                Band(
                    0.8,
                    1.25,
                    "saturated: a fourfold depth changes it by less than a quarter (growth with the blocks would be "
                    "nearly fourfold)",
                ),
                "statement",
                logarithm=True,
            ),
            _increments(
                pre,
                0,
                "l = 0",
                Band(
                    0.0,
                    2**-0.5,
                    "a bounded sum of terms j^-p with p ≥ 3/2 loses this factor at every doubling; a logarithm loses nothing",
                ),
                "statement",
                REFUTED,
            ),
            _increments(
                post,
                0,
                "l = 0",
                Band(2**0.5, 2**1.5, "in proportion to the blocks the increment doubles; half a power either way"),
                "law",
                SUPPORTED,
            ),
            *(_follows(sweep) for sweep in layers),
        ),
        expected=BY_CONDITION,
        assumptions=ISOTROPIC,
        steps=tuple(scatter_steps()),
        figures=(scatter_across_layers("Scatter of single networks' gradients across the layers", [*layers, pre, post]),),
        first_look=4096,
    )
