"""The algebra: printing, equality, and one clear line for every way to write a variant wrongly."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import sympy

from theory.algebra import (
    INPUT,
    LN,
    RMS,
    Case,
    F,
    L,
    Matched,
    Norm,
    Pointwise,
    Position,
    Scale,
    Stream,
    Sum,
    Variant,
    l,
    tanh,
    to_latex,
    to_text,
    walk,
)
from theory.errors import InvalidInput
from theory.variants import load, registry

x, r = Stream("x"), Stream("r")
alpha = sympy.Symbol("alpha", positive=True)

EQUATIONS = {
    "deepnorm": "x_{l} = LN(α·x_{l-1} + F(x_{l-1})); y = x_{L}; alpha = 2**(1/4)*L**(1/4)",
    "no-residual": "x_{l} = F(x_{l-1}); y = x_{L}",
    "no-residual-ln": "x_{l} = LN(F(x_{l-1})); y = x_{L}",
    "no-residual-rmsnorm": "x_{l} = RMS(F(x_{l-1})); y = x_{L}",
    "post-ln": "x_{l} = LN(x_{l-1} + F(x_{l-1})); y = x_{L}",
    "post-rmsnorm": "x_{l} = RMS(x_{l-1} + F(x_{l-1})); y = x_{L}",
    "pre-ln": "x_{l} = x_{l-1} + F(LN(x_{l-1})); y = LN(x_{L})",
    "pre-rmsnorm": "x_{l} = x_{l-1} + F(RMS(x_{l-1})); y = RMS(x_{L})",
    "residual": "x_{l} = LN(x_{l-1} + F(x_{l-1})); r_{l} = r_{l-1} + F(x_{l-1}); y = x_{L} + LN(r_{L})",
    "residual-final-ln": "x_{l} = x_{l-1} + F(x_{l-1}); y = LN(x_{L})",
    "residual-final-rmsnorm": "x_{l} = x_{l-1} + F(x_{l-1}); y = RMS(x_{L})",
    "residual-only": "x_{l} = x_{l-1} + F(x_{l-1}); y = x_{L}",
}


@pytest.mark.parametrize("name", EQUATIONS)
def test_equations_are_the_papers(name: str) -> None:
    variant = registry()[name]
    assert variant.name == name
    # DeepNorm's formula is compared by value: sympy may order its factors as it likes.
    assert variant.equation.split("; alpha")[0] == EQUATIONS[name].split("; alpha")[0]


def test_deepnorms_constants_are_the_papers() -> None:
    """Wang et al. 2022, section 4.3, at 8 layers: α = 16^(1/4) = 2 and β = 64^(-1/4) = 1/√8."""
    variant = registry()["deepnorm"]
    ((symbol, _),) = variant.formulas
    assert variant.coefficient(symbol, Position(3, 8)) == pytest.approx(2.0, rel=1e-15)
    assert variant.branch_gain(8) == pytest.approx(8**-0.5, rel=1e-15)


def test_latex_of_nested_and_scaled_expressions() -> None:
    assert to_latex(LN(x + F(x)), "_{l-1}") == r"\mathrm{LN}\left(x_{l-1} + F\left(x_{l-1}\right)\right)"
    assert to_latex(alpha * (x + RMS(x))) == r"\alpha\,\left(x + \mathrm{RMS}\left(x\right)\right)"
    assert registry()["pre-ln"].latex == (
        r"x_{l} = x_{l-1} + F\left(\mathrm{LN}\left(x_{l-1}\right)\right),\qquad y = \mathrm{LN}\left(x_{L}\right)"
    )


def test_equal_expressions_are_equal_and_hash_alike() -> None:
    assert LN(x + F(x)) == LN(Stream("x") + F(Stream("x")))
    assert hash(LN(x + F(x))) == hash(LN(Stream("x") + F(Stream("x"))))
    assert LN(x) != RMS(x)
    assert x + F(x) != F(x) + x  # an expression is what was written, not a value
    assert (x + r) + F(x) == Sum((x, r, F(x)))


def test_equal_variants_are_equal_and_hash_alike() -> None:
    one, other = (Variant(name="mine", update=LN(x + F(x)), source="here") for _ in range(2))
    assert one == other and len({one, other}) == 1
    assert one != Variant(name="mine", update=RMS(x + F(x)), source="here")


def test_walk_lists_children_first_and_once() -> None:
    order = list(walk(LN(x + F(x)), r + F(x)))
    assert len(order) == len(set(order)) == 6
    assert all(order.index(child) < order.index(node) for node in order for child in node.children)


def _variant(update: object = None, **parts: object) -> Variant:
    return Variant(**({"name": "mine", "source": "here", "update": x + F(x) if update is None else update} | parts))  # type: ignore[arg-type]


WRONG = {
    "undeclared stream": (lambda: _variant(LN(r + F(x))), "'r' has no update; streams with one: x"),
    "undeclared stream in the read-out": (lambda: _variant(read_out=LN(r)), "'r' has no update"),
    "no sublayer": (lambda: _variant(LN(x)), "no sublayer F"),
    "nested sublayer": (lambda: _variant(x + F(LN(F(x)))), "a step of its own"),
    "two different sublayers in a step": (lambda: _variant(x + F(x) + F(LN(x))), "step"),
    "unknown symbol": (lambda: _variant(alpha * x + F(x)), "alpha in a coefficient has no value; give it in constants"),
    "float coefficient": (lambda: 0.5 * x, "write it exactly, as sympy.Rational"),
    "sympy float coefficient": (lambda: sympy.Float("0.3") * x, "sympy.Rational"),
    "unknown norm": (lambda: Norm(x, "batch"), "use 'layer' or 'rms'"),  # type: ignore[arg-type]
    "number plus stream": (lambda: x + 1, "wrap it in a Stream, a Norm or a Sublayer"),  # type: ignore[operator]
    "branch of a number": (lambda: F(3), "acts on an expression"),  # type: ignore[arg-type]
    "norm of a number": (lambda: LN(3), "acts on an expression"),  # type: ignore[arg-type]
    "product of streams": (lambda: x * r, "streams cannot be multiplied"),
    "scaling a number": (lambda: Scale(2, 3), "a scaling is number * expression"),  # type: ignore[arg-type]
    "coefficient that is no formula": (lambda: Scale("2 +", x), "is not a formula"),
    "upper-case name": (lambda: _variant(name="Post-LN"), "lower-case letters and digits joined by hyphens"),
    "empty name": (lambda: _variant(name=""), "lower-case letters and digits joined by hyphens"),
    "no source": (lambda: _variant(source="  "), "give its source"),
    "no stream x": (lambda: _variant({"r": r + F(r)}, read_out=r), "no update for the stream 'x'"),
    "update that is no expression": (lambda: _variant({"x": 3}), "not an expression of streams, sublayers, norms"),
    "read-out that is no expression": (lambda: _variant(read_out=3), "not an expression"),
    "sublayer in the read-out": (lambda: _variant(read_out=x + F(x)), "may only combine and normalise streams"),
    "constant with a foreign symbol": (lambda: _variant(constants={alpha: sympy.Symbol("N")}), "may hold only L, l, i and k"),
    "negative constant": (lambda: _variant(constants={alpha: 1 - L}), "has to be positive"),
    "vanishing gain": (lambda: _variant(gain=L - 8), "has to be positive"),
    "gain that changes from block to block": (lambda: _variant(gain=1 / l), "all blocks start with one gain"),
    "norm at an unknown place": (lambda: F(x, output=LN), "use query, key, value, middle"),
    "unknown pointwise function": (lambda: Pointwise(x, "sign"), "use tanh"),
    "case for an unknown sublayer": (lambda: Case(x + F(x), sublayer="mlp"), "use attention or ffn"),  # type: ignore[arg-type]
    "case with a number for a condition": (lambda: Case(x + F(x), when=l / 2), "a comparison in l, L, i and k"),
    "case with a foreign symbol": (lambda: Case(x + F(x), when=alpha > 1), "a comparison in l, L, i and k"),
    "cases of different streams": (lambda: _variant([Case({"x": x + F(x), "r": r}), Case(x + F(x))]), "the same streams in each"),
    "entry from a stream": (lambda: _variant(entry=LN(x)), "the embedded input Stream('e') only"),
    "entry of an unknown stream": (lambda: _variant(entry={"r": LN(INPUT)}), "an entry for r, which has no update"),
    "entry with a sublayer": (lambda: _variant(entry=F(INPUT)), "the entry holds a sublayer"),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_variant_is_refused_in_one_line_that_mends_it(fault: str) -> None:
    build, hint = WRONG[fault]
    with pytest.raises(InvalidInput) as caught:
        build()
    assert hint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_first_case_that_holds_is_applied() -> None:
    """Mix-LN at 9 blocks: Post-LN for l ≤ 9/4, so in blocks 1 and 2, and Pre-LN above."""
    variant = load("mix-ln")
    updates = [dict(variant.steps_at(Position(layer, 9)))["x"] for layer in range(1, 10)]
    assert updates == [LN(x + F(x))] * 2 + [x + F(LN(x))] * 7
    assert variant.fixed_steps("ffn") is None


def test_cases_go_by_sublayer_and_place_in_the_block() -> None:
    hybrid, b2t = load("hybridnorm"), load("b2t")
    assert dict(hybrid.fixed_steps("attention") or ())["x"] == x + F(x, query=LN, key=LN, value=LN)
    assert dict(hybrid.fixed_steps("ffn") or ())["x"] == LN(x) + F(LN(x))
    places = [dict(b2t.fixed_steps("ffn", index, 3) or ())["b"] for index in (1, 2, 3)]
    assert places == [x, Stream("b"), Stream("b")]  # the block's input is kept by its first sublayer


def test_a_place_without_a_case_is_one_clear_line() -> None:
    variant = _variant([Case(x + F(x), when=l < 3)])
    with pytest.raises(
        InvalidInput, match=r"no case holds for ffn sublayer 1 of block 3 of 8; end its updates with a Case without"
    ):
        variant.steps_at(Position(3, 8))


def test_what_the_wider_algebra_prints() -> None:
    assert to_text(F(x, query=LN, middle=RMS)) == "F[LN query, RMS middle](x)"
    assert to_latex(F(x, middle=LN)) == r"F_{\mathrm{LN middle}}\left(x\right)"
    assert to_text(x + F(tanh(alpha * x))) == "x + F(tanh(α·x))"
    assert to_text(Matched(x, r)) == "(rms(r)/rms(x))·x"
    assert load("peri-ln").equation.startswith("x_{0} = RMS(e); x_{l} = x_{l-1} + RMS(F(RMS(x_{l-1})))")
    assert load("mix-ln").equation.startswith("x_{l} = LN(x_{l-1} + F(x_{l-1})) (l ≤ L/4); x_{l} = ")
    assert load("looped-residual").equation.endswith("(one block's weights for all)")


GOOD_FILE = """
from theory.algebra import LN, F, Stream, Variant

x = Stream("x")
VARIANT = Variant(name="mine", update=LN(x + F(LN(x))), source="here")
"""


def _written(folder: Path, text: str) -> str:
    path = folder / "mine.py"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_users_file_adds_a_variant(tmp_path: Path) -> None:
    assert load(_written(tmp_path, GOOD_FILE)) == Variant(name="mine", update=LN(x + F(LN(x))), source="here")


BROKEN_FILES = {
    "syntax error": ("VARIANT = (", "does not run: SyntaxError"),
    "no VARIANT": ("variant = 3", "defines no VARIANT; write VARIANT = Variant(name=…, update=…, source=…)"),
    "VARIANT of another kind": ("VARIANT = 3", "defines no VARIANT"),
    "unknown import": ("import no_such_module_here", "does not run: ModuleNotFoundError"),
    "wrong variant": (GOOD_FILE.replace("LN(x + F(LN(x)))", "LN(x)"), "no sublayer F"),
    "exits": ("raise SystemExit(3)", "does not run: SystemExit"),
}


@pytest.mark.parametrize("fault", BROKEN_FILES)
def test_a_broken_file_is_named_in_one_line(fault: str, tmp_path: Path) -> None:
    text, hint = BROKEN_FILES[fault]
    path = _written(tmp_path, text)
    with pytest.raises(InvalidInput) as caught:
        load(path)
    assert hint in str(caught.value) and "mine.py" in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"no file .*absent\.py: give the path of a Python file that defines VARIANT"):
        load(str(tmp_path / "absent.py"))


@pytest.mark.parametrize(("typo", "meant"), [("post-nl", "post-ln"), ("deep-norm", "deepnorm"), ("pre-rms-norm", "pre-rmsnorm")])
def test_a_near_miss_is_suggested(typo: str, meant: str) -> None:
    with pytest.raises(InvalidInput, match=f"did you mean {meant}"):
        load(typo)


def test_a_far_miss_lists_what_is_known() -> None:
    with pytest.raises(InvalidInput, match="known: .*post-ln.*pre-ln"):
        load("zzz")


def test_every_module_is_registered_under_its_own_name() -> None:
    for name in EQUATIONS:
        module = importlib.import_module(f"theory.variants.{name.replace('-', '_')}")
        assert registry()[name] is module.VARIANT
