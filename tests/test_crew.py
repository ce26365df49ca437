"""Trainings in processes of their own find what trainings in this one find, and a lost process loses nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from empirical.training import Arm, Crew, Schedule, TrainingCell, train
from tests.claims.declaration import PROFILES
from tests.claims.regression import regression_arm
from theory.errors import InvalidInput

ROOT = Path(__file__).parent.parent
CPU = torch.device("cpu")
ARM = regression_arm(PROFILES["quick"], "post-ln", 1, 1e-3, steps=6, evaluations=3, held_out=64)
OTHER = regression_arm(PROFILES["quick"], "pre-ln", 2, 1e-3, steps=6, evaluations=3, held_out=64)


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    crew = Crew(2)
    yield crew
    crew.stop()


@pytest.fixture
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread")
def test_side_by_side_is_bit_by_bit_as_here(crew: Crew) -> None:
    told: dict[Arm, list[int]] = {ARM: [], OTHER: []}

    def job(arm: Arm) -> dict[str, np.ndarray]:
        return dict(crew.train(arm, range(2), CPU, lambda step, loss: told[arm].append(step)).values)

    with ThreadPoolExecutor(2) as threads:
        together = list(threads.map(job, (ARM, OTHER)))
    for arm, found in zip((ARM, OTHER), together, strict=True):
        here = train(arm, range(2), CPU).values
        assert found.keys() == here.keys()
        for name in here:
            np.testing.assert_array_equal(found[name], here[name])
        assert told[arm] == [1, 2, 3, 4, 5, 6]


def test_an_early_end_is_told_as_the_last_step(crew: Crew) -> None:
    told: list[int] = []
    diverging = replace(ARM, schedule=Schedule(1e30), steps=60, evaluations=60)
    for trainer in (train, crew.train):
        told.clear()
        found = trainer(diverging, range(2), CPU, lambda step, loss: told.append(step))
        assert set(found.ended) == {"not-finite"}
        assert found.taken < 60 == told[-1]
        assert told[:-1] == list(range(1, found.taken))


def test_bad_input_is_told_as_here(crew: Crew) -> None:
    with pytest.raises(InvalidInput, match="unknown task 'weather'"):
        crew.train(replace(ARM, task="weather"), range(2), CPU)


def test_one_at_a_time_stays_in_this_process() -> None:
    alone = Crew(1)
    assert alone.train(ARM, range(2), CPU).taken == 6
    assert alone._pool is None


def test_a_training_in_this_process_ends_when_it_is_stopped() -> None:
    """One thread waits for it, as a claim that is interrupted does."""
    alone, seen = Crew(1), list[int]()

    def stop(step: int, loss: float) -> None:
        seen.append(step)
        if step == 3:
            alone.stop()

    with ThreadPoolExecutor(1) as threads, pytest.raises(KeyboardInterrupt):
        threads.submit(alone.train, replace(ARM, steps=10**6, evaluations=1), range(2), CPU, stop).result()
    assert seen == [1, 2, 3]
    assert alone.train(ARM, range(2), CPU).taken == 6


def test_a_killed_process_is_told_and_its_checkpoint_taken_up(tmp_path: Path) -> None:
    """Killed after some evaluations of a longer run; the next crew goes on behind them and finds what one run finds."""
    arm = replace(ARM, steps=400, evaluations=40)
    first, seen = Crew(2), list[int]()

    def kill(step: int, loss: float) -> None:
        if step == 100:
            for process in (first._pool._processes or {}).values():
                process.kill()

    with pytest.raises(InvalidInput, match="a training's process was killed"):
        TrainingCell(arm, CPU, kill, tmp_path, first.train)(2)
    first.stop()
    assert len(list(tmp_path.glob("*.pt"))) == 1
    second = Crew(2)
    found = TrainingCell(arm, CPU, lambda step, loss: seen.append(step), tmp_path, second.train)(2)
    straight = second.train(arm, range(2), CPU).values
    second.stop()
    assert seen[0] > 90 and seen[-1] == 400
    np.testing.assert_array_equal(found["held-out-loss"], straight["held-out-loss"])


ENDLESS = """
import torch
from dataclasses import replace
from tests.test_crew import ARM, CPU, Crew

if __name__ == "__main__":
    crew = Crew(2)
    def tell(step, loss):
        print(*(process.pid for process in crew._pool._processes.values()), flush=True)
    crew.train(replace(ARM, steps=10**6, evaluations=1), range(2), CPU, tell)
"""


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks processes up in /proc")
def test_processes_end_when_their_master_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS)
    master = subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert master.stdout is not None
    working = [int(word) for word in master.stdout.readline().split()]
    assert working and all(Path(f"/proc/{process}").exists() for process in working)
    master.kill()
    master.wait()
    until = time.monotonic() + 20
    while any(Path(f"/proc/{process}").exists() for process in working) and time.monotonic() < until:
        time.sleep(0.1)
    assert not any(Path(f"/proc/{process}").exists() for process in working)
