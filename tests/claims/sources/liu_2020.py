"""Claim of Liu et al. 2020 (Admin): the output's change grows with the logarithm of the depth."""

from __future__ import annotations

from tests.claims.checks import VARIANT, equals, follows_law
from tests.claims.declaration import SUPPORTED, Claim, Profile, claim
from tests.claims.figures import against_depth
from tests.claims.sources.sensitivity import SENSITIVITY, linear_increments, logarithmic_increments
from tests.claims.sweeps import Sweep, cells_of
from tests.claims.texts import ISOTROPIC, LIU

PARAMETER = "output-matrix-gradient"
_ALL_BUT_OUTPUT = slice(0, -1)


@claim
def admin_output_change(profile: Profile) -> Claim:
    """Supported, by being Pre-LN at initialisation."""
    post, pre, admin = (Sweep(variant, "relu", profile.depths, profile.seed) for variant in ("post-ln", "pre-ln", "admin"))
    return Claim(
        id="admin-output-change",
        group="variants",
        title="Admin's output changes by O(log L): at initialisation it is Pre-LN",
        statement="An n-layer Post-LN Transformer's output change is O(n); Admin's is O(log n).",
        source=LIU + ", the README of its code",
        reading="Squared change of the output per relative variance of every weight: its increment over the last doubling of L against the one before.",
        law={
            "latex": r"\omega_l^2 = 1 + \textstyle\sum_{j<l}\operatorname{Var} f_j = q_{l-1}\ \Rightarrow\ x_l = \mathrm{LN}(\sqrt{q_{l-1}}\, x_{l-1} + F(x_{l-1}))",
            "text": "ω x is the sum that Pre-LN's stream would be, and x is that sum normalised: Admin's forward pass at initialisation is Pre-LN's, and "
            "so are its weights' gradients and its output's sensitivity. (ω is profiled over all tokens; the difference is of order 1/width.)",
        },
        cells=cells_of(post, pre, admin),
        checks=(
            linear_increments(post),
            logarithmic_increments(admin),
            follows_law(admin, SENSITIVITY, rows=_ALL_BUT_OUTPUT, resolution=VARIANT),
            equals(admin, pre, SENSITIVITY, "law", _ALL_BUT_OUTPUT),
            equals(admin, pre, PARAMETER, "law"),
        ),
        expected=SUPPORTED,
        assumptions=ISOTROPIC,
        derived=("admin", "relu"),
        figures=(
            against_depth(
                "Output's sensitivity to all weights against depth",
                "squared change of the output over δ²",
                [post, pre, admin],
                SENSITIVITY,
                0,
            ),
        ),
    )
