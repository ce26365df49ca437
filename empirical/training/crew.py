"""Trainings side by side: one process each, one thread a process."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

import torch

from empirical.training.arm import Arm
from empirical.training.run import Progress, Trained, train
from theory.errors import InvalidInput

_REPORTS: list[Any] = []
"""In a process of the crew: the queue that it reports on."""


class Crew:
    """Trains as `train` does, for several threads at a time: on a processor each training has a process of its own.

    Such small networks leave most of a second core idle, so two trainings of one thread each take less time than one after the
    other with two. What is found does not depend on how many run. On any other device they run one by one in this process.

    Args:
        processes: most at a time; as many as there are cores unless told.
    """

    def __init__(self, processes: int | None = None) -> None:
        self.processes = _cores() if processes is None else processes
        self._lock, self._alone, self._numbers, self._stops = Lock(), Lock(), count(), 0
        self._errands: dict[int, _Errand] = {}
        self._pool: ProcessPoolExecutor | None = None
        self._reports: Any = None

    def train(
        self,
        arm: Arm,
        members: Sequence[int],
        device: torch.device,
        progress: Progress = lambda step, loss: None,
        checkpoint: Path | None = None,
    ) -> Trained:
        """Train the members of an arm; arguments and errors as `train`.

        Raises:
            InvalidInput: the process was killed, as a machine does that runs out of memory.
        """
        if device.type != "cpu" or self.processes < 2:
            with self._alone:
                return train(arm, members, device, self._until_stopped(progress), checkpoint)
        with self._lock:
            pool, number = self._ready(), next(self._numbers)
            errand = self._errands[number] = _Errand(progress)
        try:
            found = pool.submit(_train, number, arm, tuple(members), checkpoint).result()
            errand.told.wait()
            return found
        except BrokenProcessPool:
            raise InvalidInput(
                "a training's process was killed, perhaps for memory: run again, on fewer cores (taskset); what it had is kept"
            ) from None
        finally:
            del self._errands[number]

    def stop(self) -> None:
        """End all trainings at once; what their checkpoints hold is kept."""
        self._stops += 1
        if self._pool is None:
            return
        working = list((self._pool._processes or {}).values())  # no public way to end them before they have finished
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in working:
            process.terminate()
        for errand in list(self._errands.values()):
            errand.told.set()  # what a process had not yet reported when it was ended will not come
        self._reports.put(None)
        self._pool = None

    def _until_stopped(self, progress: Progress) -> Progress:
        stops = self._stops

        def tell(step: int, loss: float) -> None:
            if self._stops != stops:
                raise KeyboardInterrupt  # in a thread: the one that was interrupted waits for it
            progress(step, loss)

        return tell

    def _ready(self) -> ProcessPoolExecutor:
        if self._pool is None:
            context = multiprocessing.get_context("spawn")  # a fork would copy torch's threads in whatever state they are
            self._reports = context.Queue()
            self._reports.cancel_join_thread()  # a process that was killed while it wrote would keep this one from its end
            self._pool = ProcessPoolExecutor(self.processes, context, _begin, (self._reports,))
            Thread(target=_listen, args=(self._reports, self._errands), daemon=True).start()
        return self._pool


@dataclass(frozen=True)
class _Errand:
    progress: Progress
    told: Event = field(default_factory=Event)
    """All of its progress."""


def _cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _listen(reports: Any, errands: Mapping[int, _Errand]) -> None:
    for number, *report in iter(reports.get, None):
        if number not in errands:
            continue
        if report:
            errands[number].progress(*report)
        else:
            errands[number].told.set()


def _begin(reports: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the master ends the processes when it is interrupted
    torch.set_num_threads(1)
    _REPORTS.append(reports)
    Thread(target=_end_with_master, daemon=True).start()


def _end_with_master() -> None:
    """Nothing else would tell a process that its master was killed."""
    master = multiprocessing.parent_process()
    assert master is not None
    master.join()
    os._exit(1)


def _train(number: int, arm: Arm, members: tuple[int, ...], checkpoint: Path | None) -> Trained:
    (reports,) = _REPORTS
    found = train(arm, members, torch.device("cpu"), lambda step, loss: reports.put((number, step, loss)), checkpoint)
    reports.put((number,))
    return found
