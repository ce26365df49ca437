"""results.jsonl: one line for the run, one for each claim as it finishes, one for the end.

A run writes beside the old results and takes their place when it stops. A run that was interrupted is gone on with by
the next one of the same settings: the claims it had finished are kept.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from empirical import corpora
from theory.algebra import Variant

SCHEMA = 1
_PACKAGES = ("torch", "numpy", "scipy", "sympy", "hypothesis", "pytest", "matplotlib")
_ROOT = Path(__file__).resolve().parents[2]


class Recorder:
    """Writes one run.

    Args:
        path: results.jsonl.
        header: the run's line; see `header`.
    """

    def __init__(self, path: Path, header: dict[str, Any]) -> None:
        self.path, self.header = path, header
        self.partial = path.with_suffix(".partial")
        path.parent.mkdir(parents=True, exist_ok=True)
        self.finished = _finished_before((self.partial, path), header)
        self._write(self.partial, [header, *self.finished.values()])

    def add(self, record: dict[str, Any]) -> None:
        """Append a claim's record, on disk before the next claim starts."""
        self.finished[record["id"]] = record
        with self.partial.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def close(self, complete: bool) -> None:
        """Put the run in the place of the old results; ``complete`` says that every planned claim was reached."""
        lines = [self.header, *self.finished.values()]
        if complete:
            seconds = sum(record["seconds"] for record in self.finished.values())
            lines.append({"schema": SCHEMA, "kind": "end", "finished": _now(), "seconds": round(seconds, 1)})
        self._write(self.partial, lines)
        os.replace(self.partial, self.path)

    @staticmethod
    def _write(path: Path, lines: list[dict[str, Any]]) -> None:
        temporary = path.with_name(path.name + ".new")
        temporary.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        os.replace(temporary, path)


def header(
    profile: str, seed: int, device: torch.device, planned: list[str], command: str, variants: Sequence[Variant] = ()
) -> dict[str, Any]:
    """The run's provenance; ``variants`` are the user's own that it is about."""
    return {
        "schema": SCHEMA,
        "kind": "run",
        "profile": profile,
        "seed": seed,
        "device": str(device),
        "dtype": "float64 unless a claim says otherwise",
        "commit": _git("rev-parse", "--short", "HEAD"),
        "dirty": bool(_git("status", "--porcelain")),
        "code": code_digest(variants),
        "variants": [variant.name for variant in variants],
        "corpus": corpora.text("topics").digest,
        "started": _now(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "accelerator": torch.cuda.get_device_name() if device.type == "cuda" else None,
        "versions": {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in _PACKAGES}},
        "command": command,
        "planned": planned,
    }


def _finished_before(candidates: tuple[Path, ...], header: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Claims that an interrupted run of the same code and settings had finished."""
    for path in candidates:
        lines = _lines(path)
        if not lines or lines[-1].get("kind") == "end":
            continue
        same = all(
            lines[0].get(key) == header[key] for key in ("schema", "profile", "seed", "device", "code", "corpus", "versions")
        )
        if same:
            wanted = set(header["planned"])
            return {r["id"]: r for r in lines[1:] if r.get("kind") == "claim" and r["id"] in wanted and r["error"] is None}
    return {}


def _lines(path: Path) -> list[dict[str, Any]]:
    found = []
    if path.is_file():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                break  # cut off while it was written
    return found


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _git(*arguments: str) -> str | None:
    try:
        result = subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=_ROOT, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return result.stdout.strip()


def code_digest(variants: Sequence[Variant]) -> str:
    """Hash of everything that a result depends on."""
    digest = hashlib.sha256(repr(variants).encode())
    for room in ("theory", "empirical", "tests/claims"):
        for path in sorted((_ROOT / room).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()
