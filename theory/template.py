"""The file that a new variant starts from: it runs as it is, and says what may stand where."""

from __future__ import annotations

from pathlib import Path

from theory.algebra import LN, F, Stream, Variant
from theory.errors import InvalidInput
from theory.variants import registry

TEMPLATE = '''\
"""{name}: x_l = x_{{l-1}} + F(LN(x_{{l-1}})), y = LN(x_L). Write your equation here, and where it comes from."""

import sympy
from theory.algebra import LN, RMS, Case, F, L, Stream, Variant, l

x = Stream("x")  # the residual stream, as it enters the step; every variant has one called x
c = sympy.Symbol("c", positive=True)  # a constant; its value stands below

VARIANT = Variant(
    name="{name}",
    # The stream after the step. F is the sublayer (--sublayers relu, attention,gelu ...), LN and RMS are the norms.
    #   Post-LN: LN(x + F(x))    DeepNorm: LN(c * x + F(x))    half of the branch: x + sympy.Rational(1, 2) * F(LN(x))
    # Several streams: {{"x": LN(x + F(x)), "r": r + F(x)}}, r = Stream("r"). Norms inside F: F(x, query=RMS, key=RMS, middle=LN)
    # By place, the first that holds: [Case(LN(x + F(x)), when=l <= L / 4), Case(x + F(LN(x)), sublayer="ffn"), Case(x + F(x))]
    update=x + c * F(LN(x)),
    # The output from the last x. Leave it out if x itself is the output.
    read_out=LN(x),
    # Exact formulas in the depth L and the block's number l, such as (2 * L) ** sympy.Rational(1, 4); 0 is a closed gate.
    constants={{c: sympy.Integer(1)}},
    # Factor on the standard deviation of the branch's weights at initialisation.
    gain=sympy.Integer(1),
    source="our own",
)

# python -m theory derive {name}.py                    its law, step by step
# python -m empirical measure {name}.py                its gradient, layer by layer
# tox run -e verify -- --variant {name}.py             all claims, beside Post-LN, Pre-LN and DeepNorm
'''


def create(name: str, folder: Path) -> Path:
    """Write ``name``.py, a valid variant with comments, into ``folder``.

    Args:
        name: lower-case, hyphenated, and no installed variant's.
        folder: an existing directory.

    Raises:
        InvalidInput: a bad or taken name, a file that exists already, a folder that cannot be written.
    """
    Variant(name=name, update=F(LN(Stream("x"))), source="checks the name")
    if name in registry():
        raise InvalidInput(f"{name!r} is installed already: give your variant a name of its own (see: python -m theory list)")
    path = folder / f"{name}.py"
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(TEMPLATE.format(name=name))
    except FileExistsError:
        raise InvalidInput(f"{path} exists already: choose another name, or remove it first") from None
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror}; name another place with --directory") from None
    return path
