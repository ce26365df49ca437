"""Training from variant expressions: the networks, the loop, its record, its command line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import log
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

import empirical.training.tasks as tasks
from empirical import corpora
from empirical.draws import Draws
from empirical.probes.base import wide
from empirical.training import Arm, Schedule, TrainingCell, train
from empirical.training.decided import RULES
from empirical.training.models import LanguageModel, Regressor, Translator
from empirical.training.parameters import Learned, Store
from empirical.training.readings import gradients, groups
from empirical.training.run import _clip, _Run
from empirical.training.tasks import TextTask
from tests.plain import PLAIN, plain_stack
from theory.algebra import F, Stream, Sublayer, Variant, walk
from theory.configuration import Configuration
from theory.errors import InvalidInput
from theory.variants import load, registry

Tensor = torch.Tensor
CPU = torch.device("cpu")
MEMBERS, BATCH, TOKENS, WIDTH, DEPTH = 2, 3, 5, 8, 2
LETTERS = 32


@dataclass(frozen=True)
class StandIn:
    """A text with the interface of `empirical.corpora.Text`, in few different tokens."""

    train: Tensor
    held_out: Tensor
    digest: str = "stand-in"
    vocabulary: int = LETTERS

    def unigram_loss(self, windows: Tensor) -> float:
        return log(LETTERS)

    def bigram_loss(self, windows: Tensor) -> float:
        return log(LETTERS) / 2

    def windows(self, generator: torch.Generator, batch: int, length: int) -> Tensor:
        starts = torch.randint(len(self.train) - length, (batch,), generator=generator)
        return self.train[starts[:, None] + torch.arange(length + 1)]

    def held_out_windows(self, length: int, limit: int) -> Tensor:
        return self.held_out[: limit * length + 1].unfold(0, length + 1, length)


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    data = corpora.whole("topics")[:30_000] % LETTERS
    found = StandIn(data[:25_000], data[25_000:])
    monkeypatch.setitem(tasks.KINDS, "stand-in", ("", lambda name: TextTask(found)))
    return found


def _blocks(name: str = "pre-ln", sublayers: Sequence[str] = ("attention", "gelu"), **more: object) -> Configuration:
    axes = {"depth": DEPTH, "width": WIDTH, "tokens": TOKENS, "heads": 2, "expansion": 2} | more
    return Configuration(load(name), tuple(sublayers), **axes)  # type: ignore[arg-type]


def _arm(name: str = "pre-ln", **more: object) -> Arm:
    given = {"task": "stand-in", "steps": 20, "batch": 4, "evaluations": 4, "held_out": 8, "profiled": (0, 10)}
    given |= {"decided": ("not-finite",)} | more
    return Arm(given.pop("configuration", _blocks(name)), given.pop("schedule", Schedule(3e-3, 5)), **given)  # type: ignore


def _store(seed: int = 0, members: Sequence[int] = range(MEMBERS), dtype: torch.dtype = torch.float64) -> Store:
    return Store(Draws(seed, members, CPU, dtype))


def _ids(*shape: int, high: int = LETTERS, seed: int = 1) -> Tensor:
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(seed))


class AsPlain:
    """What `tests.plain` asks of weights, out of a store: one sequence of a batch has the weights of its member."""

    def __init__(self, store: Store, stack: str, tied: bool = False) -> None:
        self.store, self.stack, self.tied = store, stack, tied

    def plain(self, key: tuple[int, int, str], x: Tensor, part: slice = slice(None)) -> Tensor:
        layer, index, name = key
        at = (self.stack, 1 if self.tied else layer, index)
        product = x @ self.store.values[(*at, name)][..., part]
        shift = self.store.values.get((*at, f"bias of {name}"))
        return product if shift is None else product + shift[..., part]


@pytest.mark.parametrize("init", ["fan-in", "torch-linear"])
@pytest.mark.parametrize("name", PLAIN)
def test_a_stack_before_training_is_the_plain_network(name: str, init: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gains are 1 and biases 0, constants have the variant's values; the same matrices in plain torch give the same losses."""
    monkeypatch.setattr("empirical.training.parameters.EPS", 0.0)
    cell, windows = _blocks(name, init=init), _ids(MEMBERS, 1, TOKENS + 1)  # one sequence: Admin profiles the whole batch
    store = _store()
    found = LanguageModel(cell, LETTERS)(store, (windows,))
    tables = {key[3]: value for key, value in store.values.items() if not key[0]}
    inputs = torch.stack([tables["tokens"][m][windows[m, 0, :-1]] + tables["positions"][m] for m in range(MEMBERS)])
    weights = AsPlain(store, "decoder", cell.variant.tied)
    _, output = plain_stack(name, cell.sublayers, DEPTH, inputs, weights, causal=True)
    torch.testing.assert_close(found.output[:, 0], output, rtol=1e-9, atol=1e-10)
    for m in range(MEMBERS):
        expected = functional.cross_entropy(output[m] @ tables["unembedding"][m], windows[m, 0, 1:])
        torch.testing.assert_close(found.losses[m], expected, rtol=1e-9, atol=1e-10)


def _has_gradient(name: str, key: tuple[str, int, int, str]) -> bool:
    """Not behind ReZero's closed gate, and not of a bias that moves all keys alike: it adds one number to all scores of a query.

    A key's norm stands between its matrix's bias and the scores, and has such a bias of its own.
    """
    normed = any(place == "key" for place, _ in _inner(name))
    if key[3] == ("bias of key" if normed else "bias of WK"):
        return False
    return name != "rezero" or not key[0] or key[3] == "alpha"


def _inner(name: str) -> Iterator[tuple[str, str]]:
    """(place, kind) of the norms inside attention."""
    position = _blocks(name).position(1, 0)
    for node in walk(*(node for _, node in load(name).steps_at(position))):
        if isinstance(node, Sublayer):
            yield from node.inner


@pytest.mark.parametrize("sublayers", [("attention", "gelu"), ("attention", "relu")])
@pytest.mark.parametrize("name", registry())
def test_every_variant_learns_from_its_first_step(name: str, sublayers: tuple[str, ...], stand_in: StandIn) -> None:
    """Every parameter has a gradient, but where the law says 0."""
    arm = _arm(name, configuration=_blocks(name, sublayers), dtype="float64", batch=16, schedule=Schedule(1e-4), steps=1)
    run = _Run(arm, (0, 1), CPU)
    run.advance()
    batch = run.shared
    before = run.model(run.store, tuple(side.expand(2, -1, -1) for side in batch)).losses.sum()
    leaves = run.store.values
    for key, gradient in zip(leaves, torch.autograd.grad(before, list(leaves.values())), strict=True):
        rows = gradient.flatten(1).abs().amax(dim=1)
        assert bool((rows > 1e-15).all()) == _has_gradient(name, key), key
    kept = {key: value.detach().clone() for key, value in leaves.items()}
    run.advance()
    assert run.step == 1
    for key, value in leaves.items():
        assert bool((value - kept[key]).abs().amax() > 1e-9) == _has_gradient(name, key), key


@pytest.mark.parametrize("name", [name for name, variant in registry().items() if variant.tied])
def test_a_tied_variant_has_one_blocks_parameters(name: str) -> None:
    numbers = []
    for depth in (1, 3):
        store = _store()
        LanguageModel(_blocks(name, depth=depth), LETTERS)(store, (_ids(MEMBERS, BATCH, TOKENS + 1),))
        numbers.append({key: value.shape for key, value in store.values.items() if key[1] <= depth})
    assert numbers[0] == numbers[1]


def test_rms_norm_has_a_gain_and_layer_norm_a_bias_too() -> None:
    shapes = {}
    for name in ("pre-ln", "pre-rmsnorm", "qk-norm", "dynamic-tanh"):
        store = _store()
        LanguageModel(_blocks(name), LETTERS)(store, (_ids(MEMBERS, BATCH, TOKENS + 1),))
        shapes[name] = {
            key[2:]: tuple(v.shape[1:]) for key, v in store.values.items() if key[:2] == ("decoder", 1) and "W" not in key[3]
        }
    assert shapes["pre-ln"] == {(i, f"{p} of LN(x)"): (WIDTH,) for i in (0, 1) for p in ("gain", "bias")}
    assert shapes["pre-rmsnorm"] == {(i, "gain of RMS(x)"): (WIDTH,) for i in (0, 1)}
    assert shapes["qk-norm"][0, "gain of query"] == shapes["qk-norm"][0, "bias of key"] == (WIDTH // 2,)
    assert shapes["dynamic-tanh"][1, "alpha"] == (1, 1, 1)
    assert (0, "gain of tanh(α·x)") in shapes["dynamic-tanh"]


def test_gains_and_biases_are_those_of_layer_norm() -> None:
    """torch's own with an affine part, one member at a time."""
    store, x = _store(), torch.randn(MEMBERS, BATCH, TOKENS, WIDTH, dtype=torch.float64)
    learned = Learned(store, "stack", _blocks())
    learned.norm((1, 0, "LN(x)"), x, "layer")
    for value in store.values.values():
        value.data = torch.randn(value.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    gain, bias = (store.values["stack", 1, 0, f"{part} of LN(x)"] for part in ("gain", "bias"))
    found = learned.norm((1, 0, "LN(x)"), x, "layer")
    for m in range(MEMBERS):
        torch.testing.assert_close(found[m], functional.layer_norm(x[m], (WIDTH,), gain[m], bias[m]))
    found = learned.norm((1, 0, "RMS(x)"), x, "rms")
    torch.testing.assert_close(found, x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt())


def test_admins_scale_is_profiled_once_and_then_learned() -> None:
    """ω of block 2 after the first pass is the profiled ratio; doubling the embeddings later does not change it."""
    store, windows = _store(), _ids(MEMBERS, BATCH, TOKENS + 1)
    model = LanguageModel(_blocks("admin", ("gelu",)), LETTERS)
    network = model(store, (windows,)).passes["decoder"]
    omega = store.values["decoder", 2, 0, next(k[3] for k in store.values if k[0] == "decoder" and k[3].startswith("(rms"))]
    before = network.streams[1]
    expected = (before["y"].square().flatten(1).mean(1) / before["x"].square().flatten(1).mean(1)).sqrt()
    torch.testing.assert_close(omega.flatten(), expected, rtol=1e-12, atol=0)
    kept = omega.detach().clone()
    store.values["", 0, 0, "tokens"].data *= 2
    (gradient,) = torch.autograd.grad(model(store, (windows,)).losses.sum(), omega)
    assert torch.equal(omega, kept)
    assert bool((gradient != 0).all())


def test_cross_attention_reads_the_encoder_and_padding_is_not_read() -> None:
    """Against torch's multi-head attention with the same matrices; more padding changes nothing."""
    pad = 0
    model = Translator(_blocks("pre-ln", depth=1), LETTERS, pad, 1, 2)
    store = _store()
    sources, targets = _ids(MEMBERS, BATCH, 4, high=LETTERS - 3) + 3, _ids(MEMBERS, BATCH, 4, seed=3, high=LETTERS - 3) + 3
    sources[:, 1:, 3] = pad
    targets[:, 1:, 3] = pad
    found = model(store, (sources, targets))
    longer = [functional.pad(side, (0, 1), value=pad) for side in (sources, targets)]
    torch.testing.assert_close(model(store, tuple(longer)).losses, found.losses, rtol=1e-12, atol=1e-12)
    names = [key[2:] for key in store.values if key[:2] == ("decoder", 1) and key[3].startswith("W")]
    assert names == [(0, f"W{m}") for m in "QKVO"] + [(1, f"W{m}") for m in "QKVO"] + [(2, "W1"), (2, "W2")]

    encoder, decoder = found.passes["encoder"].output, found.passes["decoder"]
    for m in range(MEMBERS):
        attention = torch.nn.MultiheadAttention(WIDTH, 2, bias=False, batch_first=True, dtype=torch.float64)
        w = {name: store.values["decoder", 1, 1, name][m] for name in ("WQ", "WK", "WV", "WO")}
        attention.in_proj_weight.data = torch.cat([w["WQ"], w["WK"], w["WV"]], 1).T
        attention.out_proj.weight.data = w["WO"].T
        first = found.passes["decoder"].streams[0]["x"][m]
        normed = functional.layer_norm(first, (WIDTH,))
        own = torch.nn.MultiheadAttention(WIDTH, 2, bias=False, batch_first=True, dtype=torch.float64)
        v = {name: store.values["decoder", 1, 0, name][m] for name in ("WQ", "WK", "WV", "WO")}
        own.in_proj_weight.data, own.out_proj.weight.data = torch.cat([v["WQ"], v["WK"], v["WV"]], 1).T, v["WO"].T
        later = torch.ones(3, 3, dtype=torch.bool).triu(1)
        x = first + own(normed, normed, normed, attn_mask=later)[0]
        query = functional.layer_norm(x, (WIDTH,))
        x = x + attention(query, encoder[m], encoder[m], key_padding_mask=sources[m] == pad)[0]
        hidden = functional.gelu(functional.layer_norm(x, (WIDTH,)) @ store.values["decoder", 1, 2, "W1"][m])
        x = x + hidden @ store.values["decoder", 1, 2, "W2"][m]
        torch.testing.assert_close(decoder.streams[1]["x"][m], x, rtol=1e-9, atol=1e-10)


def test_the_decoder_does_not_see_what_it_is_to_predict() -> None:
    model, store = Translator(_blocks("post-ln"), LETTERS, 0, 1, 2), _store()
    sources, targets = _ids(MEMBERS, BATCH, 4, high=LETTERS - 3) + 3, _ids(MEMBERS, BATCH, 5, seed=4, high=LETTERS - 3) + 3
    first = model(store, (sources, targets)).output
    changed = targets.clone()
    changed[..., 2] = 3 + (changed[..., 2] - 2) % (LETTERS - 3)
    second = model(store, (sources, changed)).output
    torch.testing.assert_close(first[:, :, :2], second[:, :, :2], rtol=1e-12, atol=1e-12)
    assert not torch.allclose(first[:, :, 2:], second[:, :, 2:])


def test_greedy_translation_ends_at_the_end_and_follows_the_most_probable_token() -> None:
    """Each token is the argmax of the teacher-forced model's scores on what is before it."""
    model, store = Translator(_blocks("pre-ln", tokens=8), 12, 0, 1, 2), _store()
    sources = _ids(MEMBERS, BATCH, 4, high=9) + 3
    written = model.greedy(store, sources)
    assert bool((written[..., 0] == 1).all())
    output = model(store, (sources, functional.pad(written, (0, 1), value=3))).output
    scores = torch.einsum("mbtd,mdv->mbtv", output, store.values["", 0, 0, "unembedding"])
    for m in range(MEMBERS):
        for b in range(BATCH):
            sentence = written[m, b].tolist()
            stop = sentence.index(2) if 2 in sentence else len(sentence) - 1
            assert sentence[1 : stop + 1] == scores[m, b, :stop].argmax(-1).tolist()
            assert set(sentence[stop + 1 :]) <= {0}


def test_a_regression_is_a_stack_between_two_maps() -> None:
    cell, store = _blocks("post-ln", ("relu",), tokens=1), _store()
    inputs, targets = (torch.randn(MEMBERS, BATCH, n, dtype=torch.float64) for n in (4, 2))
    found = Regressor(cell, 4, 2)(store, (inputs, targets))
    for m in range(MEMBERS):
        w = {key[1:]: value[m] for key, value in store.values.items()}
        x = inputs[m] @ w[0, 0, "entering"]
        for layer in range(1, DEPTH + 1):
            branch = functional.relu(x @ w[layer, 0, "W1"]) @ w[layer, 0, "W2"]
            x = functional.layer_norm(x + branch, (WIDTH,))
        expected = functional.mse_loss(x @ w[0, 0, "leaving"], targets[m])
        torch.testing.assert_close(found.losses[m], expected, rtol=1e-9, atol=1e-12)


def test_gradients_are_those_of_finite_differences() -> None:
    """Of the loss of a batch: by group, and at a stream by way of what is added to all of a member's token rows."""
    model, store, windows = LanguageModel(_blocks(), LETTERS), _store(), _ids(1, BATCH, TOKENS + 1)
    shared = windows.expand(MEMBERS, -1, -1)
    model(store, (shared,))
    found = gradients(model, store, (windows,))
    place = list(groups(store)).index("unembedding")
    matrix, change = store.values["", 0, 0, "unembedding"], torch.zeros(MEMBERS, dtype=torch.float64)
    for row in range(WIDTH):
        for column in range(LETTERS):
            losses = []
            for step in (1e-5, -1e-5):
                matrix.data[:, row, column] += step
                losses.append(model(store, (shared,)).losses.detach())
                matrix.data[:, row, column] -= step
            change += ((losses[0] - losses[1]) / 2e-5).square()
    torch.testing.assert_close(found["group-gradient"][:, place], change, rtol=1e-5, atol=1e-12)
    assert found["stream-gradient"].shape == (MEMBERS, DEPTH + 1)
    assert found["parameter-gradient"].shape == (MEMBERS, DEPTH * 6)


def test_the_stream_gradient_of_equal_sequences_is_that_of_one() -> None:
    """A batch of copies has the profile of one copy: every sequence's gradient is of its own loss."""
    model, store, window = LanguageModel(_blocks(), LETTERS), _store(), _ids(1, 1, TOKENS + 1)
    model(store, (window.expand(MEMBERS, -1, -1),))
    one, many = (gradients(model, store, (window.expand(1, count, -1),))["stream-gradient"] for count in (1, 5))
    torch.testing.assert_close(one, many, rtol=1e-10, atol=0)


@pytest.mark.parametrize(
    ("after", "rates"),
    [
        ("constant", [1, 2, 3, 4, 4, 4]),
        ("inverse-square-root", [1, 2, 3, 4, 3.577709, 3.265986]),
        ("linear", [1, 2, 3, 4, 8 / 3, 4 / 3]),
    ],
)
def test_schedules(after: str, rates: list[float]) -> None:
    """Warm-up over 4 of 6 steps; then 4·√(4/5), 4·√(4/6), or two more steps of a line to 0."""
    schedule = Schedule(4.0, 4, after)
    assert [schedule.rate(step, 6) for step in range(1, 7)] == pytest.approx(rates, rel=1e-6)
    assert Schedule(4.0, 0, after).rate(1, 6) == 4.0


def test_the_optimiser_is_adam_with_the_schedules_rate() -> None:
    """Three steps written out in numpy on the gradients of the same losses."""
    arm = _arm(dtype="float64", steps=3, evaluations=1, profiled=())
    run, other = _Run(arm, (0, 1), CPU), _Run(arm, (0, 1), CPU)
    run.advance()
    other.advance()
    values = {key: value.detach().numpy().copy() for key, value in other.store.values.items()}
    m, v = ({key: np.zeros_like(x) for key, x in values.items()} for _ in range(2))
    for t in (1, 2, 3):
        losses = other.model(other.store, other._batch()).losses
        found = torch.autograd.grad(losses.sum(), list(other.store.values.values()))
        for (key, leaf), g in zip(other.store.values.items(), found, strict=True):
            m[key] = 0.9 * m[key] + 0.1 * g.numpy()
            v[key] = 0.98 * v[key] + 0.02 * g.numpy() ** 2
            step = m[key] / (1 - 0.9**t) / (np.sqrt(v[key] / (1 - 0.98**t)) + 1e-8)
            values[key] = values[key] - 3e-3 * t / 5 * step
            leaf.data = torch.from_numpy(values[key])
        run.advance()
    for key, value in run.store.values.items():
        np.testing.assert_allclose(value.detach().numpy(), values[key], rtol=1e-7, atol=1e-9)


def _equal(one: object, other: object) -> None:
    assert one.values.keys() == other.values.keys()  # type: ignore[attr-defined]
    for name, value in one.values.items():  # type: ignore[attr-defined]
        np.testing.assert_array_equal(value, other.values[name], err_msg=name)  # type: ignore[attr-defined]


def test_equal_seeds_give_equal_results_and_other_seeds_others() -> None:
    arm = _arm()
    first, again, other = (train(a, range(2), CPU) for a in (arm, arm, replace(arm, seed=1)))
    _equal(first, again)
    assert not np.array_equal(first.values["final-loss"], other.values["final-loss"])
    assert first.values["held-out-loss"].shape == (2, 5)
    assert first.steps == (0, 5, 10, 15, 20)
    assert first.values["final-loss"].mean() < first.values["held-out-loss"][:, 0].mean()
    assert first.labels["stream-gradient"] == ("decoder 0", "decoder 1", "decoder 2")
    assert first.labels["parameter-gradient"][3:7] == ("decoder 1.1 WO", "decoder 1.2 W1", "decoder 1.2 W2", "decoder 2.1 WQ")
    for name, rows in first.labels.items():
        assert first.values[f"{name}@10"].shape == (2, len(rows))
    assert {"stream-gradient@0", "group-gradient@10", "first-update", "first-block-update"} <= first.values.keys()


def test_members_do_not_mix() -> None:
    """A member trained alone is the member trained with others (sums in another order apart)."""
    together, alone = (train(_arm(dtype="float64", clip=0.5), members, CPU) for members in ((0, 1, 2), (1,)))
    for name, value in alone.values.items():
        np.testing.assert_allclose(value[0], together.values[name][1], rtol=1e-6, err_msg=name)


class _Killed(BaseException):
    pass


def test_a_killed_run_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    """20 steps straight are 10, three more that a kill loses, and again from 10 to 20; bit by bit."""
    arm, file = _arm("deepnorm"), tmp_path / "state.pt"
    straight, seen = train(arm, range(2), CPU), []

    def killing(step: int, loss: float) -> None:
        if step == 13:
            raise _Killed

    with pytest.raises(_Killed):
        train(arm, range(2), CPU, killing, file)
    resumed = train(arm, range(2), CPU, lambda step, loss: seen.append(step), file)
    assert seen == list(range(11, 21))
    _equal(straight, resumed)
    _equal(straight, train(arm, range(2), CPU, lambda step, loss: pytest.fail("trained again"), file))
    assert [path.name for path in tmp_path.iterdir()] == ["state.pt"]


@pytest.mark.parametrize("what", ["another arm", "other members", "no checkpoint"])
def test_a_foreign_checkpoint_is_refused(what: str, tmp_path: Path) -> None:
    arm, file = _arm(steps=2, evaluations=1, profiled=()), tmp_path / "state.pt"
    train(arm, range(2), CPU, checkpoint=file)
    if what == "no checkpoint":
        file.write_bytes(b"nonsense")
    given = replace(arm, batch=5) if what == "another arm" else arm
    with pytest.raises(InvalidInput, match="checkpoint"):
        train(given, range(3 if what == "other members" else 2), CPU, checkpoint=file)


def test_rules_of_an_early_end() -> None:
    """Hand-made histories: (evaluations, members)."""
    arm = _arm(steps=9, schedule=Schedule(1.0, 3))
    steps = (0, 3, 6)
    losses = np.array([[9.0, 9.0, 2.0], [3.0, 3.0, 3.0], [3.0, 2.0, np.nan]])
    assert RULES["not-finite"](arm, steps, losses, 3.0).tolist() == [False, False, True]
    assert RULES["stuck"](arm, steps, losses, 3.0).tolist() == [True, False, False]
    assert RULES["stuck"](arm, steps[:2], losses[:2], 3.0).tolist() == [False] * 3, "too soon"
    late = replace(arm, schedule=Schedule(1.0, 4))
    assert RULES["stuck"](late, steps, losses, 3.0).tolist() == [False] * 3, "partly within the warm-up"
    assert RULES["stuck"](arm, steps, losses, None).tolist() == [False] * 3
    assert RULES["stuck"](arm, steps, losses - 0.051, 3.0).tolist() == [False] * 3
    assert RULES["stuck"](arm, steps, losses - 0.049, 3.0).tolist() == [True, False, False]


def test_an_arm_that_diverges_ends_early_and_keeps_its_last_loss() -> None:
    found = train(_arm("residual-only", schedule=Schedule(1e6), profiled=(0,)), range(2), CPU)
    assert found.ended == ("not-finite",) * 2
    assert found.taken < 20
    assert found.values["held-out-loss"].shape == (2, 5)
    assert not np.isfinite(found.values["final-loss"]).any()


def test_a_clipped_gradient_has_the_largest_norm_member_by_member() -> None:
    leaves = [torch.zeros(2, 3, requires_grad=True), torch.zeros(2, 1, requires_grad=True)]
    leaves[0].grad, leaves[1].grad = torch.tensor([[3.0, 0, 0], [0.3, 0, 0]]), torch.tensor([[4.0], [0.4]])
    _clip(leaves, 1.0)
    assert leaves[0].grad is not None and leaves[1].grad is not None
    torch.testing.assert_close(leaves[0].grad, torch.tensor([[0.6, 0, 0], [0.3, 0, 0]]))
    torch.testing.assert_close(leaves[1].grad, torch.tensor([[0.8], [0.4]]))


def test_the_first_update_is_the_change_of_the_output() -> None:
    """From two networks by hand; of blocks alone with the tables' first values."""
    arm = _arm(dtype="float64", steps=1, evaluations=1)
    run = _Run(arm, (0, 1), CPU)
    run.advance()
    shared = tuple(side.expand(2, -1, -1) for side in run.shared)
    before, first = run.model(run.store, shared).output.detach(), {k: v.detach().clone() for k, v in run.store.values.items()}
    run.advance()
    after = run.model(run.store, shared).output.detach()
    relative = (after - before).flatten(1).norm(dim=1) / before.flatten(1).norm(dim=1)
    np.testing.assert_allclose(run.readings["first-update"][:, 0], relative.numpy(), rtol=1e-10)
    for key in run.store.values:
        if not key[0]:
            run.store.values[key].data = first[key]
    blocks = run.model(run.store, shared).output.detach() - before
    rate = arm.schedule.rate(1, arm.steps)
    expected = wide(blocks).square().mean(dim=(1, 2, 3)) / rate**2
    np.testing.assert_allclose(run.readings["first-block-update"][:, 0], expected.numpy(), rtol=1e-10)


def test_bfloat16_trains_near_float32() -> None:
    found = [train(_arm(dtype=dtype), range(2), CPU).values["final-loss"] for dtype in ("float32", "bfloat16")]
    assert not np.array_equal(*found)
    np.testing.assert_allclose(found[1], found[0], rtol=0.02)


def test_a_cell_keeps_what_it_has_and_trains_the_rest() -> None:
    cell = TrainingCell(_arm(steps=4, evaluations=2, profiled=()))
    two = cell(2)
    three = cell(3)
    np.testing.assert_array_equal(three["held-out-loss"][:2], two["held-out-loss"])
    assert three["held-out-loss"].shape == (3, 3)
    assert len(cell.groups) == 2
    assert cell(2)["final-loss"].shape == (2, 1)


def test_a_learnable_constant_needs_a_value_and_stands_alone() -> None:
    import sympy

    x, a = Stream("x"), sympy.Symbol("a", positive=True)
    with pytest.raises(InvalidInput, match="no value to start from"):
        Variant("v", x + F(x), "here", learnable=(a,))
    with pytest.raises(InvalidInput, match=r"as in a \* F"):
        Variant("v", x + 2 * a * F(x), "here", constants={a: 1}, learnable=(a,))


BAD = {
    "rate": ({"schedule": lambda: Schedule(0.0)}, "peak rate"),
    "warmup": ({"schedule": lambda: Schedule(1.0, -1)}, "warmup"),
    "after": ({"schedule": lambda: Schedule(1.0, 0, "cosine")}, "unknown schedule"),
    "steps": ({"steps": 0}, "steps is 0"),
    "dtype": ({"dtype": "float16"}, "unknown dtype"),
    "clip": ({"clip": -1.0}, "clip is"),
    "task": ({"task": "chess"}, "unknown task"),
    "rule": ({"decided": ("bored",)}, "unknown rule"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_refused_in_one_line(what: str) -> None:
    given, message = BAD[what]
    with pytest.raises(InvalidInput, match=message):
        train(_arm(**{name: value() if callable(value) else value for name, value in given.items()}), range(1), CPU)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[object]:
    from tests.test_command_lines import InProcess

    yield InProcess(monkeypatch, capsys)


SMALL = ("--depth", "1", "--width", "8", "--tokens", "4", "--steps", "4", "--batch", "2", "--evaluations", "2")


def test_the_command_prints_rows_of_the_held_out_loss(run, tmp_path: Path) -> None:
    file = str(tmp_path / "state.pt")
    flags = ("train", "pre-ln", *SMALL, "--task", "stand-in", "--checkpoint", file)
    code, out, err = run("empirical", *flags, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert (found["schema"], found["variant"], found["config"]["quantity"]) == (1, "pre-ln", "held-out-loss")
    assert [row["step"] for row in found["rows"]] == [0, 2, 4]
    assert all(row["low"] < row["mean"] < row["high"] for row in found["rows"])
    assert found["config"]["seeds"] == 3
    code, out, _ = run("empirical", *flags)
    assert code == 0 and "held-out loss, 3 networks" in out
    code, out, err = run("empirical", *flags, "--rate", "1e-2")
    assert (code, out) == (2, "") and "another arm" in err


def test_the_command_reads_real_text(run) -> None:
    code, out, err = run("empirical", "train", "post-ln", *SMALL, "--json")
    assert (code, err) == (0, "")
    assert 2.5 < json.loads(out)["config"]["unlearned"] < log(256)


@pytest.mark.parametrize(
    ("flags", "message"), [(("--seeds", "1"), "at least 2"), (("--task", "chess"), "unknown task"), (("--level", "2"), "level")]
)
def test_the_commands_errors_are_one_line(run, flags: tuple[str, ...], message: str) -> None:
    code, out, err = run("empirical", "train", "pre-ln", *SMALL, *flags)
    assert (code, out) == (2, "") and message in err and err.count("\n") == 1


def test_what_ignores_its_input_is_judged_on_the_same_examples() -> None:
    """Unigrams' loss of the arm's own held-out windows and sentences, against counts made here; padding does not count."""
    windows = corpora.text("topics").held_out_windows(TOKENS, 8)
    counts = corpora.text("topics").train.bincount(minlength=256).double() + 1
    expected = -(counts / counts.sum()).log()[windows[:, 1:]].mean()
    found = train(_arm(task="text", steps=1, evaluations=1, profiled=()), range(MEMBERS), CPU)
    assert found.unlearned == pytest.approx(float(expected), rel=1e-12)
    assert found.values["unlearned-loss"].tolist() == [[found.unlearned]] * MEMBERS

    @dataclass(frozen=True)
    class Sentences:
        train = [(torch.tensor([3]), torch.tensor([1, 3, 3, 2])), (torch.tensor([3]), torch.tensor([1, 4, 2]))]
        vocabulary = 5

    own = tasks.TranslationTask(Sentences(), None, None, (0, 1, 2))  # type: ignore[arg-type]
    held_out = (torch.tensor([[[3], [3]]]), torch.tensor([[[1, 3, 2, 0], [1, 4, 4, 2]]]))
    chances = {2: 3 / 10, 3: 3 / 10, 4: 2 / 10}
    assert own.unlearned(held_out) == pytest.approx(-sum(log(chances[i]) for i in (3, 2, 4, 4, 2)) / 5, rel=1e-12)
