"""Members of a cell, measured batch by batch and extended on demand."""

from __future__ import annotations

from collections.abc import Callable

import torch

from empirical.measurement import Cell, Readings, measure

Progress = Callable[[int], None]
"""Called with the number of members that were added."""


class Ensemble:
    """The readings of a cell's members 0, 1, 2, …

    Args:
        cell: what is measured.
        device: where.
        progress: told after every batch.
    """

    def __init__(self, cell: Cell, device: torch.device, progress: Progress = lambda _: None) -> None:
        self.cell, self.device, self.progress = cell, device, progress
        self._readings: Readings | None = None

    @property
    def readings(self) -> Readings:
        """All readings so far.

        Raises:
            LookupError: none yet.
        """
        if self._readings is None:
            raise LookupError("nothing measured yet: extend the ensemble first")
        return self._readings

    @property
    def members(self) -> int:
        """How many members have been measured."""
        return 0 if self._readings is None else self._readings.members

    def extend(self, members: int) -> Readings:
        """Measure until there are ``members``; those that exist are kept, an interrupt loses at most one batch."""
        while self.members < members:
            upto = min(members, self.members + self.cell.batch)
            added = measure(self.cell, range(self.members, upto), self.device)
            self._readings = added if self._readings is None else self._readings.joined(added)
            self.progress(added.members)
        return self.readings
