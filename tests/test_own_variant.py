"""A user's own variant through the verification: its claims, their refutation on a faulty network, its results and report."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import theory.variants
from empirical.measurement import Cell
from tests.claims.conftest import VARIANTS, chosen_claims, results_path
from tests.claims.declaration import PROFILES, Claim
from tests.claims.own_variant import claims_of
from tests.claims.recorder import header
from tests.claims.runner import Laboratory, run
from theory.algebra import LN, Expression, F, Stream, Variant
from theory.errors import InvalidInput
from theory.variants import adopt, load

ROOT = Path(__file__).resolve().parents[1]
HEAD = 'import sympy\nfrom theory.algebra import *\nx, r = Stream("x"), Stream("r")\n'
TINY = replace(PROFILES["quick"], name="tiny", depths=(2, 4, 8), budget=4096, sublayers=("gelu",), seed=5)
x = Stream("x")


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test adopts variants of its own."""
    monkeypatch.setattr(theory.variants, "_adopted", {})


def write(folder: Path, name: str, update: str, more: str = "") -> str:
    path = folder / f"{name}.py"
    path.write_text(f'{HEAD}VARIANT = Variant(name="{name}", update={update}, source="me"{more})\n', encoding="utf-8")
    return str(path)


def laboratory() -> Laboratory:
    return Laboratory(torch.device("cpu"), TINY.budget)


def test_a_file_is_put_through_everything(tmp_path: Path) -> None:
    path = write(tmp_path, "mine", "RMS(x + sympy.Rational(1, 2) * F(x))")
    variants, claims = chosen_claims([path], TINY)
    assert [variant.name for variant in variants] == ["mine"]
    endings = ["", "-attention", "-in-depth", "-across-layers", "-worst-case", "-comparison"]
    assert list(claims) == [f"variant-mine{ending}" for ending in endings]
    shared = laboratory()
    records = {name: run(claims[name](TINY), shared) for name in claims if not name.endswith("attention")}
    assert {name: record["passed"] for name, record in records.items()} == dict.fromkeys(records, True)
    assert all(record["command"] == f"tox run -e verify -- --variant {path} -k {name}" for name, record in records.items())
    drawn = {series["group"] for series in records["variant-mine-comparison"]["figures"][0]["series"]}
    assert drawn == {f"{name} gelu" for name in ("mine", "post-ln", "pre-ln", "deepnorm")}


def flat_checks(claim: Claim) -> dict[str, str]:
    return {check.name.rsplit(" ", 1)[1]: str(check.expected) for check in claim.checks if check.of == "statement"}


@pytest.mark.parametrize(
    ("variant", "claim", "expected"),
    [
        # Post-LN, χ = (1 + κ²)/(1 + s²): 1 for ReLU; for tanh (1 + 0.4644)/(1 + 0.3943), to the power 24 or 62.
        ("post-ln", "in-depth", {"relu": "supported", "tanh": "refuted"}),
        ("post-ln", "across-layers", {"relu": "supported", "tanh": "refuted"}),
        # Pre-LN: 1 + (L − l)/2 over q_L = 1 + L/2, so 1 at l = 0 and 13 times the last layer's at L = 24.
        ("pre-ln", "in-depth", {"relu": "supported", "tanh": "supported"}),
        ("pre-ln", "across-layers", {"relu": "refuted", "tanh": "refuted"}),
        # Without residual and with fan-in weights (1/2)^L.
        ("no-residual", "in-depth", {"relu": "refuted", "tanh": "refuted"}),
    ],
)
def test_flat_or_not_is_read_off_the_law(variant: str, claim: str, expected: dict[str, str]) -> None:
    profile = replace(PROFILES["quick"], sublayers=("relu", "tanh"))
    assert flat_checks(claims_of(variant)[f"variant-{variant}-{claim}"](profile)) == expected


def faulty(claim: Claim, wiring: Variant) -> Claim:
    """The claim, on networks with another wiring."""
    cells = {
        label: replace(cell, configuration=replace(cell.configuration, variant=wiring))
        for label, cell in claim.cells.items()
        if isinstance(cell, Cell)
    }
    return replace(claim, cells=cells)


@pytest.mark.parametrize("ending", ["", "-across-layers", "-comparison"])
def test_a_network_that_is_not_what_the_file_says_is_refuted(ending: str, tmp_path: Path) -> None:
    """The residual is taken after the norm, x = N(x); x = x + F(x), where the file says before."""
    claims = claims_of(adopt(write(tmp_path, "mine", "x + F(LN(x))")).name)
    wrong = Variant("wrong", LN(x) + F(LN(x)), "a fault seen in bug reports")
    record = run(faulty(claims[f"variant-mine{ending}"](TINY), wrong), laboratory())
    assert not record["passed"]
    assert "refuted" in {check["verdict"] for check in record["checks"] if check["expected"] == "supported"}


def test_no_closed_form_is_said_and_the_recursion_used(tmp_path: Path) -> None:
    """x + LN(x) has the moment (√q + 1)², which no closed form here solves."""
    name = adopt(write(tmp_path, "mixed", "x + LN(x) + F(LN(x))", ", read_out=LN(x)")).name
    claims = claims_of(name)
    claim = claims["variant-mixed"](replace(TINY, sublayers=("relu",)))
    assert "numeric recursion" in claim.law["text"]
    record = run(claim, laboratory())
    assert record["passed"]
    assert any(step["title"] == "No closed form" for step in record["derivation"])


def test_a_branch_that_fades_with_the_block_telescopes(tmp_path: Path) -> None:
    """Branch over √l: q_l = 1 + Σ 1/(2j), and G(0→L) = q_L by Euler."""
    claims = claims_of(adopt(write(tmp_path, "scaled", "x + 1 / sympy.sqrt(l) * F(LN(x))", ", read_out=LN(x)")).name)
    claim = claims["variant-scaled-across-layers"](replace(TINY, sublayers=("relu",)))
    assert "(ln l)^(-1)" in claim.law["text"]
    assert str(claim.checks[0].expected) == "refuted"  # q_24/q_0 = 1 + H_24/2 = 2.89


def test_several_streams_have_no_worst_case_and_the_report_says_so(tmp_path: Path) -> None:
    claims = claims_of(adopt(write(tmp_path, "two", '{"x": LN(x + F(x)), "r": r + F(x)}', ", read_out=x + LN(r)")).name)
    assert "variant-two-worst-case" not in claims
    assert any("No law" in step.reason for step in claims["variant-two"](TINY).steps)


def test_an_installed_variant_by_its_name() -> None:
    variants, claims = chosen_claims(["deepnorm"], TINY)
    assert variants == (load("deepnorm"),)
    assert len(claims["variant-deepnorm-comparison"](TINY).cells) == 3


def test_a_namesake_is_refused_and_the_same_variant_is_not(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="the name 'post-ln' belongs to x_{l} = LN"):
        adopt(write(tmp_path, "post-ln", "x + F(x)"))
    path = write(tmp_path, "mine", "x + F(x)")
    assert adopt(path) == adopt(path) == load("mine")
    (tmp_path / "more").mkdir()
    with pytest.raises(InvalidInput, match="the name 'mine' belongs to"):
        chosen_claims([path, write(tmp_path / "more", "mine", "LN(x + F(x))")], TINY)


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ("x + 0.5 * F(x)", r"mine.py \(line 4\): the coefficient 0.5.* is a float: write it exactly"),
        ("x * F(x)", r"\(line 4\): a scaling is number \* expression"),
        ("x + LM(F(x))", r"does not run: NameError: name 'LM' is not defined \(line 4\)"),
        ("x + sympy.Symbol('a') * F(x)", "a in a coefficient has no value; give it in constants"),
        ("LN(x)", "holds no sublayer F"),
    ],
)
def test_errors_name_the_line_and_the_way_out(update: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=message):
        chosen_claims([write(tmp_path, "mine", update)], TINY)


def config(*variants: Variant, results: str | None = None) -> SimpleNamespace:
    return SimpleNamespace(stash={VARIANTS: variants}, getoption=lambda name: results)


def test_results_lie_under_the_variants_name() -> None:
    one, other = load("deepnorm"), load("pre-ln")
    assert results_path(config()) == Path("reports/latest/results.jsonl")
    assert results_path(config(one)) == Path("reports/variants/deepnorm/results.jsonl")
    assert results_path(config(one, other)) == Path("reports/variants/deepnorm+pre-ln/results.jsonl")
    assert results_path(config(one, results="here.jsonl")) == Path("here.jsonl")


def test_an_edited_file_is_measured_anew() -> None:
    """A run goes on only from one of the same code, and the variant is code."""

    def code(update: Expression) -> str:
        return header("quick", 0, torch.device("cpu"), [], "", [Variant("mine", update, "me")])["code"]

    assert code(x + F(x)) == code(x + F(x)) != code(x + F(LN(x)))


def test_the_whole_way_in_a_process(tmp_path: Path) -> None:
    path, results = write(tmp_path, "mine", "x + F(LN(x))", ", read_out=LN(x)"), tmp_path / "out" / "results.jsonl"
    command = [sys.executable, "-m", "pytest", "tests/claims", "-q", "--report", "--variant", path, "--results", str(results)]
    done = subprocess.run([*command, "-k", "across"], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    run_line, claim, end = map(json.loads, results.read_text(encoding="utf-8").splitlines())
    assert (run_line["variants"], claim["id"], end["kind"]) == (["mine"], "variant-mine-across-layers", "end")
    report = (results.parent / "report.md").read_text(encoding="utf-8")
    assert report.startswith("# Verification report: mine\n") and f"--variant {path}" in report
    assert done.stdout.rstrip().endswith(f"Report: {results.parent / 'report.md'}")
