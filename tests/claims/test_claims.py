"""Every claim, measured and judged: the verdict has to be the one that theory expects."""

from __future__ import annotations

from collections.abc import Mapping

from rich.progress import Progress

from tests.claims.declaration import Builder, Profile
from tests.claims.recorder import Recorder
from tests.claims.runner import Laboratory, run


def test_claim(
    claim_id: str,
    builders: Mapping[str, Builder],
    profile: Profile,
    laboratory: Laboratory,
    recorder: Recorder,
    progress: Progress,
) -> None:
    """The claim's verdict, and each check's, is as expected; an inconclusive one never passes."""
    claims = progress.task_ids[0]
    progress.update(claims, description=claim_id)
    if claim_id not in recorder.finished:
        recorder.add(run(builders[claim_id](profile), laboratory))
    progress.advance(claims)
    record = recorder.finished[claim_id]
    assert record["error"] is None, record["error"]
    unexpected = [
        f"{c['name']}: {c['verdict']}, expected {c['expected']} ({c['measured']:.4g} [{c['low']:.4g}, {c['high']:.4g}] in {c['band']})"
        for c in record["checks"]
        if c["verdict"] != c["expected"]
    ]
    assert not unexpected, "; ".join(unexpected)
    assert record["verdict"] == record["expected"]
