"""The shared runner: measure until every check is decided or the budget ends, and write down what was found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch

from empirical.ensemble import Ensemble
from empirical.measurement import Cell
from empirical.sanity import InvalidMeasurement, gate
from empirical.statistics import Estimate, estimate
from empirical.training import Arm, Crew, TrainingCell
from empirical.training.sanity import gate as training_gate
from empirical.verdicts import Verdict
from tests.claims.declaration import Check, Claim, Direct
from tests.claims.ends import predicted
from tests.claims.together import Together
from theory.laws.derivation import derivation
from theory.sublayers import sublayer
from theory.variants import load

FALSE_ALARM = 0.01
"""Chance that a check's verdict is wrong by sampling alone, over all looks at the data together (Bonferroni)."""
_GROWTH = 4
_ROUNDING = 1e-12


class Laboratory:
    """The ensembles of a session: claims that share a cell share its members, claims that share an arm its training.

    Args:
        device: where networks run.
        budget: most networks a cell.
        progress: told how many networks were added.
        training: told of every step of a training, with the loss.
        checkpoints: folder of the trainings' states; one that was killed goes on, one that had ended is read.
        crew: trains several arms at a time.
    """

    def __init__(
        self,
        device: torch.device,
        budget: int,
        progress: Callable[[int], None] = lambda _: None,
        training: Callable[[Arm, int, float], None] = lambda arm, step, loss: None,
        checkpoints: Path | None = None,
        crew: Crew | None = None,
    ) -> None:
        self.device, self.budget, self.progress = device, budget, progress
        self.training, self.checkpoints, self.crew = training, checkpoints, crew or Crew(1)
        self._lock = Lock()
        self._ensembles: dict[Cell, Ensemble] = {}
        self._trainings: dict[Arm, TrainingCell] = {}

    def ensemble(self, cell: Cell) -> Ensemble:
        """The ensemble of a cell."""
        if cell not in self._ensembles:
            self._ensembles[cell] = Ensemble(cell, self.device, self.progress)
        return self._ensembles[cell]

    def trained(self, arm: Arm) -> TrainingCell:
        """The training of an arm."""
        with self._lock:
            if arm not in self._trainings:
                told = partial(self.training, arm)
                self._trainings[arm] = TrainingCell(arm, self.device, told, self.checkpoints, self.crew.train)
            return self._trainings[arm]

    def trainings(self, cells: Mapping[str, Cell | Arm | Together | Direct], members: int) -> dict[str, Mapping[str, np.ndarray]]:
        """Readings of the first ``members`` networks of those cells that are trained, side by side."""
        trained = {label: cell for label, cell in cells.items() if isinstance(cell, Arm | Together)}
        with ThreadPoolExecutor(max(len(trained), 1)) as threads:
            try:
                found = list(threads.map(lambda cell: self.values(cell, members), trained.values()))
            except BaseException:  # an interrupt too: the threads wait for the crew
                self.crew.stop()
                raise
        return dict(zip(trained, found, strict=True))

    def values(self, cell: Cell | Arm | Together | Direct, members: int) -> Mapping[str, np.ndarray]:
        """Readings of the first ``members`` networks."""
        if isinstance(cell, Together):
            return cell.readings(lambda arm: self.trained(arm)(members))
        if isinstance(cell, Arm):
            return self.trained(cell)(members)
        if not isinstance(cell, Cell):
            return cell(members)
        readings = self.ensemble(cell).extend(members)
        return {name: v[:members] for name, v in readings.values.items()}

    def looks(self, claim: Claim) -> list[int]:
        """Ensemble sizes at which a check is judged."""
        if claim.looks:
            return list(claim.looks)
        budget = max(self.budget, claim.budget or 0)
        sizes = [min(claim.first_look, budget)]
        while sizes[-1] < budget:
            sizes.append(min(_GROWTH * sizes[-1], budget))
        return sizes


def run(claim: Claim, laboratory: Laboratory) -> dict[str, Any]:
    """The claim's record for results.jsonl; a measurement that fails its gate is recorded as an error."""
    started = time.monotonic()
    try:
        found = _measure(claim, laboratory)
    except InvalidMeasurement as fault:
        found = {
            "verdict": str(Verdict.INCONCLUSIVE),
            "passed": False,
            "checks": [],
            "figures": [],
            "table": None,
            "error": str(fault),
        }
        found["sanity"] = {"passed": False, "checks": [str(fault)]}
    if claim.summary is not None:
        found.setdefault("summary", claim.summary.record({}))
    found.setdefault("atlas", [entry.record({}) for entry in claim.atlas])
    return _statement(claim) | found | {"seconds": round(time.monotonic() - started, 2)}


def _measure(claim: Claim, laboratory: Laboratory) -> dict[str, Any]:
    records, verdicts, used = [], [], dict.fromkeys(claim.cells, laboratory.looks(claim)[0])
    laboratory.trainings(claim.cells, laboratory.looks(claim)[0])  # all at once, more than the first check asks for
    for check in claim.checks:
        members, found = _decide(claim, check, laboratory)
        used |= {label: max(used[label], members) for label in check.cells}
        verdicts.append(check.verdict(found))
        records.append(_record(claim, check, found, members, laboratory.looks(claim)[-1]))
    values = {label: laboratory.values(claim.cells[label], members) for label, members in used.items()}
    overall = claim.verdict(verdicts)
    figures = [draw(values) for draw in claim.figures]
    as_expected = all(v == check.expected for v, check in zip(verdicts, claim.checks, strict=True))
    return {
        "verdict": str(overall),
        "passed": as_expected and overall == claim.expected,
        "checks": records,
        "figures": figures,
        "table": _table(figures),
        "summary": None if claim.summary is None else claim.summary.record(values),
        "atlas": [entry.record(values) for entry in claim.atlas],
        "sanity": {"passed": True, "checks": list(_gates(claim, laboratory))},
        "reported": [_beside(entry, values) for entry in claim.reported],
        "data": {arm.task: laboratory.trained(arm).data for arm in claim.cells.values() if isinstance(arm, Arm)},
        "error": None,
    }


def _beside(entry: Mapping[str, Any], values: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, Any]:
    """A source's figure with ours, measured where it is not in words."""
    if isinstance(entry["ours"], str):
        return dict(entry)
    found = []
    for own in entry["ours"]:
        one = estimate(own.statistic, {label: values[label] for label in own.cells}, level=1 - FALSE_ALARM)
        parts = (np.exp(part) if own.logarithm else part for part in (one.value, one.low, one.high))
        found.append([float(part[0]) for part in parts])
    return {**entry, "ours": "", "measured": found}


def _decide(claim: Claim, check: Check, laboratory: Laboratory) -> tuple[int, Estimate]:
    looks = laboratory.looks(claim)
    for members in looks:
        cells = {label: claim.cells[label] for label in check.cells}
        samples = laboratory.trainings(cells, members)
        samples |= {label: laboratory.values(cell, members) for label, cell in cells.items() if label not in samples}
        for label in check.cells:
            _gate(claim, claim.cells[label], laboratory)
        found = estimate(check.statistic, samples, level=1 - FALSE_ALARM / len(looks))
        if check.verdict(found) is not Verdict.INCONCLUSIVE:
            break
    return members, found


def _gate(claim: Claim, cell: Cell | Arm | Together | Direct, laboratory: Laboratory) -> list[str]:
    if isinstance(cell, Together):
        asked = [training for training in map(laboratory.trained, cell.arms.values()) if training.groups]
        return list(dict.fromkeys(line for training in asked for line in training_gate(training)))
    if isinstance(cell, Arm):
        return training_gate(laboratory.trained(cell))
    return gate(cell, laboratory.ensemble(cell).readings, claim.zeros_allowed) if isinstance(cell, Cell) else []


def _gates(claim: Claim, laboratory: Laboratory) -> Iterator[str]:
    for label, cell in claim.cells.items():
        checks = _gate(claim, cell, laboratory)
        if checks:
            yield f"{label}: {'; '.join(checks)}"


class _Predicted(dict[str, np.ndarray]):
    """Theory's rows of one cell, computed when a statistic asks for them."""

    def __init__(self, cell: Cell) -> None:
        super().__init__()
        self.cell = cell

    def __missing__(self, name: str) -> np.ndarray:
        self[name] = predicted(self.cell, name)
        return self[name]


def predict(check: Check, cells: Mapping[str, Cell | Arm | Together | Direct]) -> np.ndarray | None:
    """The check's statistic of theory's rows, in the units that are shown; None where theory has no such rows."""
    own = [cells[label] for label in check.cells]
    if check.predicted is not None:
        return np.array([check.predicted])
    if not all(isinstance(cell, Cell) for cell in own):
        return None
    rows = {label: _Predicted(cell) for label, cell in zip(check.cells, own, strict=True) if isinstance(cell, Cell)}
    values = check.in_units(np.atleast_1d(check.statistic(rows)))
    return np.where(np.abs(values) < _ROUNDING, 0.0, values)


def _table(figures: list[dict[str, Any]]) -> dict[str, Any]:
    """Everything that the figures show, as numbers."""
    rows = []
    for shown in figures:
        laws = {(s["group"], x): y for s in shown["series"] if s["style"] == "law" for x, y in zip(s["x"], s["y"], strict=True)}
        for series in shown["series"]:
            if series["style"] in ("measured", "heldout"):
                points = zip(series["x"], series["y"], series["low"], series["high"], strict=True)
                rows += [[series["label"], x, laws.get((series["group"], x)), y, low, high] for x, y, low, high in points]
    return {"columns": ["series", "x", "predicted", "measured", "low", "high"], "rows": rows}


def _record(claim: Claim, check: Check, found: Estimate, members: int, budget: int) -> dict[str, Any]:
    decisive = check.decisive(found)
    measured, low, high = (float(check.in_units(part)[decisive]) for part in (found.value, found.low, found.high))
    predicted = predict(check, claim.cells)
    return {
        "name": check.name,
        "predicted": None if predicted is None else float(predicted[min(decisive, len(predicted) - 1)]),
        "measured": measured,
        "low": low,
        "high": high,
        "level": 1 - FALSE_ALARM,
        "components": len(found.value),
        "band": [end if np.isfinite(end) else None for end in (check.band.low, check.band.high)],
        "band_of": check.of,
        "reason": check.band.reason,
        "expected": str(check.expected),
        "verdict": str(check.verdict(found)),
        "seeds": members,
        "budget": budget,
        "unit": check.unit,
    }


def _statement(claim: Claim) -> dict[str, Any]:
    steps: list[dict[str, str]] = []
    if claim.derived:
        variant, names = claim.derived
        maps = tuple(sublayer(name) for name in names.split(",") if name)
        steps = [vars(step) for step in derivation(load(variant), maps)]
    steps += [vars(step) for step in claim.steps]
    return {
        "schema": 1,
        "kind": "claim",
        "id": claim.id,
        "group": claim.group,
        "title": claim.title,
        "statement": claim.statement,
        "source": claim.source,
        "reading": claim.reading,
        "assumptions": list(claim.assumptions),
        "law": claim.law,
        "derivation": steps,
        "expected": str(claim.expected),
        "command": " ".join(["tox run -e verify --", *filter(None, [claim.options]), f"-k {claim.id}"]),
        "reported": [entry if isinstance(entry["ours"], str) else {**entry, "ours": "not measured"} for entry in claim.reported],
        "erratum": claim.erratum,
    }
