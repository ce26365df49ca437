"""Every variant once more, in plain torch from the papers' equations: what stacks built from expressions are compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log, sqrt
from typing import Protocol

import torch
from torch.nn import functional

Tensor = torch.Tensor
State = dict[str, Tensor]
Norm = Callable[[Tensor], Tensor]


class Weights(Protocol):
    """Matrices that were drawn before."""

    def plain(self, key: tuple[int, int, str], x: Tensor, part: slice = slice(None)) -> Tensor:
        """x W + b, or some of its columns."""


def layer_norm(x: Tensor) -> Tensor:
    """torch's own."""
    return functional.layer_norm(x, (x.shape[-1],), eps=0.0)


def rms_norm(x: Tensor) -> Tensor:
    """Zhang & Sennrich 2019, eq. 4."""
    return x / x.square().mean(-1, keepdim=True).sqrt()


def _identity(x: Tensor) -> Tensor:
    return x


def attention(x: Tensor, at: tuple[int, int], w: Weights, causal: bool, heads: int = 2, **norms: Norm) -> Tensor:
    """Multi-head attention one head at a time; ``norms`` by place."""
    size, outputs = x.shape[-1] // heads, []
    for h in range(heads):
        part = slice(h * size, (h + 1) * size)
        query, key, value = (
            norms.get(place, _identity)(w.plain((*at, m), x, part))
            for m, place in (("WQ", "query"), ("WK", "key"), ("WV", "value"))
        )
        scores = query @ key.transpose(1, 2) / size**0.5
        if causal:
            scores = scores + torch.full(scores.shape[-2:], float("-inf"), dtype=scores.dtype).triu(1)
        outputs.append(torch.softmax(scores, -1) @ value)
    return w.plain((*at, "WO"), norms.get("middle", _identity)(torch.cat(outputs, -1)))


@dataclass(frozen=True)
class Branch:
    """One sublayer with its weights, and where it stands (from 1)."""

    name: str
    layer: int
    index: int
    count: int
    weights: Weights
    causal: bool = False

    @property
    def is_attention(self) -> bool:
        return self.name == "attention"

    def __call__(self, x: Tensor, **norms: Norm) -> Tensor:
        at, w = (self.layer, self.index - 1), self.weights
        if self.name == "attention":
            return attention(x, at, w, self.causal, **norms)
        middle = norms.get("middle", _identity)
        if self.name == "linear":
            return w.plain((*at, "W"), middle(x))
        u = w.plain((*at, "W1"), x)
        assert self.name in ("relu", "gelu")
        hidden = u.clamp(min=0) if self.name == "relu" else u * 0.5 * (1 + torch.erf(u / 2**0.5))
        return w.plain((*at, "W2"), middle(hidden))


@dataclass(frozen=True)
class Plain:
    """A variant: one sublayer step on its streams, the output, the first streams.

    Attributes:
        step: (streams, branch, depth) → streams.
        gain: factor on the standard deviation of the branch's matrices, from the depth.
    """

    step: Callable[[State, Branch, int], State]
    read_out: Callable[[State], Tensor] = lambda s: s["x"]
    start: Callable[[Tensor], State] = lambda e: {"x": e}
    gain: Callable[[int], float] = lambda depth: 1.0


def _x(step: Callable[[Tensor, Branch], Tensor], read_out: Norm = _identity, start: Norm = _identity) -> Plain:
    return Plain(lambda s, f, _: {"x": step(s["x"], f)}, lambda s: read_out(s["x"]), lambda e: {"x": start(e)})


def _residual(s: State, f: Branch, _: int) -> State:
    u = f(s["x"])
    return {"x": layer_norm(s["x"] + u), "r": s["r"] + u}


def _siamese(s: State, f: Branch, _: int) -> State:
    u = f(s["x"] + layer_norm(s["y"]))
    return {"x": layer_norm(s["x"] + u), "y": s["y"] + u}


def _b2t(s: State, f: Branch, _: int) -> State:
    kept = s["x"] if f.index == 1 else s["b"]
    total = s["x"] + f(s["x"])
    return {"x": layer_norm(total + kept if f.index == f.count else total), "b": kept if f.index < f.count else s["b"]}


def _admin(s: State, f: Branch, _: int) -> State:
    with torch.no_grad():  # one number a network, profiled over all its tokens
        omega = s["y"].square().mean((1, 2), keepdim=True).sqrt() / s["x"].square().mean((1, 2), keepdim=True).sqrt()
    total = omega * s["x"] + f(s["x"])
    return {"x": layer_norm(total), "y": total}


def _hyper(s: State, f: Branch, _: int) -> State:
    """The stream that sublayer t reads is number t mod 4; here it is always called x, so the names move on."""
    u = f(layer_norm(s["x"]))
    order = ("x", "h1", "h2", "h3")
    moved = {name: s[name] + u for name in order}
    return {name: moved[order[(place + 1) % 4]] for place, name in enumerate(order)}


def _mix_ln(s: State, f: Branch, depth: int) -> State:
    x = s["x"]
    return {"x": layer_norm(x + f(x)) if 4 * f.layer <= depth else x + f(layer_norm(x))}


def _normformer(x: Tensor, f: Branch) -> Tensor:
    return x + (layer_norm(f(layer_norm(x))) if f.is_attention else f(layer_norm(x), middle=layer_norm))


def _hybrid(x: Tensor, f: Branch) -> Tensor:
    if f.is_attention:
        return x + f(x, query=layer_norm, key=layer_norm, value=layer_norm)
    x = layer_norm(x)
    return x + f(x)


PLAIN = {
    "post-ln": _x(lambda x, f: layer_norm(x + f(x))),
    "post-rmsnorm": _x(lambda x, f: rms_norm(x + f(x))),
    "pre-ln": _x(lambda x, f: x + f(layer_norm(x)), layer_norm),
    "pre-rmsnorm": _x(lambda x, f: x + f(rms_norm(x)), rms_norm),
    "residual-only": _x(lambda x, f: x + f(x)),
    "residual-final-ln": _x(lambda x, f: x + f(x), layer_norm),
    "residual-final-rmsnorm": _x(lambda x, f: x + f(x), rms_norm),
    "no-residual": _x(lambda x, f: f(x)),
    "no-residual-ln": _x(lambda x, f: layer_norm(f(x))),
    "no-residual-rmsnorm": _x(lambda x, f: rms_norm(f(x))),
    "deepnorm": Plain(
        lambda s, f, depth: {"x": layer_norm((2 * depth) ** 0.25 * s["x"] + f(s["x"]))}, gain=lambda depth: (8 * depth) ** -0.25
    ),
    "keel": Plain(lambda s, f, depth: {"x": layer_norm(depth * s["x"] + f(layer_norm(s["x"])))}),
    "sandwich-ln": _x(lambda x, f: x + layer_norm(f(layer_norm(x))), layer_norm),
    "peri-ln": _x(lambda x, f: x + rms_norm(f(rms_norm(x))), rms_norm, rms_norm),
    "sub-ln": Plain(
        lambda s, f, _: {"x": s["x"] + f(layer_norm(s["x"]), middle=layer_norm)},
        lambda s: layer_norm(s["x"]),
        gain=lambda depth: sqrt(log(2 * depth)),
    ),
    "normformer": _x(_normformer, layer_norm),
    "qk-norm": _x(lambda x, f: x + f(layer_norm(x), query=layer_norm, key=layer_norm), layer_norm),
    "hybridnorm": _x(_hybrid, layer_norm),
    "layernorm-scaling": _x(lambda x, f: x + f(layer_norm(x) / f.layer**0.5), layer_norm),
    "mix-ln": Plain(_mix_ln, lambda s: layer_norm(s["x"])),
    "residual": Plain(_residual, lambda s: s["x"] + layer_norm(s["r"]), lambda e: {"x": e, "r": e}),
    "siamesenorm": Plain(_siamese, lambda s: s["x"] + layer_norm(s["y"]), lambda e: {"x": e, "y": e}),
    "b2t": Plain(_b2t, start=lambda e: {"x": e, "b": e}),
    "admin": Plain(_admin, start=lambda e: {"x": e, "y": e}),
    "hyper-connections": Plain(
        _hyper, lambda s: layer_norm(s["x"] + s["h1"] + s["h2"] + s["h3"]), lambda e: dict.fromkeys(("x", "h1", "h2", "h3"), e)
    ),
    "rezero": _x(lambda x, f: x + 0.0 * f(x)),
    "skipinit": Plain(lambda s, f, depth: {"x": s["x"] + f(s["x"]) / depth**0.5}),
    # Which blocks share their matrices is a matter of what `Weights` hands out: see tests/test_tied.py.
    "looped-residual": _x(lambda x, f: x + f(x)),
    "looped-no-residual": _x(lambda x, f: f(x)),
    "looped-pre-ln": _x(lambda x, f: x + f(layer_norm(x)), layer_norm),
    "dynamic-tanh": _x(lambda x, f: x + f(torch.tanh(x / 2)), lambda x: torch.tanh(x / 2)),
}


def plain_stack(
    name: str, sublayers: tuple[str, ...], depth: int, inputs: Tensor, w: Weights, causal: bool
) -> tuple[list[State], Tensor]:
    """Streams at layers 0..L and the output; every stream is a node of its own for the gradient, as an expression's is."""
    variant = PLAIN[name]
    states = [_own(variant.start(inputs))]
    for layer in range(1, depth + 1):
        state = states[-1]
        for index, sublayer in enumerate(sublayers, start=1):
            state = _own(variant.step(state, Branch(sublayer, layer, index, len(sublayers), w, causal), depth))
        states.append(state)
    return states, variant.read_out(states[-1])


def _own(state: State) -> State:
    return {name: x.view_as(x) for name, x in state.items()}
