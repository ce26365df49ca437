"""The README's own example is run: a user's variant in one file, derived, predicted and measured."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from empirical.ensemble import Ensemble
from empirical.measurement import Cell, device_named
from empirical.statistics import mean_interval
from theory.configuration import Configuration
from theory.laws.law import derive
from theory.quantities import quantity
from theory.variants import load

README = Path(__file__).resolve().parents[1] / "README.md"


def example(folder: Path) -> Path:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    path = folder / "mine.py"
    path.write_text(code, encoding="utf-8")
    return path


def test_the_example_is_short(tmp_path: Path) -> None:
    assert len(example(tmp_path).read_text(encoding="utf-8").strip().splitlines()) <= 12


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


def test_the_commands_are_tox_environments() -> None:
    text = README.read_text(encoding="utf-8")
    configured = (README.parent / "tox.ini").read_text(encoding="utf-8")
    for environment in re.findall(r"-m tox run -e (\w+)", text):
        assert f"[testenv:{environment}]" in configured
    assert all((README.parent / path).exists() for path in re.findall(r"\]\((reports/[^)]+)\)", text))
