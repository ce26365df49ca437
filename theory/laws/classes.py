"""A variant's classes: gradient in depth, gradient across layers, growth of the stream."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import sympy

from theory.algebra import Variant
from theory.configuration import Configuration
from theory.errors import InvalidInput
from theory.laws.growth import Behaviour, of_growth, read_class
from theory.laws.kinds import moments_at, solve
from theory.laws.law import Law
from theory.laws.solved import Solved
from theory.stack import Profile, profile
from theory.sublayers import SublayerMaps, sublayer

TOKENS = 8
"""Of a stack with attention; token by token one is enough."""
DOUBLINGS = {(True, False): 10, (True, True): 8, (False, False): 8, (False, True): 6}
"""Largest depth as a power of 2, for (token-wise, shared weights): shared weights take the square of the depth."""


@dataclass(frozen=True)
class Class:
    """The classes of one variant with one block of sublayers, at infinite width, for isotropic ends.

    Attributes:
        in_depth: squared gradient at layer 0 for a unit gradient at the output, against the depth L.
        across_layers: squared gradient at layer l of one deep network, as a class in l; a numeric one at l = L/2 over layer 0,
            away from what only the last blocks below the output see.
        forward: second moment of the stream x at the last layer, against L.
        others: the same of the other streams, by name.
    """

    in_depth: Behaviour
    across_layers: Behaviour
    forward: Behaviour
    others: tuple[tuple[str, Behaviour], ...] = ()

    def describe(self) -> str:
        """The three classes in words."""
        named = (("In depth", self.in_depth), ("across layers", self.across_layers), ("stream", self.forward))
        return "; ".join(f"{name}: {behaviour.summary}" for name, behaviour in named) + "."

    @property
    def exact(self) -> bool:
        """Whether the gradient's classes come from a closed form."""
        return self.in_depth.exact and self.across_layers.exact


def gradient_class(variant: Variant, sublayers: tuple[str, ...]) -> Class:
    """Classes of a variant, from its closed form where it has one, else read off the numeric recursion (``exact`` says which).

    Args:
        variant: the expression.
        sublayers: names of one block's sublayers, such as ``("relu",)`` or ``("attention", "gelu")``.

    Raises:
        InvalidInput: theory predicts nothing of the variant.
    """
    maps = tuple(sublayer(name) for name in sublayers)
    closed = closed_class(variant, maps) if all(of.tokenwise for of in maps) else None
    return closed or numeric_class(variant, sublayers)


def closed_class(variant: Variant, maps: tuple[SublayerMaps, ...]) -> Class | None:
    """The classes from a closed form with the sublayers' numbers put in; None where there is none."""
    law = solve(variant, maps)
    if not isinstance(law, Law | Solved):
        return None
    values = moments_at(variant, law.moments, maps, law)
    if isinstance(law, Law):
        grown = law.growth_of_stream().subs(values)
        depth, across = law.growth_in_depth(values), law.growth_in_layer(values)
        return Class(of_growth(depth, "L"), of_growth(across, "l"), of_growth(grown, "L"))
    put = law.subs(values)
    if put.valid != sympy.true:
        return None
    in_depth, layers = of_growth(put.in_depth, "L"), of_growth(put.across_layers, "l")
    if put.limit is not None and put.in_depth.flat:
        in_depth = replace(
            in_depth, words=f"{in_depth.words}, tends to {float(put.limit.subs(sympy.Symbol('q_0', positive=True), 1)):.4g}"
        )
    if law.segments:
        layers = replace(layers, words=put.parts)
    others = tuple((name, of_growth(growth, "L")) for name, growth in put.others)
    return Class(in_depth, layers, of_growth(put.forward, "L"), others)


@lru_cache(maxsize=128)
def numeric_class(variant: Variant, sublayers: tuple[str, ...]) -> Class:
    """The classes read off the numeric recursion, at doubling depths up to a thousand blocks (256 with attention).

    Raises:
        InvalidInput: theory predicts nothing of the variant.
    """
    stacks = _stacks(variant, sublayers)
    depths = [stack.configuration.depth for stack in stacks]
    return Class(
        in_depth=read_class(depths, [_mean(stack.backward[0]["x", "x"]) for stack in stacks], "L"),
        across_layers=read_class([depth // 2 for depth in depths], [_across(stack) for stack in stacks], "l"),
        forward=read_class(depths, [_mean(stack.forward[-1]["x", "x"]) for stack in stacks], "L"),
        others=tuple(
            (name, read_class(depths, [_mean(stack.forward[-1][name, name]) for stack in stacks], "L"))
            for name in variant.streams
            if name != "x"
        ),
    )


def _mean(moment: np.ndarray) -> float:
    return float(np.diagonal(moment).mean())


def _across(stack: Profile) -> float:
    first, middle = (_mean(stack.backward[layer]["x", "x"]) for layer in (0, stack.configuration.depth // 2))
    return middle / first if first else float("nan")


def _stacks(variant: Variant, sublayers: tuple[str, ...]) -> list[Profile]:
    """Profiles at depths 2, 4, 8, …, as far as floats reach."""
    found: list[Profile] = []
    tokenwise = Configuration(variant, sublayers).tokenwise
    tokens = 1 if tokenwise else TOKENS
    for depth in (2**k for k in range(1, DOUBLINGS[tokenwise, variant.tied] + 1)):
        try:
            with np.errstate(all="ignore"):  # what leaves the range of floats is cut off below
                found.append(profile(Configuration(variant, sublayers, depth, tokens=tokens), tokens, infinite_width=True))
        except InvalidInput:
            if len(found) < 4:
                raise
            break
    return found
