"""Claim of Zhu et al. 2024 (hyper-connections): what several residual streams change at initialisation."""

from __future__ import annotations

from tests.claims.checks import equals
from tests.claims.declaration import SUPPORTED, Check, Claim, Profile, claim
from tests.claims.figures import across_layers
from tests.claims.sweeps import Sweep, cells_of, short_transformer
from tests.claims.texts import ROUNDED, SECOND_HAND

ZHU = "Zhu et al., Hyper-Connections, arXiv 2409.19606 (2024)"
QUANTITIES = ("stream-moment", "relative-step", "output-matrix-gradient", "output-sensitivity")


def same(hyper: Sweep, pre: Sweep, name: str) -> Check:
    """Hyper-connections' quantity is Pre-LN's; behind the last block nothing is perturbed."""
    return equals(hyper, pre, name, "statement", slice(0, -1) if name == "output-sensitivity" else slice(None))


@claim
def hyper_connections_start_as_pre_ln(profile: Profile) -> Claim:
    """Supported: all streams are equal, so forward pass and weight gradients are Pre-LN's."""
    tokenwise = [Sweep(variant, "relu", (24,), profile.seed) for variant in ("hyper-connections", "pre-ln")]
    attention = [short_transformer(variant, profile.seed) for variant in ("hyper-connections", "pre-ln")]
    return Claim(
        id="hyper-connections-start-as-pre-ln",
        group="variants",
        title="Static hyper-connections are Pre-LN at initialisation",
        statement="At initialisation every stream of static hyper-connections is a Pre-LN residual network.",
        source=f"{ZHU}: the initial matrices as in released code; that they trade off vanishing gradients against collapse, {SECOND_HAND}, "
        "can then only begin with training",
        reading="Four streams against one: stream moment, relative step of each block, W₂'s gradient and the output's sensitivity agree at every "
        "layer; W₂'s gradient with attention as well.",
        law={
            "latex": r"h^{(1)}_l = \dots = h^{(4)}_l = x_l^{\text{Pre-LN}},\qquad \mathrm{LN}(4x) = \mathrm{LN}(x)",
            "text": "The branch's output is added to all streams alike and they start alike, so they stay equal; the read-out's norm takes the factor 4 "
            "out. A stream's own gradient is not Pre-LN's (it is a part of it); the weights' is.",
        },
        cells=cells_of(*tokenwise, *attention),
        checks=(
            *(same(tokenwise[0], tokenwise[1], name) for name in QUANTITIES),
            same(attention[0], attention[1], "output-matrix-gradient"),
        ),
        expected=SUPPORTED,
        assumptions=ROUNDED,
        derived=("hyper-connections", "relu"),
        figures=(
            across_layers(
                "Squared gradient of W₂ across the blocks",
                "squared Frobenius norm",
                tokenwise,
                "output-matrix-gradient",
                file="parameters",
            ),
        ),
    )
