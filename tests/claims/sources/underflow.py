"""The depth at which a gradient without residual is exactly zero, in each floating-point format."""

from __future__ import annotations

from functools import partial
from math import ceil
from typing import Any

import numpy as np
import torch

from empirical.blocks import forward
from empirical.draws import Draws
from empirical.estimands import reading
from empirical.layers import RandomLinear
from empirical.sources import isotropic
from empirical.statistics import mean_interval
from empirical.verdicts import Band
from tests.claims.declaration import SUPPORTED, Check, Claim, Profile, claim
from tests.claims.figures import LEVEL, Values
from tests.claims.laws import gradient_law
from tests.claims.sweeps import Sweep
from tests.claims.texts import ARTICLE, ISOTROPIC
from theory.underflow import surviving_layers, underflow_depth

LARGEST = "largest coordinate of ∂𝓛/∂x_l"
ALIVE = "layers that are not 0"
GAINS = {"float64": 2.0**-16, "float32": 1 / 16, "bfloat16": 1 / 16, "float16": 1 / 2}
"""κ² by format, so that each has some fifty to a hundred and fifty blocks to go."""


def stack(dtype: str, seed: int) -> Sweep:
    """A linear stack without residual, some blocks deeper than its gradient lasts."""
    depth = ceil(underflow_depth(GAINS[dtype], dtype)) + 16
    return Sweep("no-residual", "linear", (depth,), seed, gain=GAINS[dtype], engine="dense", dtype=dtype, width=64)


def gradients_below(sweep: Sweep, members: int) -> dict[str, np.ndarray]:
    """The largest coordinate at layers 0..L (its square would underflow at half of the depth), and how many are not 0."""
    configuration = sweep.configuration(sweep.depths[-1])
    draws = Draws(sweep.base_seed, range(members), torch.device("cpu"), getattr(torch, sweep.dtype))
    feed = isotropic(configuration, draws)
    network = forward(configuration, feed.inputs, RandomLinear(draws, sweep.engine))
    gradients = torch.autograd.grad(feed.objective(network.output), [streams["x"] for streams in network.streams])
    largest = torch.stack([g.double().abs().amax(dim=(1, 2)) for g in gradients], dim=1).numpy()
    return {LARGEST: largest, ALIVE: (largest > 0).sum(axis=1, keepdims=True).astype(float)}


def survives(sweep: Sweep) -> Check:
    """Number of layers of a network whose gradient is not exactly zero."""
    kappa, dtype, coordinates = sweep.gain, sweep.dtype, sweep.tokens * sweep.width
    law, flushed = (surviving_layers(kappa, dtype, coordinates, flush) for flush in (False, True))
    block = -0.5 * np.log2(kappa)
    typical = law / sweep.width / -np.log(kappa)
    finite = f"a network's gradient lies below its root mean square, by E log(χ²_d/d) = −1/d a block: {typical:.2f} blocks at d = {sweep.width}"
    products = (
        f"products that underflow before they are summed lose up to four bits (fan-in {sweep.width}: three, and one for a weight of half its "
        f"standard deviation), {4 / block:.2f} blocks"
    )
    low, high = law - typical - 1, law + 1
    reason = f"{finite}; one block of resolution"
    if dtype == "float16":
        reason = f"sums are taken in float32 and rounded once; {reason}"
    else:
        low, reason = low - 4 / block, f"{products}; {reason}"
    if dtype == "bfloat16":
        low, reason = low - law + flushed, f"some processors flush bfloat16's subnormals to zero ({flushed:.1f} layers); {reason}"
    return Check(
        f"layers with a gradient that is not exactly 0, of {sweep.depths[-1] + 1}, {sweep.name}",
        reading(sweep.deepest, ALIVE, 0),
        (sweep.deepest,),
        Band(low, high, reason),
        "statement",
        predicted=law,
    )


def _figure(sweeps: list[Sweep], values: Values) -> dict[str, Any]:
    series = []
    for sweep in sweeps:
        readings, depth = values[sweep.deepest][LARGEST], sweep.depths[-1]
        alive = np.flatnonzero(readings.min(axis=0))  # in every network
        found = mean_interval(readings[:, alive], LEVEL)
        layers = np.arange(ceil(depth - underflow_depth(sweep.gain, sweep.dtype)), depth + 1)
        law = sweep.gain ** ((depth - layers) / 2)
        group = {"group": sweep.name}
        series.append(group | {"label": f"{sweep.name}: law", "style": "law", "x": (depth - layers).tolist(), "y": law.tolist()})
        points = {"x": (depth - alive).tolist(), "y": found.value.tolist()}
        points |= {"low": np.maximum(found.low, 0.0).tolist(), "high": found.high.tolist()}
        series.append(group | {"label": f"{sweep.name}: largest coordinate", "style": "measured"} | points)
    axes = {"xlabel": "blocks below the output", "ylabel": "gradient's coordinate", "xscale": "linear", "yscale": "log"}
    return {
        "name": "formats",
        "title": "No residual: where the gradient becomes exactly 0, by number format",
        "series": series,
    } | axes


@claim
def underflow_depth_by_dtype(profile: Profile) -> Claim:
    """Supported: where κ^m crosses half of the smallest subnormal number."""
    sweeps = [stack(dtype, profile.seed) for dtype in GAINS]
    return Claim(
        id="underflow-depth-by-dtype",
        group="gradients",
        title="Without residual the gradient is exactly zero beyond a depth that the number format sets",
        statement="Without residual the gradient vanishes until it is exactly 0 (the article: 40 of 64 blocks in fp32).",
        source=ARTICLE,
        reading="The number of layers with a gradient that is not exactly zero is where κ^m crosses half of the smallest subnormal number of the "
        "format: 2^-1074, 2^-149, 2^-133, 2^-24 for float64, float32, bfloat16, float16.",
        law=gradient_law("no-residual", "κ^m rounds to 0 below half of the smallest subnormal: m = (bits + 1) log 2 / log(1/κ)."),
        cells={sweep.deepest: partial(gradients_below, sweep) for sweep in sweeps},
        checks=tuple(survives(sweep) for sweep in sweeps),
        expected=SUPPORTED,
        assumptions=ISOTROPIC,
        derived=("no-residual", "linear"),
        first_look=64,
        figures=(lambda values: _figure(sweeps, values),),
    )
