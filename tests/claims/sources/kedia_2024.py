"""Claim of Kedia et al. 2024: the rate at which a Post-LN Transformer's gradient grows towards the output."""

from __future__ import annotations

from functools import lru_cache
from math import sqrt
from typing import Any

import numpy as np
import torch

from empirical.estimands import slope_on
from empirical.statistics import Means, Statistic, estimate
from empirical.verdicts import Band
from tests.claims.declaration import BY_CONDITION, REFUTED, SUPPORTED, Check, Claim, Direct, Profile, claim
from tests.claims.figures import LEVEL, Figure, Values
from tests.claims.laws import collapsed_gradient_law
from theory.laws.attention.dropout import dropout_law
from theory.variants import load

KEDIA = "Kedia et al., Transformers Get Stable, ICML 2024 (their repository's training.py)"
FITTED, DROPOUT = 1.024, 0.1
VALUES, FIRST, SECOND = 32 / 17, 2 / 5, 8 / 5
"""Variance times fan-in: value matrix √(2/(h + h/16)), FFN √(2/(5h)) with h and 4h inputs; s² = 0.4 · 1.6/2."""
SQUARE = FIRST * SECOND / 2
DEPTH, WIDTH, TOKENS, HEADS, _TOGETHER = 32, 64, 16, 4, 64
_DIRECTIONS = 4  # upstream gradients a network: drawing the weights costs more
GRADIENT = "squared gradient"
INNER = slice(8, 31)  # below the collapse of the input's tokens, above the output's own block
Tensor = torch.Tensor


@lru_cache(maxsize=4)
def simulate(dropout: float, seed: int, members: int) -> dict[str, np.ndarray]:
    """Squared stream gradient at layers 0..L of Post-LN blocks of attention and ReLU with dropout; identical loss gradients."""
    parts = [
        _simulate(dropout, seed * 1_000_003 + first, min(_TOGETHER, members - first)) for first in range(0, members, _TOGETHER)
    ]
    return {GRADIENT: np.concatenate(parts)}


def _simulate(dropout: float, seed: int, members: int, gains: tuple[float, float, float] = (VALUES, FIRST, SECOND)) -> np.ndarray:
    draw = torch.Generator().manual_seed(seed)

    def weights(variance: float) -> Tensor:
        return torch.randn(_TOGETHER, WIDTH, WIDTH, generator=draw)[:members] * sqrt(variance / WIDTH)

    def residual(x: Tensor, branch: Tensor) -> Tensor:
        kept = (torch.rand(_TOGETHER, TOKENS, WIDTH, generator=draw)[:members] >= dropout) / (1 - dropout)
        return torch.nn.functional.layer_norm(x + kept * branch, (WIDTH,))

    x = torch.randn(_TOGETHER, TOKENS, WIDTH, generator=draw)[:members].requires_grad_()
    streams = [x]
    for _ in range(DEPTH):
        q, k, v = (_heads(x @ weights(variance)) for variance in (1.0, 1.0, gains[0]))
        read = torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = residual(x, read @ weights(1.0))
        x = residual(x, torch.relu(x @ weights(gains[1])) @ weights(gains[2]))
        streams.append(x)
    squares = []
    for _ in range(_DIRECTIONS):
        upstream = torch.randn(_TOGETHER, 1, WIDTH, generator=draw)[:members]
        gradients = torch.autograd.grad((x * upstream).sum(), streams, retain_graph=True)
        squares.append(torch.stack([g.square().mean(dim=(1, 2)) for g in gradients], dim=1).double())
    return torch.stack(squares).mean(dim=0).numpy()


def _heads(x: Tensor) -> Tensor:
    return x.unflatten(2, (HEADS, WIDTH // HEADS)).transpose(1, 2)


def _figure(predicted: float) -> Figure:
    """Norms with dropout over those without, which share the finite width's part and the first blocks' mixing of tokens."""

    def draw(values: Values) -> dict[str, Any]:
        layers = list(range(DEPTH + 1))
        ratio = estimate(_over_output, {label: values[label] for label in LABELS}, LEVEL)
        measured = {"y": ratio.value, "low": ratio.low, "high": ratio.high}
        group = f"{LABELS[0]} over {LABELS[1]}"
        return {
            "name": "layers",
            "title": "Post-LN: what dropout does to the gradient's norm",
            "xlabel": "layer l",
            "ylabel": "norm over the output's, with dropout over without",
            "xscale": "linear",
            "yscale": "log",
            "series": [
                {"label": f"{group}: measured", "style": "measured", "x": layers, "group": group}
                | {end: np.exp(part).tolist() for end, part in measured.items()},
                {"label": f"{group}: law", "style": "law", "x": layers, "group": group}
                | {"y": [predicted ** (layer - DEPTH) for layer in layers]},
                {"label": f"statement: ×{FITTED} per layer", "style": "statement", "x": layers}
                | {"y": [FITTED ** (layer - DEPTH) for layer in layers]},
            ],
        }

    return draw


def _over_output(means: Means) -> np.ndarray:
    """Logarithm of the norm over the output's, with dropout over without, at every layer."""
    with_dropout, without = (0.5 * np.log(means[label][GRADIENT]) for label in LABELS)
    return (with_dropout - with_dropout[..., -1:]) - (without - without[..., -1:])


LABELS = (f"dropout {DROPOUT}", "no dropout")


def _checks(predicted: float, full: bool) -> tuple[Check, ...]:
    statement = Band(
        1.012,
        1.036,
        "1.024 to within half of its excess over 1: width, length and query gains are not theirs, so its order of size is what is compared",
    )
    close = Band(
        predicted / 1.003, predicted * 1.003, "the derived rate within 0.3 % a layer: order 1/n, and what is left of order 1/d"
    )
    rows = np.arange(DEPTH + 1.0)[INNER]
    rates = [slope_on(label, GRADIENT, rows, INNER, power=0.5) for label in LABELS]
    what = "factor on the gradient's norm per layer, towards the output"
    over = f"over {LABELS[1]} (which takes the finite width's part out)"
    return (
        Check(
            f"{what}, {LABELS[0]} {over}",
            _difference(*rates),
            LABELS,
            statement,
            "statement",
            SUPPORTED,
            predicted,
            logarithm=True,
        ),
        Check(f"{what}, {LABELS[1]}", rates[1], LABELS[1:], statement, "statement", REFUTED, 1.0, logarithm=True),
        *(
            Check(f"{what}, {LABELS[0]} {over}", _difference(*rates), LABELS, close, "law", SUPPORTED, predicted, logarithm=True)
            for _ in range(full)
        ),
    )


@claim
def fitted_rate(profile: Profile) -> Claim:
    """By condition: the rate is dropout's, and follows from its probability."""
    law = dropout_law(load("post-ln"))
    alike, predicted = law.at(DROPOUT, VALUES, SQUARE)
    return Claim(
        id="fitted-rate",
        group="gradients",
        title="Post-LN's ×1.024 per layer is what dropout does",
        statement=f"A Post-LN Transformer's gradient norm grows by {FITTED} per layer towards the output (hard-coded, fitted to 192 layers).",
        source=KEDIA,
        reading=f"Growth of the root mean square stream gradient per layer, between l = {INNER.start} and {INNER.stop - 1} of {DEPTH}: attention and ReLU at "
        f"their gains, d = {WIDTH}, n = {TOKENS}, dropout {DROPOUT} behind every sublayer as theirs, and none. Loss gradients alike across tokens, so "
        "that the coherent part is read; parameter gradients follow it, since every layer sees the same moments.",
        law=collapsed_gradient_law(
            "post-ln",
            f"Without dropout the coherent gradient is flat for ReLU. Dropout of P raises the norm's square, not the coherent gradient: tokens stop at "
            f"c = {alike:.3f} and the norm grows by {predicted:.4f} per layer for P = {DROPOUT}, with no fitted constant.",
        ),
        cells={label: _cell(dropout, profile.seed) for label, dropout in zip(LABELS, (DROPOUT, 0.0), strict=True)},
        checks=_checks(predicted, profile.name != "quick"),
        expected=BY_CONDITION,
        assumptions=(
            "weights independent Gaussian, biases 0, fresh in every layer, at initialisation; float32",
            "no dropout on attention's weights",
        ),
        derived=("post-ln", "attention,relu"),
        steps=law.steps,
        figures=(_figure(predicted),),
        reported=(
            {
                "what": "log norm at layer 0 and at layer 191 (BERT, 192 layers, h = 1024, dropout 0.1)",
                "source": KEDIA,
                "value": "−9.5 and −5.1: ×1.0233 per layer",
                "ours": f"×{predicted:.4f}, from dropout, gains and activation alone",
                "note": "their norms are Adam's second moments of five tensors a layer; 24 layers here",
            },
        ),
        first_look=1024,
    )


def _difference(one: Statistic, other: Statistic) -> Statistic:
    return lambda means: one(means) - other(means)


def _cell(dropout: float, seed: int) -> Direct:
    return lambda members: simulate(dropout, seed, members)
