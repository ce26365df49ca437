"""Reports: recorded verdicts in, report.md, figures, exit code and one-line errors out."""
# ruff: noqa: D103

from __future__ import annotations

import errno
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reports import markdown, numbers
from reports.__main__ import main
from reports.decoding import decode
from reports.figures import draw
from reports.records import Check, Claim, Figure, Reported, Results, Run, Series
from reports.results import read
from reports.summaries import pages
from theory.errors import InvalidInput

NAN = float("nan")
Line = dict[str, Any]
Output = pytest.CaptureFixture[str]


def check(**changes: Any) -> Line:
    """A check that passes."""
    line = {"name": "exponent in L at l=1, relu", "predicted": 0.0, "measured": 0.003, "low": -0.01, "high": 0.02}
    line |= {"level": 0.99, "band": [-0.05, 0.05], "band_of": "law", "reason": "sampling error", "expected": "supported"}
    return line | {"verdict": "supported", "seeds": 256, "budget": 1024, "unit": ""} | changes


def figure(**changes: Any) -> Line:
    """A figure with one series of every style."""
    shared = {"x": [2, 4, 8], "y": [1.0, 1.1, 0.9], "group": "relu"}
    series = [
        shared | {"label": f"relu {style}", "style": style} for style in ("law", "measured", "statement", "heldout", "reported")
    ]
    series[1] |= {"low": [0.9, 1.0, -0.8], "high": [1.1, 1.2, 1.0]}
    line = {"name": "depth", "title": "Gradient by depth", "xlabel": "depth L", "ylabel": "E|∂𝓛/∂x_l|²", "series": series}
    return line | {"xscale": "log", "yscale": "log"} | changes


def claim(name: str, **changes: Any) -> Line:
    """A claim that passes."""
    step = {
        "title": "Forward",
        "reason": "Independent terms add.",
        "latex": r"\left\{a < b\right\},\; q' = q + s^2",
        "text": "q' = q + s²",
    }
    line: Line = {"schema": 1, "kind": "claim", "id": name, "group": "gradients", "title": f"Title of {name}"}
    line |= {"statement": "A statement | of `x_l`", "source": "the review", "reading": "as a norm", "assumptions": ["isotropic"]}
    line |= {"law": {"latex": r"\chi^{L-l}", "text": "Flat."}, "verdict": "supported", "expected": "supported", "passed": True}
    line |= {"derivation": [step, {"title": name, "reason": "", "latex": "", "text": "a*b*c"}], "checks": [check()]}
    line |= {"figures": [figure()], "table": {"columns": ["L", "a|b"], "rows": [[2, 1.0], [4, None]]}, "erratum": None}
    line |= {"reported": [{"what": "drift", "source": "the article", "value": "1 → 6.05", "ours": "1 → 5.9", "note": ""}]}
    line |= {"sanity": {"passed": True, "checks": ["finite: 12800 readings"]}, "seconds": 12.3, "error": None}
    return line | {"command": f"tox run -e verify -- -k {name}"} | changes


def lines(*claims: Line, planned: tuple[str, ...] = (), end: bool = True) -> list[Line]:
    """A whole results file."""
    run: Line = {"schema": 1, "kind": "run", "profile": "quick", "seed": 0, "device": "cpu", "dtype": "float64"}
    run |= {"commit": None, "dirty": False, "started": "2026-11-29T17:00:00Z", "machine": "x86_64, 2 cores", "accelerator": None}
    run |= {"versions": {"torch": "2.13.0"}, "command": "tox run -e verify", "planned": [*(c["id"] for c in claims), *planned]}
    last = {"schema": 1, "kind": "end", "finished": "2026-11-29T17:02:03Z", "seconds": 123.4}
    return [run, *claims, *([last] if end else [])]


ERRATUM = {"printed": "(1/n) Σ x_i²", "right": "√((1/n) Σ x_i²)", "why": "the root | is lost"}
REFUTED = {"verdict": "refuted", "expected": "refuted", "erratum": ERRATUM}
STATEMENT = check(name="growth", band=[0.75, None], band_of="statement", verdict="refuted", expected="refuted")
COMPLETE = lines(
    claim("flat-in-depth"),
    claim("typical-growth", checks=[check(), STATEMENT], **REFUTED),
    claim("norm-pins", group="forward", figures=[]),
    claim("looped", group="training", figures=[]),
    claim("pre-ln: stream gradient", group="variants"),
)


def written(folder: Path, entries: list[Line], tail: str = "\n") -> Path:
    """A results file in ``folder``."""
    path = folder / "results.jsonl"
    path.write_text("\n".join(json.dumps(entry) for entry in entries) + tail, encoding="utf-8")
    return path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the command in this process and give its exit code."""

    def command(*arguments: object) -> int:
        monkeypatch.setattr(sys, "argv", ["reports", *map(str, arguments)])
        return main()

    return command


def made(path: Path) -> str:
    """The report beside ``path``."""
    return (path.parent / "report.md").read_text(encoding="utf-8")


def test_complete_run_passes_and_reports_each_claim(run: Any, tmp_path: Path, capsys: Output) -> None:
    path = written(tmp_path, COMPLETE)
    assert run(path) == 0
    report, shown = made(path), capsys.readouterr()
    for entry in COMPLETE[1:-1]:
        assert f"### {entry['title']}" in report or f"<b>{entry['title']}</b>" in report
        assert entry["command"] in report and entry["id"] in shown.out
    assert "5 of 5 claims came out as theory expects" in report and "5 of 5" in shown.out
    assert "[!WARNING]" not in report and shown.err == ""
    assert "0.003 [-0.010, 0.020]" in report and "0.003 [-0.010, 0.020]" in shown.out


def test_refuted_as_expected_reads_as_refutation_not_as_failure(run: Any, tmp_path: Path) -> None:
    path = written(tmp_path, COMPLETE)
    run(path)
    report = made(path)
    assert "**The statement is refuted, as theory expects.**" in report
    row = next(line for line in report.splitlines() if line.startswith("| [Title of typical-growth]"))
    assert "🟠 refuted | ✅ refuted" in row and "≥ 0.75" in row and "growth (1 of 2 checks)" in row
    assert "## Statements that are wrong as printed" in report and r"the root \| is lost" in report


@pytest.mark.parametrize(
    "changes",
    [
        {"passed": False, "verdict": "refuted", "checks": [check(verdict="refuted")]},
        {
            "verdict": "inconclusive",
            "expected": "inconclusive",
            "checks": [check(verdict="inconclusive", expected="inconclusive")],
        },
        {"error": "gradient is zero in 3 of 64 networks", "verdict": "inconclusive", "passed": False, "checks": []},
        {"checks": [check(), check(name="other", verdict="inconclusive")]},
        {"sanity": {"passed": False, "checks": []}},
        {"checks": []},
    ],
    ids=[
        "refuted",
        "inconclusive never passes",
        "gate failed",
        "one check fails though recorded as passed",
        "insane",
        "no checks",
    ],
)
def test_failed_claim_is_exit_1_and_said_at_the_top(run: Any, tmp_path: Path, capsys: Output, changes: Line) -> None:
    path = written(tmp_path, lines(claim("good"), claim("bad", **changes)))
    assert run(path) == 1
    top = made(path).split("## Claims")[0]
    assert "[!WARNING]" in top and "[Title of bad](#bad)" in top and "(#good)" not in top
    assert changes.get("error", "") in top
    assert "bad: " in capsys.readouterr().out


TAILS = {"whole": "\n", "cut": '\n{"schema": 1, "kind": "cla', "cut in a letter": '\n{"schema": 1, "title": "∂'}


@pytest.mark.parametrize("tail", TAILS.values(), ids=TAILS)
def test_interrupted_run_is_reported_with_what_is_missing(run: Any, tmp_path: Path, tail: str) -> None:
    path = written(tmp_path, lines(claim("first"), planned=("second", "third"), end=False), tail)
    if "∂" in tail:
        path.write_bytes(path.read_bytes()[:-1])
    assert run(path) == 1
    top = made(path).split("## Claims")[0]
    assert "`second`, `third`" in top and "1 of 3" in top
    assert ("cut off" in top) == (tail != "\n")


def test_cut_off_end_after_all_claims_still_passes(run: Any, tmp_path: Path) -> None:
    assert run(written(tmp_path, lines(claim("only"), end=False), '\n{"schema": 1, "ki')) == 0


def _without(key: str) -> Line:
    return {name: value for name, value in claim("x").items() if name != key}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "empty"),
        ("\n \n", "empty"),
        ("hello", "line 1 is not JSON"),
        ("[1]\n", "line 1"),
        ("\n".join([json.dumps(COMPLETE[0]), '{"schema": 1, "ki', json.dumps(COMPLETE[1])]), "line 2 is not JSON"),
        (json.dumps(COMPLETE[0] | {"schema": 2}), "line 1 has schema 2"),
        (json.dumps(COMPLETE[1]), "line 1"),
        (json.dumps(COMPLETE[0]) + "\n" + json.dumps(COMPLETE[0]), "line 2"),
        (json.dumps(COMPLETE[0]) + "\n\n" + json.dumps(claim("x", verdict="maybe")), "line 3: verdict is 'maybe'"),
        (json.dumps(COMPLETE[0]) + "\n" + json.dumps(claim("x", checks=[check(low="a")])), "line 2: checks[0].low is 'a'"),
        (json.dumps(COMPLETE[0]) + "\n" + json.dumps(claim("x", checks=[check(band=[1])])), "line 2: checks[0].band"),
        (json.dumps(COMPLETE[0]) + "\n" + json.dumps(_without("checks")), "line 2: checks is missing"),
        (json.dumps(COMPLETE[0]) + "\n" + json.dumps(claim("x", figures=[figure(), figure()])), "two figures of one name"),
        (json.dumps(COMPLETE[0]) + "\n" + json.dumps({"schema": 1, "kind": "verse"}), "line 2 is of kind 'verse'"),
        (json.dumps(COMPLETE[0]) + "\n" + json.dumps(claim("a b")) + "\n" + json.dumps(claim("a-b")), "would share one link"),
        (json.dumps(COMPLETE[0] | {"planned": []}), "without any claim"),
        (json.dumps(COMPLETE[0]) + "\n" + "[" * 100_000 + "\n" + json.dumps(COMPLETE[1]), "line 2"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(run: Any, tmp_path: Path, capsys: Output, content: str, expected: str) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text(content, encoding="utf-8")
    assert run(path) == 2
    shown = capsys.readouterr()
    assert expected in shown.err and len(shown.err.splitlines()) == 1 and shown.out == ""
    assert not (tmp_path / "report.md").exists()


def test_bytes_that_are_no_text_name_their_line(tmp_path: Path) -> None:
    path = written(tmp_path, COMPLETE)
    path.write_bytes(path.read_bytes().replace(b"Title of norm-pins", b"\xff\xfe"))
    with pytest.raises(InvalidInput, match="line 4 is not JSON"):
        read(path)


def test_missing_file_folder_and_bad_flags_are_one_line(run: Any, tmp_path: Path, capsys: Output) -> None:
    for arguments in ([tmp_path / "none.jsonl"], [tmp_path], [], [tmp_path, "--colour"]):
        assert run(*arguments) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_claim_measured_twice_shows_the_last(tmp_path: Path) -> None:
    results = read(written(tmp_path, lines(claim("a", title="old"), claim("b"), claim("a", title="new"))))
    assert [c.title for c in results.claims] == ["new", "Title of b"] and "more than once" in results.notes[0]


def test_full_disk_keeps_the_old_report(run: Any, tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, COMPLETE)
    (tmp_path / "report.md").write_text("old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    assert run(path) == 2
    error = capsys.readouterr().err
    assert "No space left" in error and len(error.splitlines()) == 1
    assert (tmp_path / "report.md").read_text() == "old"
    assert not [name for _, _, names in os.walk(tmp_path) for name in names if name.endswith(".part")]


def test_file_size_limit_keeps_the_old_report(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    path = written(tmp_path, COMPLETE)
    (tmp_path / "report.md").write_text("old")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    command = [sys.executable, "-m", "reports", str(path)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, env=environment, check=False)
    assert done.returncode == 2 and "cannot write" in done.stderr.splitlines()[-1]
    assert (tmp_path / "report.md").read_text() == "old"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["figures", "report.md", "results.jsonl"]


def test_output_folder_that_is_a_file(run: Any, tmp_path: Path, capsys: Output) -> None:
    path = written(tmp_path, COMPLETE)
    assert run(path, "--output", path) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert path.read_text().startswith('{"schema": 1')


def test_reader_that_leaves_early_changes_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, COMPLETE)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}
    command = [sys.executable, "-m", "reports", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0 and (tmp_path / "report.md").is_file()


def test_figures_are_valid_small_and_the_same_each_time(run: Any, tmp_path: Path) -> None:
    path = written(tmp_path, COMPLETE)
    images = []
    for name in ("a", "b"):
        assert run(path, "--output", tmp_path / name) == 0
        images.append({p.name: p.read_bytes() for p in (tmp_path / name / "figures").iterdir()})
    assert images[0] == images[1]
    assert set(images[0]) == {"flat-in-depth-depth.png", "typical-growth-depth.png", "pre-ln-stream-gradient-depth.png"}
    for image in images[0].values():
        assert image.startswith(b"\x89PNG\r\n\x1a\n") and image.endswith(b"IEND\xaeB`\x82") and len(image) < 80_000
        assert int.from_bytes(image[16:20], "big") == 1000


def test_links_lead_somewhere(run: Any, tmp_path: Path) -> None:
    path = written(tmp_path, COMPLETE)
    run(path)
    report = made(path)
    anchors, inside = re.findall(r'<a id="([^"]+)">', report), re.findall(r"\]\(#([^)]+)\)", report)
    assert len(anchors) == len(set(anchors)) == 5 and set(inside) == set(anchors)
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", report)
    assert len(pictures) == 3 and all((tmp_path / picture).is_file() for picture in pictures)


def test_formulas_stand_alone_and_tags_close(run: Any, tmp_path: Path) -> None:
    path = written(tmp_path, COMPLETE)
    run(path)
    rows = made(path).splitlines()
    fences = [k for k, row in enumerate(rows) if "$$" in row]
    assert len(fences) == 2 * (5 + 5) and all(rows[k] == "$$" for k in fences)
    for start, stop in zip(fences[::2], fences[1::2], strict=True):
        assert rows[start - 1] == "" and rows[stop + 1] == "" and stop == start + 2
        assert rows[start + 1].strip() == rows[start + 1] != "" and not re.search(r"\\[^A-Za-z]|<", rows[start + 1])
    for tag in ("details", "summary", "sub", "b"):
        text = "\n".join(rows)
        assert text.count(f"<{tag}>") == text.count(f"</{tag}>") > 0
    assert all(rows[k + 1] == "" for k, row in enumerate(rows) if "</summary>" in row)


def test_tables_have_the_same_cells_in_every_row(run: Any, tmp_path: Path) -> None:
    piped = [entry | {"checks": [check(name="a|b `c|d`", unit="1|2")]} for entry in COMPLETE[1:-1]]
    path = written(tmp_path, lines(*piped))
    run(path)
    blocks = [block.splitlines() for block in made(path).split("\n\n") if block.startswith("|")]
    assert len(blocks) > 10
    for rows in blocks:
        widths = {len(re.findall(r"(?<!\\)\|", row)) for row in rows}
        assert len(widths) == 1 and len(rows) >= 3


def test_nan_null_and_open_ends_do_not_crash(run: Any, tmp_path: Path) -> None:
    values = {"x": [1, 2, None], "y": [NAN, -1.0, 3.0], "low": [None, 0, NAN], "high": None}
    odd = figure(series=[{"label": "m", "style": "measured"} | values])
    nothing = check(measured=NAN, low=None, high=math.inf, predicted=None, band=[None, None], verdict="inconclusive")
    nothing |= {"seeds": None, "level": None}
    path = written(tmp_path, lines(claim("odd", checks=[nothing], figures=[odd], table=None, law={}, seconds=NAN)))
    assert run(path) == 1
    assert "| — | NaN | [—, ∞] | any <sub>law's</sub> |" in made(path)


def test_simultaneous_intervals_and_corpus_are_told(run: Any, tmp_path: Path) -> None:
    entries = lines(claim("a", checks=[check(components=65)]))
    entries[0]["corpus"] = "0123abcd"
    path = written(tmp_path, entries)
    run(path)
    assert "<sub>99 %, decisive of 65</sub>" in made(path) and "SHA-256 `0123abcd`" in made(path)


def test_derivation_is_printed_once_where_several_claims_share_it(run: Any, tmp_path: Path) -> None:
    same = [{"title": "Model", "reason": "A very particular reason.", "latex": "", "text": ""}]
    path = written(tmp_path, lines(claim("a", derivation=same), claim("b", derivation=same)))
    run(path)
    assert made(path).count("A very particular reason.") == 1 and "the same as for [Title of a](#a)" in made(path)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((0.003, -0.01, 0.02), ("0.003", "[-0.010, 0.020]")),
        ((1.2345e27, 1.19e27, 1.27e27), ("1.234e+27", "[1.190e+27, 1.270e+27]")),
        ((12345.0, 11667.0, 13023.0), ("12340", "[11670, 13020]")),
        ((1.0, 1.0, 1.0), ("1", "[1, 1]")),
        ((NAN, 0.0, 1.0), ("NaN", "[0, 1]")),
        ((1.96, None, None), ("1.96", "—")),
        ((0.0, -1e-9, 1e-9), ("0", "[-1.0e-09, 1.0e-09]")),
    ],
)
def test_numbers_have_the_digits_that_the_interval_allows(given: tuple[float, float, float], expected: tuple[str, str]) -> None:
    assert numbers.with_interval(*given) == expected


def test_bands_and_durations_in_words() -> None:
    ends = [(0.9, 1.1), (2.0, None), (None, 3.0), (None, None), (-math.inf, 3.0)]
    assert [numbers.band(band) for band in ends] == ["[0.9, 1.1]", "≥ 2", "≤ 3", "any", "≤ 3"]
    assert [numbers.duration(s) for s in (12.34, 245.0, 7380.0, None)] == ["12.3 s", "4 min 5 s", "2 h 3 min", "unknown time"]


def test_markdown_takes_text_literally_but_keeps_code_and_formulas() -> None:
    assert markdown.prose("a*b*c `x_*` <b> $x_l*2$ costs $5") == r"a\*b\*c `x_*` &lt;b&gt; $x_l*2$ costs \$5"
    assert markdown.cell("E|x|²") == r"E\|x\|²"
    assert markdown.formula(r"\{a\,b\} \\ c<d") == "$$\n\\lbrace a\\thinspace b\\rbrace \\cr c\\lt d\n$$"


def test_many_series_of_any_kind_make_one_small_picture() -> None:
    x = tuple(float(k) for k in range(65))
    curves = {f"v{k}": tuple(1.01 ** (k * v) for v in x) for k in range(12)}
    laws = [Series(f"{group} law", "law", x, y, None, None, group) for group, y in curves.items()]
    found = [Series(f"{group} measured", "measured", x, y, y, y, group) for group, y in curves.items()]
    image = draw(Figure("many", (*laws, *found), "title", "x", "$y", "linear", "log"))
    assert image.startswith(b"\x89PNG") and len(image) < 80_000


def test_decoding_names_the_field_and_refuses_truth_values_as_numbers() -> None:
    assert decode(Check, check(band=[None, 1])).band == (None, 1.0)
    for changes in ({"measured": True}, {"seeds": 1.5}, {"measured": 10**400}):
        with pytest.raises(ValueError, match=next(iter(changes))):
            decode(Check, check(**changes))


def test_reports_import_neither_torch_nor_the_measuring_side(tmp_path: Path) -> None:
    path = written(tmp_path, COMPLETE)
    code = "import sys; from reports.__main__ import main; print(main(), {'torch', 'empirical', 'tests'} & set(sys.modules))"
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.splitlines()[-1] == "0 set()"


def reading(name: str, key: str = "post-ln-growth", **changes: Any) -> Line:
    """A claim that reads a statement in its own way."""
    curve = [
        {"label": f"{name}: {style}", "style": style, "x": [1, 2, 4], "y": [1.0, 2.0, 4.1], "group": name}
        for style in ("law", "measured")
    ]
    return claim(name, summary={"key": key, "reading": f"read as {name} | so", "law": "∝ m", "series": curve}, **changes)


def test_claims_that_read_one_statement_share_a_page_near_the_front(run: Any, tmp_path: Path) -> None:
    readings = [reading("typical", **REFUTED, checks=[check(), STATEMENT]), reading("bound"), reading("worst-case")]
    path = written(tmp_path, lines(claim("other"), *readings, reading("alone", key="another statement")))
    assert run(path) == 0
    report = made(path)
    page = report[
        report.index("## Gradients that grow like L − l + 1: one statement, three readings") : report.index("## Claims")
    ]
    rows = [line for line in page.splitlines() if line.startswith("| read as")]
    assert [("🟠 refuted" in row, "🔵 supported" in row) for row in rows[:3]] == [(True, False), (False, True), (False, True)]
    assert all(f"(#{name})" in row for name, row in zip(("typical", "bound", "worst-case"), rows, strict=False))
    assert r"read as typical \| so" in rows[0] and "∝ m" in rows[0] and "](#other)" not in page
    assert "## another statement: one statement, one reading" in page
    for key in ("post-ln-growth", "another-statement"):
        assert f"figures/summary-{key}.png" in page and (tmp_path / "figures" / f"summary-{key}.png").stat().st_size > 1000
    assert '<a id="summary-post-ln-growth"></a>' in report


def test_the_common_ruler_reaches_as_far_as_the_longest_curve() -> None:
    entries = lines(reading("typical"), reading("bound"))
    entries[2]["summary"]["series"][0]["x"] = [1, 8, 64]
    claims = tuple(decode(Claim, entry) for entry in entries[1:-1])
    (page,) = pages(Results(decode(Run, entries[0]), claims))
    assert page.figure is not None
    ruler = page.figure.series[-1]
    assert (ruler.x, ruler.y, ruler.style) == ((1.0, 64.0), (1.0, 64.0), "statement") and len(page.figure.series) == 5
    assert (page.figure.xscale, page.figure.yscale) == ("log", "log")


def test_readings_without_a_curve_have_a_table_and_no_figure(run: Any, tmp_path: Path) -> None:
    """A claim whose measurement failed its gate has a line but no curve."""
    bare = claim("typical", summary={"key": "post-ln-growth", "reading": "typical", "law": "", "series": []})
    path = written(tmp_path, lines(bare | {"error": "zero gradient", "passed": False, "verdict": "inconclusive", "checks": []}))
    assert run(path) == 1
    report = made(path)
    assert "one statement, one reading" in report and "⚪ not judged" in report and "summary-post-ln-growth.png" not in report


def test_results_without_summaries_have_no_such_page(run: Any, tmp_path: Path) -> None:
    """Results from before there were any, the published ones among them."""
    path = written(tmp_path, COMPLETE)
    run(path)
    assert "one statement" not in made(path) and not list((tmp_path / "figures").glob("summary-*"))
    published = Path(__file__).resolve().parents[1] / "reports" / "published" / "quick" / "results.jsonl"
    assert all(c.summary is None or c.summary.key for c in read(published).claims)


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"key": None}, "summary.key"), ({"series": [{"label": "a"}]}, "summary.series[0]"), ({"reading": 3}, "summary.reading")],
)
def test_broken_summaries_are_named_in_one_line(run: Any, tmp_path: Path, capsys: Output, changes: Line, words: str) -> None:
    entry = reading("typical")
    entry["summary"] |= changes
    assert run(written(tmp_path, lines(entry))) == 2
    shown = capsys.readouterr().err
    assert words in shown and shown.count("\n") == 1


def test_our_figures_beside_a_sources_have_their_intervals() -> None:
    """One or several, in words or measured."""
    row = decode(
        Reported, {"what": "loss", "source": "s", "value": "1", "ours": "", "measured": [[2.5, 2.4, 2.6], [3.0, None, None]]}
    )
    assert numbers.ours(row) == "2.50 [2.40, 2.60], 3"
    assert numbers.ours(Reported("loss", "s", "1", "in words")) == "in words"
    assert numbers.ours(Reported("loss", "s", "1", "in words", measured=((1.0, 0.9, 1.1),))) == "1.00 [0.90, 1.10], in words"
