"""The training loop: all members of an arm at once, each with its own parameters and its own batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch

from empirical.draws import PURPOSES, Draws
from empirical.measurement import DTYPES
from empirical.training.arm import Arm
from empirical.training.decided import RULES
from empirical.training.parameters import Store
from empirical.training.readings import FirstUpdate, gradients, held_out_loss, labels
from empirical.training.tasks import task
from theory.errors import InvalidInput
from theory.registry import find

Tensor = torch.Tensor
Progress = Callable[[int, float], None]
"""Called after every step with its number (the last one's where a run ends early) and the mean training loss of the members (of
the last time it was looked at)."""
_LOOK = 10  # steps between two looks at the training loss


@dataclass(frozen=True)
class Trained:
    """What was found.

    Attributes:
        values: (members, rows) by quantity; ``held-out-loss`` has one row an evaluation, an arm that ended early keeps its
            last loss for the evaluations it skipped; ``final-loss`` is the last of them, ``unlearned-loss`` is `unlearned`.
        steps: the evaluations' steps.
        labels: of the rows of ``stream-gradient``, ``parameter-gradient`` and ``group-gradient``.
        unlearned: loss of a model that has learned nothing on the same held-out examples, where it is known.
        taken: steps that were taken.
        ended: the rule that decided each member early; empty where none did.
        data: hash of what was learned.
    """

    values: Mapping[str, np.ndarray]
    steps: tuple[int, ...]
    labels: Mapping[str, tuple[str, ...]]
    unlearned: float | None
    taken: int
    ended: tuple[str, ...]
    data: str


def train(
    arm: Arm,
    members: Sequence[int],
    device: torch.device,
    progress: Progress = lambda step, loss: None,
    checkpoint: Path | None = None,
) -> Trained:
    """Train the members of an arm.

    Args:
        arm: what is trained.
        members: their indices.
        device: where.
        progress: told of every step.
        checkpoint: a file that is written at every evaluation and read at the start, if it is there: a run that was killed
            goes on from its last evaluation and finds bit by bit what it would have found.

    Raises:
        InvalidInput: unknown task or rule, data that are missing, a checkpoint of another run.
    """
    run = _Run(arm, tuple(members), device)
    if checkpoint is not None and checkpoint.exists():
        run.restore(checkpoint)
    while not run.finished:
        run.advance()
        if run.step in arm.evaluated and checkpoint is not None:
            run.save(checkpoint)
        if run.step:
            progress(arm.steps if run.finished else run.step, run.loss)
    return run.found()


class _Run:
    """State of a run between two steps."""

    def __init__(self, arm: Arm, members: tuple[int, ...], device: torch.device) -> None:
        self.arm, self.members, self.device = arm, members, device
        self.task = task(arm.task)
        self.model = self.task.model(arm.configuration)
        self.rules = {name: find("rule of an early end", name, RULES) for name in arm.decided}
        dtype = torch.float64 if DTYPES[arm.dtype] == torch.float64 else torch.float32
        self.store = Store(Draws(arm.seed, members, device, dtype))
        self.generators = [_generator(arm.seed, member) for member in members]
        self.held_out = self.task.held_out(arm.configuration, arm.held_out)
        self.unlearned = self.task.unlearned(self.held_out)
        self.shared = tuple(side[:, : arm.batch] for side in self.held_out)
        self.step, self.loss = 0, float("nan")
        self.losses: list[np.ndarray] = []
        self.readings: dict[str, np.ndarray] = {}
        self.ended = [""] * len(members)
        self.optimiser: torch.optim.Adam | None = None

    @property
    def finished(self) -> bool:
        return self.step >= self.arm.steps and bool(self.losses) or all(self.ended)

    def advance(self) -> None:
        """Make the parameters and look at them; from then on, one step and what is due after it."""
        if self.optimiser is None:
            self._begin()
            return
        self.step += 1
        first = FirstUpdate(self.model, self.store, self.shared) if self.step == 1 else None
        rate = self.arm.schedule.rate(self.step, self.arm.steps)
        self._optimise(rate)
        if first is not None:
            with self._precision():
                self._keep(first.read(self.store, rate), "")
        self._look()

    def _begin(self) -> None:
        """Parameters come into being with a forward pass on a batch that is then thrown away (Admin profiles it)."""
        with torch.no_grad(), self._precision():
            self.model(self.store, self._batch())
        self._adopt()
        self._look()

    def _adopt(self) -> None:
        self.optimiser = torch.optim.Adam(
            list(self.store.values.values()), betas=self.arm.betas, eps=self.arm.epsilon, fused=True
        )

    def _optimise(self, rate: float) -> None:
        assert self.optimiser is not None
        with self._precision():
            losses = self.model(self.store, self._batch()).losses
        leaves = list(self.store.values.values())
        for leaf, gradient in zip(leaves, torch.autograd.grad(losses.sum(), leaves, allow_unused=True), strict=True):
            leaf.grad = gradient
        if self.arm.clip:
            _clip(leaves, self.arm.clip)
        self.optimiser.param_groups[0]["lr"] = rate
        self.optimiser.step()
        if self.step % _LOOK == 1:
            self.loss = float(losses.detach().mean())

    def _look(self) -> None:
        """Held-out loss, rules and gradients, where they are due after this step."""
        if self.step in self.arm.evaluated:
            with self._precision():
                losses = held_out_loss(self.model, self.store, self.held_out, 4 * self.arm.batch)
            self.losses.append(losses.numpy())
            steps, history = self.arm.evaluated[: len(self.losses)], np.stack(self.losses)
            for name, rule in self.rules.items():
                decided = rule(self.arm, steps, history, self.unlearned)
                self.ended = [before or (name if now else "") for before, now in zip(self.ended, decided, strict=True)]
        if self.step in self.arm.read:
            with self._precision():
                self._keep(gradients(self.model, self.store, self.shared), f"@{self.step}")

    def _keep(self, found: Mapping[str, Tensor], mark: str) -> None:
        self.readings |= {name + mark: value.double().cpu().numpy() for name, value in found.items()}

    def _batch(self) -> tuple[Tensor, ...]:
        drawn = self.task.batch(self.arm.configuration, self.generators, self.arm.batch)
        return tuple(side.to(self.device) for side in drawn)

    def _precision(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.device.type, torch.bfloat16) if self.arm.dtype == "bfloat16" else nullcontext()

    def found(self) -> Trained:
        """The run's results so far."""
        skipped = len(self.arm.evaluated) - len(self.losses)
        losses = np.stack([*self.losses, *[self.losses[-1]] * skipped], axis=1)
        with self._precision():
            scores = self.task.scores(self.model, self.store, self.arm.held_out)
        values = {"held-out-loss": losses, "final-loss": losses[:, -1:], **self.readings, **scores}
        if self.unlearned is not None:
            values["unlearned-loss"] = np.full((len(losses), 1), self.unlearned)
        names = labels(self.model, self.store)
        return Trained(values, self.arm.evaluated, names, self.unlearned, self.step, tuple(self.ended), self.task.digest)

    def save(self, path: Path) -> None:
        """Write everything that the next step depends on, in one move."""
        assert self.optimiser is not None
        state = {
            "run": self._signature,
            "step": self.step,
            "values": {key: value.detach() for key, value in self.store.values.items()},
            "optimiser": self.optimiser.state_dict(),
            "generators": [generator.get_state() for generator in self.generators],
            "losses": [torch.from_numpy(losses) for losses in self.losses],
            "readings": {name: torch.from_numpy(value) for name, value in self.readings.items()},
            "ended": self.ended,
        }
        written = BytesIO()
        torch.save(state, written)
        partial = path.with_name(path.name + ".part")
        partial.write_bytes(written.getvalue())
        os.replace(partial, path)

    def restore(self, path: Path) -> None:
        """Take up a checkpoint.

        Raises:
            InvalidInput: it is none, or of another run.
        """
        try:
            state = torch.load(path, map_location=self.device, weights_only=True)
            signature = state["run"]
        except Exception:
            raise InvalidInput(f"{path} is no checkpoint of a training: name another file, or remove it") from None
        if signature != self._signature:
            raise InvalidInput(f"{path} is the checkpoint of another arm, other seeds or other data: name another file")
        self.step, self.ended = state["step"], list(state["ended"])
        self.store.values = {key: value.requires_grad_() for key, value in state["values"].items()}
        self._adopt()
        assert self.optimiser is not None
        self.optimiser.load_state_dict(state["optimiser"])
        for generator, saved in zip(self.generators, state["generators"], strict=True):
            generator.set_state(saved.cpu())
        self.losses = [losses.cpu().numpy() for losses in state["losses"]]
        self.readings = {name: value.cpu().numpy() for name, value in state["readings"].items()}

    @property
    def _signature(self) -> str:
        return f"{self.arm.digest} {self.members} {self.task.digest}"


def _generator(seed: int, member: int) -> torch.Generator:
    """Of a member's batches, apart from those of its weights."""
    (state,) = np.random.SeedSequence([seed, member, len(PURPOSES)]).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state >> np.uint64(1)))


def _clip(leaves: list[Tensor], largest: float) -> None:
    """Scale each member's gradient to a norm of at most ``largest``."""
    given = [leaf.grad for leaf in leaves if leaf.grad is not None]
    norms = torch.stack([g.square().flatten(1).sum(dim=1) for g in given]).sum(dim=0).sqrt()
    factors = (largest / norms).clamp(max=1.0)
    for g in given:
        g.mul_(factors.view(-1, *[1] * (g.dim() - 1)))
