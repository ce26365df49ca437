"""The house's arrows and registers, read from the source files."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from empirical.probes import PROBES
from empirical.probes.base import Probe
from theory.algebra import Variant
from theory.prediction import Quantity
from theory.quantities import QUANTITIES

ROOT = Path(__file__).resolve().parents[1]
FORBIDDEN = {
    "theory": {"torch", "empirical", "reports", "tests"},
    "empirical": {"sympy", "reports", "tests"},
    "reports": {"torch", "empirical", "tests"},
}


def imported(source: str) -> Iterator[str]:
    """Top-level names of all modules that ``source`` imports, at any depth of nesting."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


def test_the_parser_sees_every_form_of_import() -> None:
    source = "import torch.nn\nfrom sympy import sqrt\ndef f():\n    import reports.x as y, tests\n    from . import here\n"
    assert sorted(imported(source)) == ["reports", "sympy", "tests", "torch"]


@pytest.mark.parametrize("package", FORBIDDEN)
def test_the_arrows_run_one_way(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    crossings = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files
        for name in imported(path.read_text(encoding="utf-8"))
        if name in FORBIDDEN[package]
    }
    assert not crossings


def _modules(folder: str) -> list[str]:
    return [p.stem for p in sorted((ROOT / folder).glob("*.py")) if not p.stem.startswith("_") and p.stem != "base"]


REGISTERS = {
    "theory/variants": ("VARIANT", Variant),
    "theory/quantities": ("QUANTITY", Quantity),
    "empirical/probes": ("PROBE", Probe),
}


@pytest.mark.parametrize("folder", REGISTERS)
def test_every_module_defines_its_object_under_its_own_name(folder: str) -> None:
    attribute, kind = REGISTERS[folder]
    modules = _modules(folder)
    assert len(modules) >= 5
    for stem in modules:
        found = getattr(importlib.import_module(f"{folder.replace('/', '.')}.{stem}"), attribute)
        assert isinstance(found, (Variant, Quantity, Probe)) and isinstance(found, kind)
        assert found.name == stem.replace("_", "-")


def test_every_quantity_has_a_probe_of_the_same_name_and_no_probe_is_idle() -> None:
    assert {name: probe.name for name, probe in PROBES.items()} == {name: name for name in QUANTITIES}
    assert sorted(_modules("empirical/probes")) == sorted(_modules("theory/quantities"))


@pytest.mark.parametrize("package", FORBIDDEN)
def test_every_module_says_what_it_is_for(package: str) -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in (ROOT / package).rglob("*.py")
        if (tree := ast.parse(path.read_text(encoding="utf-8"))).body and not ast.get_docstring(tree)
    ]
    assert not silent
