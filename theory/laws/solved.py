"""A law in closed form of any kind: what everything that prints or compares laws needs of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy

from theory.laws.asymptotics import Growth, plain
from theory.laws.recursion import Moments
from theory.laws.steps import DerivationStep


@dataclass(frozen=True)
class Solved:
    """A law that does not have the form of `theory.laws.law.Law`.

    Attributes:
        moments: symbols of the sublayers' s² and κ² that the formulas hold.
        gradient: E|∂𝓛/∂x_l|² per coordinate for a unit gradient at the output, in l and L; None where only its class is derived.
        in_depth, across_layers, forward: classes of the gradient at fixed l in L, of the gradient in l, and of q_L.
        steps: the derivation.
        condition: what it holds for, such as ``homogeneous sublayers``; empty where it holds for all.
        limit: of the gradient at layer 0 as L → ∞, where it is finite and known.
        valid: a condition on the moments under which the classes hold.
        segments: (where, class across layers, its variable) part by part of the stack, where they differ.
        others: class of the other streams' second moments, by name.
    """

    moments: tuple[Moments, ...]
    gradient: sympy.Expr | None
    in_depth: Growth
    across_layers: Growth
    forward: Growth
    steps: tuple[DerivationStep, ...]
    condition: str = ""
    limit: sympy.Expr | None = None
    segments: tuple[tuple[str, Growth, str], ...] = ()
    others: tuple[tuple[str, Growth], ...] = ()
    valid: sympy.Basic = sympy.true

    def subs(self, values: dict[sympy.Symbol, sympy.Expr]) -> Solved:
        """The classes and formulas with numbers or symbols put for the moments."""
        return replace(
            self,
            gradient=None if self.gradient is None else self.gradient.subs(values),
            in_depth=self.in_depth.subs(values),
            across_layers=self.across_layers.subs(values),
            forward=self.forward.subs(values),
            limit=None if self.limit is None else self.limit.subs(values),
            valid=self.valid.subs(values),
            segments=tuple((where, growth.subs(values), variable) for where, growth, variable in self.segments),
            others=tuple((name, growth.subs(values)) for name, growth in self.others),
        )

    @property
    def parts(self) -> str:
        """The segments in words; empty where the whole stack has one class."""
        return "; ".join(f"{where}: {growth.describe(variable)}" for where, growth, variable in self.segments)

    @property
    def homogeneous(self) -> dict[sympy.Symbol, sympy.Expr]:
        """The substitution κ² = s² of a positively homogeneous sublayer."""
        return {moments.gain: moments.square for moments in self.moments}


def class_step(
    in_depth: Growth, across: Growth, stream: Growth, special: dict[sympy.Symbol, sympy.Expr], limit: sympy.Expr | None = None
) -> DerivationStep:
    """The classes as a derivation's step, in general and with ``special`` (κ² = s²) put in."""
    parts = []
    for what, growth, variable in (
        ("In depth at fixed l", in_depth, "L"),
        ("Across the layers of one network", across, "l"),
        ("Stream", stream, "l"),
    ):
        general, put = growth.describe(variable), growth.subs(special).describe(variable)
        parts.append(f"{what}: {general}" + ("" if put == general else f"; for κ² = s²: {put}"))
    where = " (κ² = s²)" if special else ""
    end = "" if limit is None else f" At layer 0 the gradient tends to {plain(limit)} as L → ∞{where}."
    return DerivationStep("Asymptotic class", ". ".join(parts) + "." + end)
