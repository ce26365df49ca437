"""The claims' runner and recorder: verdicts come out either way, runs go on where they stopped."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

import tests.claims.sources  # noqa: F401 - registers the claims
from empirical.corpora import text
from empirical.estimands import log_reading, reading
from empirical.sanity import InvalidMeasurement
from empirical.training import Arm, Schedule
from empirical.verdicts import Band, Verdict
from tests.claims.declaration import BUILDERS, BY_CONDITION, PROFILES, REFUTED, SUPPORTED, Check, Claim, Ours
from tests.claims.recorder import Recorder
from tests.claims.runner import Laboratory, run
from tests.claims.sources.generic import PARTS
from tests.claims.sweeps import Sweep
from theory.configuration import Configuration
from theory.variants import load, registry

ROOT = Path(__file__).resolve().parents[1]
UNIT = Band(0.9, 1.1, "made up for this test")


def numbers(mean: float, spread: float = 0.1):
    return lambda members: {"value": np.random.default_rng(3).normal(mean, spread, (members, 1))}


def claim_on(*means: float, expected: Verdict = SUPPORTED, each: tuple[Verdict, ...] = (), spread: float = 0.1) -> Claim:
    cells = {f"cell {k}": numbers(mean, spread) for k, mean in enumerate(means)}
    wanted = each or (expected,) * len(means)
    checks = [
        Check(f"mean {k}", reading(label, "value", 0), (label,), UNIT, "statement", verdict, predicted=1.0)
        for k, (label, verdict) in enumerate(zip(cells, wanted, strict=True))
    ]
    return Claim("made-up", "forward", "t", "s", "o", "r", {"latex": "1", "text": "one"}, cells, tuple(checks), expected)


def laboratory(budget: int = 4096) -> Laboratory:
    return Laboratory(torch.device("cpu"), budget)


@pytest.mark.parametrize(
    ("means", "expected", "each"),
    [
        ((1.0,), SUPPORTED, ()),
        ((1.5,), REFUTED, ()),
        ((1.0, 1.5), BY_CONDITION, (SUPPORTED, REFUTED)),
    ],
)
def test_the_verdict_follows_the_data(means: tuple[float, ...], expected: Verdict, each: tuple[Verdict, ...]) -> None:
    record = run(claim_on(*means, expected=expected, each=each), laboratory())
    assert (record["verdict"], record["passed"]) == (str(expected), True)


def test_an_unexpected_verdict_does_not_pass() -> None:
    assert run(claim_on(1.5, expected=SUPPORTED), laboratory())["passed"] is False


def test_an_inconclusive_claim_never_passes_and_uses_the_whole_budget() -> None:
    record = run(claim_on(1.1, expected=SUPPORTED), laboratory(budget=1024))
    assert (record["verdict"], record["passed"], record["checks"][0]["seeds"]) == ("inconclusive", False, 1024)


def test_members_are_added_only_until_decided() -> None:
    assert run(claim_on(1.0, spread=0.01), laboratory())["checks"][0]["seeds"] == 256
    assert 256 < run(claim_on(1.09, spread=0.1), laboratory(budget=65536))["checks"][0]["seeds"] <= 65536


def test_a_measurement_that_fails_its_gate_is_an_error_not_a_verdict() -> None:
    sweep = Sweep("no-residual", "relu", (80,), 0, width=16, gain=1e-4, dtype="float32", engine="dense", tokens=1)
    check = Check("gradient", reading(sweep.deepest, "stream-gradient", 0), sweep.names, UNIT, "statement")
    claim = Claim("made-up", "forward", "t", "s", "o", "r", {"latex": "1", "text": "one"}, sweep.cells, (check,), SUPPORTED)
    record = run(claim, laboratory())
    assert record["passed"] is False
    assert "zero" in record["error"] or "finite" in record["error"]


@pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))
def test_every_claim_can_be_built_and_has_reasons(profile) -> None:
    # The larger profiles' generic claims are the quick one's at another depth and width: some stand for all.
    left_out = {f"variant-{name}{ending}" for name in registry() for ending in PARTS} if profile.name != "quick" else set()
    left_out -= {f"variant-{name}{ending}" for name in ("post-ln", "residual", "residual-only", "b2t") for ending in PARTS}
    for name, build in BUILDERS.items():
        if name in left_out:
            continue
        claim = build(profile)
        assert claim.id == name
        assert claim.checks and all(check.band.reason for check in claim.checks)
        assert {label for check in claim.checks for label in check.cells} <= set(claim.cells)


def test_cells_of_a_sweep_have_seeds_of_their_own() -> None:
    sweeps = [Sweep("pre-ln", name, (2, 4, 8), base) for name in ("relu", "gelu") for base in (0, 1)]
    seeds = [cell.seed for sweep in sweeps for cell in sweep.cells.values()]
    assert len(set(seeds)) == 12


HEADER = {"schema": 1, "kind": "run", "profile": "quick", "seed": 0, "device": "cpu", "code": "c", "corpus": "t", "versions": {}}


def header(*planned: str, **changes) -> dict:
    return HEADER | {"planned": list(planned)} | changes


def record_of(name: str) -> dict:
    return {"schema": 1, "kind": "claim", "id": name, "error": None, "seconds": 1.0}


def kinds(path: Path) -> list[str]:
    return [json.loads(line)["kind"] for line in path.read_text(encoding="utf-8").splitlines()]


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    first = Recorder(path, header("a", "b"))
    first.add(record_of("a"))  # and then it is killed
    second = Recorder(path, header("a", "b"))
    assert set(second.finished) == {"a"}
    second.add(record_of("b"))
    second.close(complete=True)
    assert kinds(path) == ["run", "claim", "claim", "end"]
    assert not Recorder(path, header("a", "b")).finished  # a finished run is measured anew


def test_another_seed_or_other_code_starts_afresh(tmp_path: Path) -> None:
    for changes in ({"seed": 1}, {"code": "other"}, {"profile": "full"}):
        path = tmp_path / "results.jsonl"
        Recorder(path, header("a", "b")).add(record_of("a"))
        assert not Recorder(path, header("a", "b", **changes)).finished


def test_old_results_stay_until_the_new_run_stops(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    old = Recorder(path, header("a"))
    old.add(record_of("a"))
    old.close(complete=True)
    before = path.read_text(encoding="utf-8")
    Recorder(path, header("b", seed=5)).add(record_of("b"))
    assert path.read_text(encoding="utf-8") == before


@pytest.mark.parametrize(
    ("option", "word"),
    [
        ("--profile=huge", "quick or full"),
        ("--seed=-1", "0 or more"),
        ("--device=tpu", "cuda"),
        ("--variant=mine.py", "no file mine.py"),
    ],
)
def test_a_bad_option_is_refused_in_one_line_before_anything_is_measured(option: str, word: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "tests/claims", "-q", option, "--results", str(tmp_path / "results.jsonl")]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert result.returncode == 2
    assert word in result.stdout + result.stderr
    assert not list(tmp_path.iterdir())


def test_claims_share_an_arms_training_which_goes_on_after_a_kill(tmp_path: Path) -> None:
    arm = Arm(
        Configuration(load("pre-ln"), ("gelu",), 1, 8, 4),
        Schedule(1e-2),
        "text",
        steps=4,
        batch=2,
        held_out=4,
        profiled=(),
        decided=(),
    )
    check = Check("loss", reading("a", "final-loss", 0), ("a",), Band(0, 9, "made up"), "statement", predicted=None)
    made = Claim(
        "made-up", "training", "t", "s", "o", "r", {"latex": "1", "text": "one"}, {"a": arm}, (check,), SUPPORTED, looks=(4,)
    )
    told: list[int] = []
    first = Laboratory(torch.device("cpu"), 4096, training=lambda arm, step, loss: told.append(step), checkpoints=tmp_path)
    record = run(made, first)
    assert (record["passed"], record["checks"][0]["seeds"], told) == (True, 4, [1, 2, 3, 4])
    assert any("topics, sha256" in line and "4 of 4 steps" in line for line in record["sanity"]["checks"])
    assert record["data"] == {"text": text("topics").digest}
    run(made, first)
    second = Laboratory(torch.device("cpu"), 4096, training=lambda arm, step, loss: told.append(step), checkpoints=tmp_path)
    assert run(made, second)["checks"][0]["measured"] == record["checks"][0]["measured"]
    assert told == [1, 2, 3, 4]


def test_our_figure_beside_a_sources_is_measured_or_said_not_to_be() -> None:
    """Against Student's interval by scipy; a logarithm's in the units that are shown; words stay words."""
    values = np.array([[1.0, 4.0], [2.0, 4.5], [4.0, 3.5]])
    measured = Ours(reading("a", "x", 0), ("a",)), Ours(log_reading("a", "x", 1), ("a",), logarithm=True)
    theirs = {"what": "w", "source": "s", "value": "1, 4", "note": ""}
    check = Check("x", reading("a", "x", 0), ("a",), Band(-99, 99, "made up"), "statement")
    made = Claim(
        "made-up",
        "training",
        "t",
        "s",
        "o",
        "r",
        {"latex": "1", "text": "one"},
        {"a": lambda members: {"x": values}},
        (check,),
        SUPPORTED,
        looks=(3,),
        reported=(theirs | {"ours": measured}, theirs | {"ours": "in words"}),
    )
    first, second = run(made, Laboratory(torch.device("cpu"), 3))["reported"]
    interval = stats.t.interval(0.99, 2, values[:, 0].mean(), stats.sem(values[:, 0]))
    np.testing.assert_allclose(first["measured"][0], [values[:, 0].mean(), *interval])
    value, low, high = first["measured"][1]
    assert (low < value < high, value) == (True, pytest.approx(4.0))
    assert first["ours"] == "" and second["ours"] == "in words"
    json.dumps(first)

    def fault(members: int) -> dict[str, np.ndarray]:
        raise InvalidMeasurement("all readings are zero")

    failed = run(replace(made, cells={"a": fault}), Laboratory(torch.device("cpu"), 3))
    assert [entry["ours"] for entry in failed["reported"]] == ["not measured", "in words"]
