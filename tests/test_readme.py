"""The README's own example is run: a user's variant in one file, derived, predicted, measured and judged; and its commands."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import empirical.__main__
import theory.__main__
from empirical.ensemble import Ensemble
from empirical.measurement import Cell, device_named
from empirical.statistics import mean_interval
from tests.claims.conftest import chosen_claims
from tests.claims.declaration import PROFILES
from tests.claims.runner import Laboratory, run
from theory.commands import leave_in_one_line
from theory.configuration import Configuration
from theory.laws.law import derive
from theory.quantities import quantity
from theory.stack import profile
from theory.variants import load

README = Path(__file__).resolve().parents[1] / "README.md"


def example(folder: Path, which: int = 0) -> Path:
    code = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    path = folder / "mine.py"
    path.write_text(code[which], encoding="utf-8")
    return path


def test_the_examples_are_short(tmp_path: Path) -> None:
    lengths = [len(example(tmp_path, which).read_text(encoding="utf-8").strip().splitlines()) for which in range(2)]
    assert lengths[0] <= 12 and lengths[1] <= 30


def test_the_second_example_is_post_ln_below_and_residual_above(tmp_path: Path) -> None:
    """Token by token, where queries and keys have no part: all of Post-LN's q = 1, and r = e + the upper half's branches."""
    cell = Configuration(load(str(example(tmp_path, 1))), ("relu",), depth=8, width=128, tokens=1)
    assert [{name for name, _ in cell.variant.steps_at(cell.position(block, 0))} for block in (4, 5)] == [{"x", "r"}] * 2
    stack = profile(cell, 1, infinite_width=True)
    assert [float(layer["x", "x"][0, 0]) for layer in stack.forward] == pytest.approx([1.0] * 9)
    assert [float(layer["r", "r"][0, 0]) for layer in stack.forward] == pytest.approx([1, 1, 1, 1, 1, 1.5, 2, 2.5, 3])


def test_the_second_example_is_put_through_the_claims(tmp_path: Path) -> None:
    (variant,), claims = chosen_claims([str(example(tmp_path, 1))], replace(PROFILES["quick"], sublayers=("relu",)))
    assert {f"variant-{variant.name}{ending}" for ending in ("", "-attention", "-in-depth", "-comparison")} <= set(claims)
    record = run(
        claims[f"variant-{variant.name}"](replace(PROFILES["quick"], sublayers=("relu",))), Laboratory(device_named("cpu"), 1024)
    )
    assert record["passed"], record["checks"]


def test_the_examples_law_is_the_one_derived_by_hand(tmp_path: Path) -> None:
    law = derive(load(str(example(tmp_path))))
    (moments,) = law.moments
    by_hand = (1 + moments.gain / 4) / (1 + moments.square / 4)
    assert law.backward.equals(by_hand)
    assert law.growth_in_depth(law.homogeneous).flat


def test_the_example_measures_as_predicted(tmp_path: Path) -> None:
    cell = Configuration(load(str(example(tmp_path))), ("tanh",), depth=6, width=128, tokens=2)
    predicted, limit = (quantity("stream-gradient").predicted(cell, infinite_width=infinite) for infinite in (False, True))
    chi = (1 + 0.4644029024482683 / 4) / (1 + 0.39429449039784126 / 4)  # E tanh'², E tanh² by scipy.integrate.quad
    assert np.allclose(limit, chi ** np.arange(6, -1, -1), rtol=1e-9)
    readings = Ensemble(Cell(cell, engine="matrix-free"), device_named("cpu")).extend(800).values["stream-gradient"]
    found = mean_interval(readings, level=0.999)
    assert np.all((found.low < predicted * 1.01) & (predicted * 0.99 < found.high))


def test_the_example_is_put_through_the_claims(tmp_path: Path) -> None:
    (variant,), claims = chosen_claims([str(example(tmp_path))], replace(PROFILES["quick"], sublayers=("relu",)))
    record = run(claims[f"variant-{variant.name}"](PROFILES["quick"]), Laboratory(device_named("cpu"), 1024))
    assert record["passed"] and variant.name == "half-post-rmsnorm"


def test_the_theory_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(example(tmp_path).parent)
    (measuring,) = re.findall(r"python -m empirical (measure[^`#\n]* --boundary [^`#\n]*)", README.read_text(encoding="utf-8"))
    monkeypatch.setattr(sys, "argv", ["empirical", *measuring.split(), "--depth", "2", "--seeds", "2"])
    assert leave_in_one_line(empirical.__main__.main) == 0
    commands = re.findall(r"python -m theory (\w[^`#\n]*)", README.read_text(encoding="utf-8"))
    assert {command.split()[0] for command in commands} == {"list", "derive", "predict", "new", "prescribe"}
    for command in commands:
        monkeypatch.setattr(sys, "argv", ["theory", *command.split()])
        assert (leave_in_one_line(theory.__main__.main), capsys.readouterr().err) == (0, ""), command
    assert (tmp_path / "my-norm.py").exists()


def test_the_commands_are_tox_environments() -> None:
    text = README.read_text(encoding="utf-8")
    configured = (README.parent / "tox.ini").read_text(encoding="utf-8")
    for environment in re.findall(r"-m tox run -e (\w+)", text):
        assert f"[testenv:{environment}]" in configured
    assert all((README.parent / path).exists() for path in re.findall(r"\]\((reports/[^)]+)\)", text))
