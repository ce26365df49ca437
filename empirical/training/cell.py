"""A trained arm as a cell of a claim: readings of its first members, trained when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock

import numpy as np
import torch

from empirical.training.arm import Arm
from empirical.training.run import Progress, Trained, train

CPU = torch.device("cpu")


class TrainingCell:
    """Called with a number of members, gives (members, rows) of each quantity (see `Trained.values`); threads may share it.

    Args:
        arm: what is trained.
        device: where.
        progress: told of every step.
        folder: where checkpoints are kept; a run that was killed goes on, one that had ended is read.
        trainer: `train`, or what takes its place.
    """

    def __init__(
        self,
        arm: Arm,
        device: torch.device = CPU,
        progress: Progress = lambda step, loss: None,
        folder: Path | None = None,
        trainer: Callable[..., Trained] = train,
    ) -> None:
        self.arm, self.device, self.progress, self.folder, self.trainer = arm, device, progress, folder, trainer
        self._lock = Lock()
        self.groups: list[Trained] = []

    def __call__(self, members: int) -> Mapping[str, np.ndarray]:
        """Readings of the first ``members``; those that exist are kept, further ones are trained together."""
        with self._lock:
            have = sum(len(group.ended) for group in self.groups)
            if have < members:
                self.groups.append(self._train(range(have, members)))
        common = [name for name in self.groups[0].values if all(name in group.values for group in self.groups)]
        joined = {name: np.concatenate([group.values[name] for group in self.groups]) for name in common}
        return {name: value[:members] for name, value in joined.items()}

    @property
    def data(self) -> str:
        """Hash of what was learned, once something was trained."""
        return self.groups[0].data

    def _train(self, members: range) -> Trained:
        checkpoint = None
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            checkpoint = self.folder / f"{self.arm.digest[:16]}-{members.start}-{members.stop}.pt"
        return self.trainer(self.arm, members, self.device, self.progress, checkpoint)
