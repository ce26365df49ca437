"""The command lines' contracts: JSON schema, one-line errors with exit code 2, interrupts."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import empirical.__main__
import empirical.ensemble
import theory.__main__
from theory.commands import leave_in_one_line
from theory.initialisations import INITIALISATIONS

ROOT = Path(__file__).resolve().parents[1]
MAINS = {"theory": theory.__main__.main, "empirical": empirical.__main__.main}
HEAD = 'from theory.algebra import *\nx = Stream("x")\n'
SMALL = ("--depth", "3", "--width", "16", "--tokens", "4")
NAMES = {"post-ln", "post-rmsnorm", "pre-ln", "pre-rmsnorm", "residual-only", "no-residual", "deepnorm", "residual"}


def _process(*arguments: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
    def default_interrupt() -> None:  # a shell's background jobs ignore it
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    command = [sys.executable, "-m", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=stdout, stderr=subprocess.PIPE, text=True, preexec_fn=default_interrupt)


def _json(*arguments: str) -> dict:
    process = _process(*arguments, "--json")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    return json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


class InProcess:
    """Runs a main as the module does, without a process of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, package: str, *arguments: str) -> tuple[int, str, str]:
        self.monkeypatch.setattr(sys, "argv", [package, *arguments])
        self.capsys.readouterr()
        code = leave_in_one_line(MAINS[package])
        return code, *self.capsys.readouterr()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> InProcess:
    return InProcess(monkeypatch, capsys)


def test_list_in_a_process() -> None:
    found = _json("theory", "list")
    assert found["schema"] == 1 and set(found) == {"schema", "variants"}
    assert all(set(row) == {"name", "equation", "source"} and all(row.values()) for row in found["variants"])
    names = [row["name"] for row in found["variants"]]
    assert set(names) >= NAMES and len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)


def test_predict_and_measure_in_processes_answer_alike() -> None:
    """Equal flags, comparable line by line: keys, layers 0..L, and the common part of the configuration."""
    flags = ("pre-ln", "--sublayers", "attention,gelu", *SMALL, "--heads", "2", "--causal")
    predicted, measured = _json("theory", "predict", *flags), _json("empirical", "measure", *flags, "--seeds", "8", "--seed", "3")
    assert [(answer["schema"], answer["variant"], set(answer)) for answer in (predicted, measured)] == [
        (1, "pre-ln", {"schema", "variant", "config", "rows"})
    ] * 2
    config = {"sublayers": "attention,gelu", "depth": 3, "width": 16, "tokens": 4, "heads": 2, "causal": True}
    config |= {"quantity": "stream-gradient"}
    assert predicted["config"].items() >= config.items() and measured["config"].items() >= predicted["config"].items()
    assert measured["config"].items() >= {"seeds": 8, "engine": "dense", "dtype": "float64", "seed": 3}.items()
    for answer in (predicted, measured):
        assert [row["layer"] for row in answer["rows"]] == [0, 1, 2, 3]
        assert all(set(row) == {"layer", "mean", "low", "high"} for row in answer["rows"])
    assert all(row["low"] < row["mean"] < row["high"] for row in measured["rows"])


QUANTITIES = [
    "stream-gradient",
    "output-matrix-gradient",
    "parameter-gradient",
    "stream-moment",
    "token-cosine",
    "gradient-cosine",
    "output-sensitivity",
    "sgd-update",
    "adam-update",
]


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_both_sides_answer_every_quantity(quantity: str, run: InProcess) -> None:
    flags = ("post-ln", *SMALL, "--quantity", quantity, "--json")
    predicted, measured = (
        run("theory", "predict", *flags),
        run("empirical", "measure", *flags, "--seeds", "4", "--dtype", "float32"),
    )
    assert predicted[0] == measured[0] == 0
    rows = [[(row["layer"], row.get("matrix")) for row in json.loads(answer[1])["rows"]] for answer in (predicted, measured)]
    matrices = [f"relu.{matrix}" for matrix in ("W1", "W2")] if quantity == "parameter-gradient" else [None]
    layers = range(quantity.endswith("matrix-gradient") or quantity == "parameter-gradient", 4)
    assert rows[0] == rows[1] == [(layer, matrix) for layer in layers for matrix in matrices]


@pytest.mark.parametrize("init", INITIALISATIONS)
def test_both_sides_answer_every_initialisation(init: str, run: InProcess) -> None:
    flags = ("pre-ln", "--sublayers", "attention,gelu", *SMALL, "--init", init, "--json")
    predicted, measured = run("theory", "predict", *flags), run("empirical", "measure", *flags, "--seeds", "4")
    for code, out, _ in (predicted, measured):
        assert code == 0 and json.loads(out)["config"]["init"] == init


@pytest.mark.parametrize("engine", ["dense", "matrix-free"])
def test_equal_seeds_print_equal_rows(engine: str, run: InProcess) -> None:
    flags = ("measure", "post-ln", *SMALL, "--seeds", "4", "--engine", engine, "--json", "--seed")
    first, again, other = run("empirical", *flags, "7"), run("empirical", *flags, "7"), run("empirical", *flags, "8")
    assert first == again and first[0] == 0
    assert json.loads(first[1])["rows"] != json.loads(other[1])["rows"]


def test_derive_prints_numbered_steps(run: InProcess) -> None:
    code, out, err = run("theory", "derive", "post-ln", "--sublayers", "gelu")
    assert (code, err) == (0, "")
    numbers = [int(match) for match in re.findall(r"^ ?(\d+)\. ", out, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) > 8
    assert "(1.02149)^L" in out
    steps = json.loads(run("theory", "derive", "post-ln", "--json")[1])["steps"]
    assert steps[0]["title"] == "Equation" and set(steps[0]) == {"title", "reason", "latex", "text"}


@pytest.mark.parametrize(("package", "command"), [("theory", "predict"), ("empirical", "measure")])
def test_tables_for_people(package: str, command: str, run: InProcess) -> None:
    code, out, err = run(package, command, "post-ln", *SMALL)
    assert (code, err) == (0, "") and "post-ln" in out and "layer" in out and "stream-gradient" in out


def test_a_users_file_is_predicted_and_measured(run: InProcess, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(HEAD + 'VARIANT = Variant(name="mine", update=LN(2 * x + F(x)), source="me")\n', encoding="utf-8")
    flags = (str(path), *SMALL, "--json")
    predicted, measured = run("theory", "predict", *flags), run("empirical", "measure", *flags)
    assert json.loads(predicted[1])["variant"] == json.loads(measured[1])["variant"] == "mine"


BOTH = {
    "unknown variant": (("post-nl",), "did you mean post-ln?"),
    "missing file": (("no_such_file.py",), "no file no_such_file.py"),
    "unknown sublayer": (("post-ln", "--sublayers", "relu,swish"), "unknown sublayer 'swish': known are linear"),
    "no sublayer": (("post-ln", "--sublayers", ","), "name at least one"),
    "unknown initialisation": (
        ("post-ln", "--init", "xavier"),
        "unknown initialisation 'xavier': known are fan-in, xavier-normal",
    ),
    "unknown quantity": (("post-ln", "--quantity", "loss"), "unknown quantity 'loss': known are"),
    "depth 0": (("post-ln", "--depth", "0"), "depth is 0: it must be at least 1"),
    "width 0": (("post-ln", "--width", "0"), "width is 0: it must be at least 1"),
    "tokens 0": (("post-ln", "--tokens", "0"), "tokens is 0: it must be at least 1"),
    "heads 0": (("post-ln", "--heads", "0"), "heads is 0: it must be at least 1"),
    "heads not dividing": (("post-ln", "--width", "16", "--heads", "3"), "3 heads do not divide the width 16: choose a divisor"),
    "negative gain": (("post-ln", "--gain", "-1"), "must be positive"),
    "infinite gain": (("post-ln", *SMALL, "--gain", "inf"), "gain"),
    "gain not a number": (("post-ln", *SMALL, "--gain", "nan"), "gain"),
    "one token's cosine": (("post-ln", "--tokens", "1", "--quantity", "token-cosine"), "give --tokens 2 or more"),
    "depth that is no number": (("post-ln", "--depth", "many"), "invalid int value: 'many' (see"),
    "unknown flag": (("post-ln", "--dept", "3", "--colour"), "--colour (see"),
    "no variant": ((), "required: variant (see"),
}
MEASURE = {
    "one seed": (("post-ln", "--seeds", "1"), "seeds is 1: an interval needs at least 2"),
    "unknown dtype": (("post-ln", "--dtype", "float16"), "unknown dtype 'float16': use one of float64, float32, bfloat16"),
    "unknown engine": (("post-ln", *SMALL, "--engine", "sparse"), "unknown engine 'sparse': use dense or matrix-free"),
    "unknown device": (("post-ln", "--device", "tpu"), "unknown device 'tpu': use auto, cpu or cuda"),
    "unknown input": (("post-ln", "--input", "images"), "unknown input 'images': known are isotropic, text"),
    "negative seed": (("post-ln", "--seed", "-1"), "seed is -1: it must be 0 or more"),
    "level above 1": (("post-ln", "--level", "95"), "it must lie between 0 and 1"),
    "too many tokens": (
        ("post-ln", "--width", "16", "--tokens", "16", "--engine", "matrix-free"),
        "use --engine dense, or fewer tokens",
    ),
    "uniform weights without their matrix": (
        ("post-ln", *SMALL, "--init", "torch-linear", "--engine", "matrix-free"),
        "exact for Gaussian weights only, and these are uniform: use --engine dense",
    ),
    "underflow": (
        ("no-residual", "--depth", "400", "--width", "8", "--tokens", "1", "--seeds", "2", "--dtype", "float32"),
        "in float32: it underflows; use a wider dtype or fewer blocks",
    ),
}


def _assert_one_error_line(answer: tuple[int, str, str], hint: str) -> None:
    code, out, err = answer
    assert (code, out) == (2, "")
    assert err.startswith("error: ") and err.endswith("\n") and err.count("\n") == 1, repr(err)
    assert hint in err and "Traceback" not in err


@pytest.mark.parametrize("fault", BOTH)
@pytest.mark.parametrize(("package", "command"), [("theory", "predict"), ("empirical", "measure")])
def test_bad_input_is_one_line_and_code_2(package: str, command: str, fault: str, run: InProcess) -> None:
    arguments, hint = BOTH[fault]
    _assert_one_error_line(run(package, command, *arguments), hint)


@pytest.mark.parametrize("fault", MEASURE)
def test_what_cannot_be_measured_is_one_line_and_code_2(fault: str, run: InProcess) -> None:
    arguments, hint = MEASURE[fault]
    _assert_one_error_line(run("empirical", "measure", *arguments), hint)


FILES = {
    "syntax error": ("VARIANT = (", "does not run: SyntaxError"),
    "no VARIANT": ("x = 3", "defines no VARIANT"),
    "exit": ("raise SystemExit(0)", "does not run"),
    "invalid variant": (
        HEAD + 'VARIANT = Variant(name="mine", update=LN(x), source="me")\n',
        "the update holds no sublayer F",
    ),
    "two branches": (
        HEAD + 'VARIANT = Variant(name="mine", update=x + F(x) + F(LN(x)), source="me")\n',
        "step",
    ),
}


@pytest.mark.parametrize("fault", FILES)
@pytest.mark.parametrize(("package", "command"), [("theory", "derive"), ("empirical", "measure")])
def test_a_broken_file_is_one_line_and_code_2(package: str, command: str, fault: str, run: InProcess, tmp_path: Path) -> None:
    text, hint = FILES[fault]
    path = tmp_path / "mine.py"
    path.write_text(text, encoding="utf-8")
    small = () if command == "derive" else SMALL
    _assert_one_error_line(run(package, command, str(path), *small), hint)


@pytest.mark.parametrize(("package", "command"), [("theory", "predict"), ("empirical", "measure")])
def test_a_read_out_without_the_stream_x(package: str, command: str, run: InProcess, tmp_path: Path) -> None:
    """The last x reaches no output, so its gradient is zero: a row that says so, or a refusal in one line."""
    path = tmp_path / "mine.py"
    update = '{"x": LN(x + F(x)), "r": r + F(x)}'
    text = f'r = Stream("r")\nVARIANT = Variant("mine", {update}, "me", read_out=LN(r))\n'
    path.write_text(HEAD + text, encoding="utf-8")
    answer = run(package, command, str(path), *SMALL, "--json")
    if answer[0] == 0:
        assert json.loads(answer[1])["rows"][3]["mean"] == 0.0
    else:
        _assert_one_error_line(answer, "")


def test_an_overflowing_prediction_is_refused(run: InProcess) -> None:
    """(3/2)^2000 is beyond float64, and neither NaN nor infinity is a row (or JSON)."""
    _assert_one_error_line(run("theory", "predict", "residual-only", "--depth", "2000", "--json"), "fewer blocks")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_no_cuda_device(run: InProcess) -> None:
    _assert_one_error_line(run("empirical", "measure", "post-ln", *SMALL, "--device", "cuda"), "use --device cpu")


def test_bad_input_in_a_process() -> None:
    process = _process("empirical", "measure", "post-ln", "--depth", "0")
    out, err = process.communicate(timeout=60)
    _assert_one_error_line((process.returncode, out, err), "depth is 0")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_disk_is_one_line() -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        process = _process("theory", "list", "--json", stdout=full.fileno())
        err = process.communicate(timeout=60)[1]
    _assert_one_error_line((process.returncode, "", err), "free some space or name another place")


def test_a_closed_pipe_is_no_error() -> None:
    """``… | head -1``: the reader goes away."""
    reader, writer = os.pipe()
    os.close(reader)
    process = _process("theory", "list", "--json", stdout=writer)
    os.close(writer)
    assert (process.communicate(timeout=60)[1], process.returncode) == ("", 0)


def test_an_interrupt_keeps_what_is_finished(run: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted in the third batch: the rows of the first two, and one line that says so."""
    measure: Callable = empirical.ensemble.measure
    batches: list[int] = []

    def interrupted(cell: object, members: range, device: object) -> object:
        batches.append(len(members))
        if len(batches) == 3:
            raise KeyboardInterrupt
        return measure(cell, members, device)

    monkeypatch.setattr(empirical.ensemble, "measure", interrupted)
    monkeypatch.setattr(empirical.measurement.Cell, "batch", property(lambda _: 2))
    code, out, err = run("empirical", "measure", "post-ln", *SMALL, "--seeds", "10", "--json")
    assert code == 2 and json.loads(out)["config"]["seeds"] == 4
    assert err.startswith("error: interrupted after 4 of 10 networks") and err.count("\n") == 1, repr(err)


def test_an_interrupt_in_a_process_is_one_line(tmp_path: Path) -> None:
    started, path = tmp_path / "started", tmp_path / "mine.py"
    text = f"from pathlib import Path\nfrom theory.variants.post_ln import VARIANT\nPath({str(started)!r}).touch()\n"
    path.write_text(text, encoding="utf-8")
    process = _process("empirical", "measure", str(path), "--depth", "64", "--seeds", "100000", "--width", "128")
    try:
        for _ in range(300):
            if started.exists():
                break
            time.sleep(0.1)
        assert started.exists()
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        err = process.communicate(timeout=60)[1]
    finally:
        process.kill()
    assert process.returncode == 2
    assert err.startswith("error: interrupted") and err.count("\n") == 1, repr(err)
