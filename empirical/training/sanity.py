"""Is a training valid at all?"""

from __future__ import annotations

import numpy as np

from empirical.sanity import InvalidMeasurement
from empirical.training.cell import TrainingCell
from empirical.training.tasks import KINDS


def gate(cell: TrainingCell) -> list[str]:
    """What was checked of the trained members, one line each, with the data's hash and how long they trained.

    A loss that is infinite or no number later than the start is an outcome, not a fault.

    Raises:
        InvalidMeasurement: the loss before the first step is not finite, or two members' losses agree.
    """
    losses = np.concatenate([group.values["held-out-loss"] for group in cell.groups])
    if not np.isfinite(losses[:, 0]).all():
        raise InvalidMeasurement(f"{cell.arm.configuration.variant.name}: the held-out loss is not finite before the first step")
    if len(np.unique(losses, axis=0)) < len(losses):
        raise InvalidMeasurement(f"{cell.arm.configuration.variant.name}: two networks have the same losses")
    return [f"the losses of all {len(losses)} networks differ", _length(cell), _data(cell)]


def _length(cell: TrainingCell) -> str:
    ended = sorted({rule for group in cell.groups for rule in group.ended if rule})
    taken = min(group.taken for group in cell.groups)
    early = f", ended early ({', '.join(ended)})" if ended and taken < cell.arm.steps else ""
    return f"{taken} of {cell.arm.steps} steps{early}"


def _data(cell: TrainingCell) -> str:
    from empirical.corpora.hashes import standing

    kind, _, data = cell.arm.task.partition(":")
    name, digest = data or KINDS[kind][0], cell.data
    return f"data {name}, sha256 {digest[:12]}…, {standing('regression' if kind == 'regression' else name, digest)}"
