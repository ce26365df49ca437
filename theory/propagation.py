"""Second moments through one step of any variant, found by walking its expression.

At infinite width every node of an update is a *linear form* over independent sources: the streams that enter
the step and the outputs of its sublayers (fresh zero-mean weights make those uncorrelated with all else). A norm
is then a division by a deterministic root mean square. A pointwise function φ of a Gaussian u is E[φ']·u and a rest that
is uncorrelated with everything else (Bussgang 1952), a source of its own. Backwards the same holds for gradients, with the
gradients of the outgoing streams and each sublayer's J_Fᵀδ as sources. One walk serves sympy scalars (laws) and
token-by-token numpy matrices (predictions); a `Carrier` says which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import sympy

from theory.algebra import Expression, Matched, Norm, Pointwise, Scale, Stream, Sublayer, Sum, walk
from theory.errors import NoClosedForm
from theory.moments import activation, mean_slope, slope_kernel, value_kernel

Form = dict[Any, Any]
"""Source → coefficient."""
Gram = dict[tuple[Any, Any], Any]
"""Pair of sources → second moment; a missing pair is uncorrelated."""


class Carrier(Protocol):
    """Arithmetic of coefficients (one per token) and second moments (one per pair of tokens)."""

    one: Any

    def outer(self, left: Any, right: Any) -> Any:
        """Product of two coefficients as a factor on a second moment."""

    def rms(self, moment: Any) -> Any:
        """Root mean square of each token."""

    def level(self, moment: Any) -> Any:
        """Root mean square over all tokens."""

    def pointwise(self, function: str, moment: Any) -> tuple[Any, Any, Any]:
        """Of a pointwise function of u with this second moment: E φ(u)φ(v), E φ'(u), E φ'(u)φ'(v)."""

    def tidy(self, moment: Any) -> Any:
        """A canonical form of a second moment."""


class Symbols:
    """Scalars in sympy: one token, exact."""

    one = sympy.Integer(1)

    def outer(self, left: Any, right: Any) -> Any:
        return left * right

    def rms(self, moment: Any) -> Any:
        return sympy.sqrt(moment)

    def level(self, moment: Any) -> Any:
        return sympy.sqrt(moment)

    def pointwise(self, function: str, moment: Any) -> tuple[Any, Any, Any]:
        raise NoClosedForm(f"{function} in place of a norm: its moments follow the stream's length")

    def tidy(self, moment: Any) -> Any:
        return sympy.factor(sympy.cancel(sympy.together(moment)))


class Tokens:
    """Coefficients of shape (tokens,) and second moments of shape (tokens, tokens) in numpy."""

    one = 1.0

    def outer(self, left: Any, right: Any) -> Any:
        if isinstance(left, float) and isinstance(right, float):
            return left * right
        return np.multiply.outer(left, right) if np.ndim(left) and np.ndim(right) else self._broadcast(left, right)

    @staticmethod
    def _broadcast(left: Any, right: Any) -> Any:
        return np.asarray(left)[..., None] * right if np.ndim(left) else left * np.asarray(right)[None, :]

    def rms(self, moment: Any) -> Any:
        return np.sqrt(np.diagonal(moment))

    def level(self, moment: Any) -> Any:
        return float(np.sqrt(np.diagonal(moment).mean()))

    def pointwise(self, function: str, moment: Any) -> tuple[Any, Any, Any]:
        phi = activation(function)
        slopes = np.array([mean_slope(phi, float(variance)) for variance in np.diagonal(moment)])
        return value_kernel(phi, moment), slopes, slope_kernel(phi, moment)

    def tidy(self, moment: Any) -> Any:
        return moment


@dataclass
class Walk:
    """The walk of one step (or of a read-out).

    Args:
        targets: what is computed: (name, expression) pairs.
        streams: second moments of the incoming streams, by pair of names.
        carrier: the arithmetic.
        coefficient: value of a `Scale`'s coefficient.
        sublayer: forward second-moment map of the step's sublayer, (node, moment of the argument) → moment.
        divided: the second moment that a norm leaves, where it is more than a division by the root mean square.
    """

    targets: tuple[tuple[str, Expression], ...]
    streams: Mapping[tuple[str, str], Any]
    carrier: Carrier
    coefficient: Callable[[Any], Any]
    sublayer: Callable[[Sublayer, Any], Any]
    divided: Callable[[Walk, Norm], Any] | None = None
    forms: dict[Expression, Form] = field(default_factory=dict)
    gram: Gram = field(default_factory=dict)
    root_mean_squares: dict[Norm, Any] = field(default_factory=dict)
    moments: dict[Expression, Any] = field(default_factory=dict)
    after_norms: dict[Norm, Any] = field(default_factory=dict)
    levels: dict[Matched, Any] = field(default_factory=dict)
    slopes: dict[Pointwise, tuple[Any, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.order = list(walk(*(node for _, node in self.targets)))
        self.gram.update({(Stream(a), Stream(b)): moment for (a, b), moment in self.streams.items()})
        for node in self.order:
            self.forms[node] = self._form(node)

    def _form(self, node: Expression) -> Form:
        match node:
            case Stream():
                return {node: self.carrier.one}
            case Scale(coefficient, argument):
                return _scaled(self.forms[argument], self.coefficient(coefficient))
            case Sum(terms):
                return _summed([self.forms[term] for term in terms])
            case Norm(argument):
                self.moments[argument] = moment = self.moment(self.forms[argument])
                self.root_mean_squares[node] = rms = self.carrier.rms(moment)
                if self.divided is not None and (after := self.divided(self, node)) is not None:
                    self.after_norms[node] = after
                return _scaled(self.forms[argument], 1 / rms)
            case Sublayer(argument):
                self.moments[argument] = moment = self.moment_of(argument)
                self.gram[node, node] = self.sublayer(node, moment)
                return {node: self.carrier.one}
            case Matched(argument, reference):
                wanted, given = (self.carrier.level(self.moment_of(part)) for part in (reference, argument))
                self.levels[node] = wanted / given
                return _scaled(self.forms[argument], self.levels[node])
            case Pointwise(argument, function):
                self.moments[argument] = moment = self.moment_of(argument)
                values, slope, slopes = self.carrier.pointwise(function, moment)
                self.slopes[node] = slope, slopes
                self.gram[node, node] = values - self.carrier.outer(slope, slope) * moment
                return _summed([_scaled(self.forms[argument], slope), {node: self.carrier.one}])
        raise TypeError(f"no moment rule for {type(node).__name__}")

    def moment(self, left: Form, right: Form | None = None) -> Any:
        """Second moment of one form, or the cross moment of two."""
        return _bilinear(left, left if right is None else right, self.gram, self.carrier)

    def moment_of(self, node: Expression) -> Any:
        """Second moment of a node."""
        if isinstance(node, Norm) and node in self.after_norms:
            return self.after_norms[node]
        return self.moment(self.forms[node])

    def outgoing(self) -> dict[tuple[str, str], Any]:
        """Second moments of the targets, by pair of names."""
        return {
            (a, b): self.moment_of(f) if a == b else self.moment(self.forms[f], self.forms[g])
            for a, f in self.targets
            for b, g in self.targets
        }

    def backward(self, gradients: Mapping[tuple[str, str], Any], sublayer: Callable[[Any, Any], Any]) -> Backward:
        """Second moments of the gradients at the incoming streams.

        Args:
            gradients: second moments of the gradients at the targets, by pair of names.
            sublayer: backward map, (moment of the argument, moment of the gradient at F) → moment at the argument.
        """
        result = self._backward({(("∂", a), ("∂", b)): m for (a, b), m in gradients.items()})
        for name, node in self.targets:
            result.add(node, {("∂", name): self.carrier.one})
        for node in reversed(self.order):
            result.pass_down(node, self, sublayer)
        return result

    def _backward(self, gram: Gram) -> Backward:
        return Backward(self.carrier, gram)


@dataclass
class Backward:
    """Gradients as linear forms: at every node, and over sources ∂stream and J_Fᵀδ."""

    carrier: Carrier
    gram: Gram
    forms: dict[Expression, Form] = field(default_factory=dict)
    at_sublayers: dict[Sublayer, Any] = field(default_factory=dict)

    def add(self, node: Expression, form: Form) -> None:
        """Add a contribution to the gradient at ``node``."""
        self.forms[node] = _summed([self.forms.get(node, {}), form])

    def pass_down(self, node: Expression, step: Walk, sublayer: Callable[[Any, Any], Any]) -> None:
        """Hand the finished gradient at ``node`` to its children."""
        form = self.forms.get(node, {})
        match node:
            case Scale(coefficient, argument):
                self.add(argument, _scaled(form, step.coefficient(coefficient)))
            case Sum(terms):
                for term in terms:
                    self.add(term, form)
            case Norm(argument):
                self.add(argument, _scaled(form, 1 / step.root_mean_squares[node]))
            case Sublayer(argument):
                self.at_sublayers[node] = received = _bilinear(form, form, self.gram, self.carrier)
                source = ("J", node)
                self.gram[source, source] = sublayer(step.moments[argument], received)
                self.add(argument, {source: self.carrier.one})
            case Matched(argument):
                self.add(argument, _scaled(form, step.levels[node]))
            case Pointwise(argument):
                slope, slopes = step.slopes[node]
                rest = ("φ", node)
                received = _bilinear(form, form, self.gram, self.carrier)
                self.gram[rest, rest] = (slopes - self.carrier.outer(slope, slope)) * received
                self.add(argument, _summed([_scaled(form, slope), {rest: self.carrier.one}]))

    def moment(self, node: Expression) -> Any:
        """Second moment of the gradient at a node."""
        form = self.forms.get(node, {})
        return _bilinear(form, form, self.gram, self.carrier)

    def form(self, stream: str) -> Form:
        """The gradient at an incoming stream."""
        return self.forms.get(Stream(stream), {})

    def incoming(self, streams: tuple[str, ...]) -> dict[tuple[str, str], Any]:
        """Second moments of the gradients at the incoming streams, by pair of names."""
        return {(a, b): _bilinear(self.form(a), self.form(b), self.gram, self.carrier) for a in streams for b in streams}


def _scaled(form: Form, coefficient: Any) -> Form:
    return {source: coefficient * value for source, value in form.items()}


def _summed(forms: list[Form]) -> Form:
    total: Form = {}
    for form in forms:
        for source, value in form.items():
            total[source] = total[source] + value if source in total else value
    return total


def _bilinear(left: Form, right: Form, gram: Gram, carrier: Carrier) -> Any:
    total: Any = 0
    for a, x in left.items():
        for b, y in right.items():
            if (a, b) in gram:
                total = total + carrier.outer(x, y) * gram[a, b]
    return carrier.tidy(total)
