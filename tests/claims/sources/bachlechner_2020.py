"""Claim of Bachlechner et al. 2020 (ReZero): at initialisation the network is the identity."""

from __future__ import annotations

import numpy as np

from empirical.estimands import departure, reading
from empirical.statistics import Means
from empirical.verdicts import Band
from tests.claims.declaration import SUPPORTED, Check, Claim, Profile, claim
from tests.claims.sweeps import Sweep, cells_of
from tests.claims.texts import ISOTROPIC, SECOND_HAND

BACHLECHNER = "Bachlechner et al., ReZero Is All You Need: Fast Convergence at Large Depth, arXiv 2003.04887 (2020)"
GRADIENT, NORM, PARAMETERS = "stream-gradient", "operator-norm", "parameter-gradient"
_EXACT = Band(1 - 1e-12, 1 + 1e-12, "exact up to rounding in float64")
_LANCZOS = Band(1 - 1e-6, 1 + 1e-6, "exact up to rounding in float32")
SUBLAYERS = "attention,gelu"


def over_output(sweep: Sweep) -> Check:
    """The gradient at every layer over the output's, in the mean; exact in each network if the mean and its interval are."""

    def statistic(means: Means) -> np.ndarray:
        rows = means[sweep.deepest][GRADIENT]
        return rows / rows[..., -1:]

    return Check(
        f"square of the stream's gradient over the output's, every layer of L={sweep.depths[-1]}, {sweep.name}",
        statistic,
        sweep.names,
        _EXACT,
        "statement",
        predicted=1.0,
    )


def isometry(sweep: Sweep) -> Check:
    """The Jacobian's largest singular value; with the mean square also 1, all of them are."""
    return Check(
        f"squared operator norm of the Jacobian from layer 0, L={sweep.depths[-1]}, {sweep.name}",
        reading(sweep.deepest, NORM, 0),
        sweep.names,
        _LANCZOS,
        "statement",
        predicted=1.0,
    )


@claim
def rezero_identity(profile: Profile) -> Claim:
    """Supported, exactly."""
    deep = Sweep("rezero", SUBLAYERS, (profile.depths[-1],), profile.seed, 64, 4)
    jacobian = Sweep("rezero", SUBLAYERS, (4,), profile.seed, 32, 4, engine="dense", dtype="float32", extra=(NORM,))
    rows = len(deep.matrices) * deep.depths[-1]
    return Claim(
        id="rezero-identity",
        group="variants",
        title="ReZero's network is the identity at initialisation, and its Jacobian too",
        statement="With a gate α = 0 on every branch the network is the identity at initialisation: signals and gradients propagate unchanged at any "
        "depth (all singular values of the Jacobian are 1).",
        source=f"{BACHLECHNER}, the rule as in their code; the singular values {SECOND_HAND}",
        reading=f"Blocks of attention and GELU. The squared stream gradient over the output's at every layer of {deep.depths[-1]} blocks; the Jacobian's "
        "squared operator norm over 4. (The mean and the largest squared singular value are 1, so that all are.)",
        law={
            "latex": r"x_l = x_{l-1} + 0\cdot F(x_{l-1}),\qquad \partial x_L/\partial x_l = I",
            "text": "And the branch's weights get no gradient at all: only the gates α can take the first step.",
        },
        cells=cells_of(deep, jacobian),
        checks=(
            over_output(deep),
            isometry(jacobian),
            Check(
                f"squared gradient of every weight matrix, {deep.name}",
                departure(deep.deepest, PARAMETERS, np.zeros(rows)),
                deep.names,
                Band(-1e-300, 1e-300, "exactly zero"),
                "law",
            ),
        ),
        expected=SUPPORTED,
        assumptions=ISOTROPIC,
        zeros_allowed=True,
        first_look=64,
    )
