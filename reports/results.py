"""Reading a results file: one JSON object a line, written while the claims run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reports.decoding import decode
from reports.records import SCHEMA, Claim, End, Results, Run, slug
from theory.errors import InvalidInput

CUT_OFF = "The last line of the results is cut off, as an interrupted run leaves it; it was ignored."
NO_END = "The run did not record its end: it was interrupted, or is still going on."


def read(path: Path) -> Results:
    """The results in the file at ``path``.

    Raises:
        InvalidInput: no such file, not a results file, or a broken line before the last; the message names the line.
    """
    lines = _lines(path)
    run: Run | None = None
    end: End | None = None
    claims: dict[str, Claim] = {}
    notes: list[str] = []
    for position, (number, line) in enumerate(lines):
        where = f"{path} line {number}"
        try:
            entry = _entry(line, where)
        except _NotJson as error:
            if position == 0 or position < len(lines) - 1:
                raise InvalidInput(str(error)) from None
            notes.append(CUT_OFF)
            break
        if (entry["kind"] == "run") != (position == 0):
            raise InvalidInput(f"{where}: a results file holds one run, described on its first line; give each run its own file")
        record = _record(entry, where)
        if isinstance(record, Run):
            run = record
        elif isinstance(record, End):
            end = record
        else:
            _add(claims, record, notes, where)
    assert run is not None
    if not run.planned and not claims:
        raise InvalidInput(f"{path} holds a run without any claim: select at least one")
    if end is None and CUT_OFF not in notes:
        notes.append(NO_END)
    return Results(run, _in_order(claims, run.planned), end, tuple(notes))


class _NotJson(InvalidInput):
    pass


def _lines(path: Path) -> list[tuple[int, bytes]]:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise InvalidInput(f"no such file: {path}; the claims write it (tox run -e verify)") from None
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}") from None
    lines = [(number, line) for number, line in enumerate(content.split(b"\n"), start=1) if line.strip()]
    if not lines:
        raise InvalidInput(f"{path} is empty: no run has written to it")
    return lines


def _entry(line: bytes, where: str) -> dict[str, Any]:
    try:
        entry = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "unreadable bytes or nesting"
        raise _NotJson(f"{where} is not JSON ({reason})") from None
    if not isinstance(entry, dict) or "schema" not in entry:
        raise InvalidInput(f"{where} is not an entry of a results file: an object with a schema is expected")
    if entry["schema"] != SCHEMA:
        raise InvalidInput(f"{where} has schema {entry['schema']!r:.60}: only schema {SCHEMA} is known here")
    if entry.get("kind") not in ("run", "claim", "end"):
        raise InvalidInput(f"{where} is of kind {entry.get('kind')!r:.60}: it must be run, claim or end")
    return entry


def _record(entry: dict[str, Any], where: str) -> Run | Claim | End:
    kind = {"run": Run, "claim": Claim, "end": End}[entry["kind"]]
    try:
        record: Run | Claim | End = decode(kind, entry)
    except ValueError as error:
        raise InvalidInput(f"{where}: {error}") from None
    return record


def _add(claims: dict[str, Claim], claim: Claim, notes: list[str], where: str) -> None:
    twin = next((name for name in claims if slug(name) == slug(claim.id)), None)
    if twin is not None and twin != claim.id:
        raise InvalidInput(f"{where}: claims {twin!r} and {claim.id!r} would share one link; rename one")
    if twin is not None:
        notes.append(f"Claim {claim.id} was measured more than once; the last measurement is shown.")
    claims[claim.id] = claim


def _in_order(claims: dict[str, Claim], planned: tuple[str, ...]) -> tuple[Claim, ...]:
    order = {name: position for position, name in enumerate(dict.fromkeys(planned))}
    return tuple(sorted(claims.values(), key=lambda claim: order.get(claim.id, len(order))))
