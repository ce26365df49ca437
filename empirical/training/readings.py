"""What is read of a network while it trains, (members, rows) each."""

from __future__ import annotations

import torch

from empirical.probes.base import by_layer, mean_square, wide
from empirical.training.models import Batch, Model
from empirical.training.parameters import Key, Store

Tensor = torch.Tensor


def held_out_loss(model: Model, store: Store, batch: Batch, size: int) -> Tensor:
    """Mean over the examples of a batch, ``size`` at a time, (members,)."""
    with torch.no_grad():
        count = batch[0].shape[1]
        total = torch.zeros(len(store.draws.members), dtype=torch.float64)
        for start in range(0, count, size):
            part = expanded(store, tuple(side[:, start : start + size] for side in batch))
            total += model(store, part).losses.double().cpu() * part[0].shape[1]
        return total / count


def expanded(store: Store, batch: Batch) -> Batch:
    """A batch that all members share, with one view of it a member."""
    members = len(store.draws.members)
    return tuple(side.to(store.draws.device).expand(members, *side.shape[1:]) for side in batch)


def gradients(model: Model, store: Store, batch: Batch) -> dict[str, Tensor]:
    """Squared gradients of the mean loss over a batch that all members share.

    ``stream-gradient`` is E|∂𝓛/∂x_l|²/(tokens·width) at layers 0..L of every stack, 𝓛 a sequence's own loss (as the quantity
    of that name at initialisation has it); ``parameter-gradient`` is ‖∂𝓛/∂W‖_F² of every matrix of every block in order of
    application, ``group-gradient`` |∂𝓛/∂θ|² of every group (`groups`), both of the loss of the whole batch.
    """
    outcome = model(store, expanded(store, batch))
    streams, leaves = outcome.streams, list(store.values.values())
    found = torch.autograd.grad(outcome.losses.sum(), [*streams, *leaves], allow_unused=True)
    at_streams = [
        mean_square(x.new_zeros(1, 1, 1).expand(len(x), 1, 1) if g is None else g.flatten(1, 2)) * x.shape[1] ** 2
        for g, x in zip(found, streams, strict=False)
    ]
    squares = {
        key: leaf.new_zeros(len(leaf), dtype=torch.float64) if g is None else wide(g).square().flatten(1).sum(dim=1)
        for (key, leaf), g in zip(store.values.items(), found[len(streams) :], strict=True)
    }
    grouped = groups(store)
    return {
        "stream-gradient": by_layer(at_streams),
        "parameter-gradient": by_layer([squares[key] for key in matrices(store)]),
        "group-gradient": by_layer([torch.stack([squares[key] for key in keys]).sum(dim=0) for keys in grouped.values()]),
    }


def labels(model: Model, store: Store) -> dict[str, tuple[str, ...]]:
    """Names of the rows of `gradients`: ``decoder 0``, ``decoder 1.1 WQ`` (block and sublayer from 1), ``decoder ffn``."""
    return {
        "stream-gradient": tuple(f"{name} {layer}" for name, stack in model.stacks.items() for layer in range(stack.depth + 1)),
        "parameter-gradient": tuple(f"{stack} {layer}.{index + 1} {name}" for stack, layer, index, name in matrices(store)),
        "group-gradient": tuple(groups(store)),
    }


def matrices(store: Store) -> list[Key]:
    """Keys of the weight matrices of the stacks."""
    return [key for key in store.values if _is_matrix(key)]


def groups(store: Store) -> dict[str, list[Key]]:
    """Keys by what they are: ``decoder attention``, ``decoder ffn``, ``decoder norms``, ``decoder constants``, ``tokens``, …"""
    found: dict[str, list[Key]] = {}
    for key in store.values:
        found.setdefault(_group(key), []).append(key)
    return found


def _is_matrix(key: Key) -> bool:
    stack, _, _, name = key
    return bool(stack) and name.startswith("W")


def _group(key: Key) -> str:
    stack, _, _, name = key
    of = name.removeprefix("bias of ")
    if not stack:
        return of
    if of.startswith("W"):
        return f"{stack} {'attention' if of in ('WQ', 'WK', 'WV', 'WO') else 'ffn'}"
    return f"{stack} norms" if name.startswith(("gain of ", "bias of ")) else f"{stack} constants"


class FirstUpdate:
    """Change of the last stack's output by the first optimiser step, on one batch that all members share.

    ``first-update`` is |δy|/|y| of the whole network; ``first-block-update`` is |δy|²/(tokens·width·rate²) by the parameters
    of the stacks alone, tables and end matrices held at their first values (the unit of the quantity ``adam-update``).
    """

    def __init__(self, model: Model, store: Store, batch: Batch) -> None:
        self.model, self.batch = model, batch
        self._before = {key: value.detach().clone() for key, value in store.values.items()}
        self._output = self._run(store)

    def read(self, store: Store, rate: float) -> dict[str, Tensor]:
        """After the step, (members, 1) each."""
        blocks = Store(store.draws, {k: v if k[0] else self._before[k] for k, v in store.values.items()})
        change, own = (self._run(s) - self._output for s in (store, blocks))
        relative = (mean_square(change) / mean_square(self._output)).sqrt()
        return {"first-update": relative[:, None], "first-block-update": (mean_square(own) / rate**2)[:, None]}

    @torch.no_grad()
    def _run(self, store: Store) -> Tensor:
        return self.model(store, expanded(store, self.batch)).output.flatten(1, 2)
