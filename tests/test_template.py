"""``python -m theory new``: the file runs as it is, and nothing that exists is overwritten."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.claims.declaration import PROFILES
from tests.claims.own_variant import claims_of
from tests.claims.runner import Laboratory, run
from theory.errors import InvalidInput
from theory.laws.law import derive
from theory.template import create
from theory.variants import adopt, load

ROOT = Path(__file__).resolve().parents[1]
TINY = replace(PROFILES["quick"], name="tiny", depths=(2, 4, 8), budget=1024, sublayers=("relu",), seed=3)


def test_the_file_is_short_valid_and_pre_lns_own_law(tmp_path: Path) -> None:
    path = create("my-norm", tmp_path)
    assert path == tmp_path / "my-norm.py"
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 30 and max(map(len, text.splitlines())) <= 130
    variant = load(str(path))
    assert variant.name == "my-norm"
    mine, known = derive(variant), derive(load("pre-ln"))
    assert (mine.gradient.subs(dict(variant.formulas)) - known.gradient).equals(0)


def test_it_passes_its_claims_as_it_is(tmp_path: Path) -> None:
    claims = claims_of(adopt(str(create("from-the-template", tmp_path))).name)
    laboratory = Laboratory(torch.device("cpu"), TINY.budget)
    for name in ("variant-from-the-template", "variant-from-the-template-attention"):
        record = run(claims[name](TINY), laboratory)
        assert (record["verdict"], record["passed"], record["error"]) == ("supported", True, None)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("precious", encoding="utf-8")
    with pytest.raises(InvalidInput, match="exists already"):
        create("mine", tmp_path)
    assert (tmp_path / "mine.py").read_text(encoding="utf-8") == "precious"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Mine", "use lower-case"),
        ("my_norm", "use lower-case"),
        ("../x", "use lower-case"),
        ("", "use"),
        ("post-ln", "installed already"),
    ],
)
def test_bad_names(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=message):
        create(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_or_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "none", tmp_path / "file"):
        with pytest.raises(InvalidInput, match="--directory"):
            create("mine", folder)


def test_the_command_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "theory", "new", "mine", "--directory", str(tmp_path)]
    first, second = (subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False) for _ in range(2))
    assert (first.returncode, first.stderr) == (0, "") and f"--variant {tmp_path / 'mine.py'}" in first.stdout
    assert (second.returncode, second.stdout) == (2, "")
    assert second.stderr.startswith("error: ") and second.stderr.count("\n") == 1
