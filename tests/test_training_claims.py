"""The claims about training come out the other way on other data: each check, on readings made up for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import tests.claims.sources  # noqa: F401 - registers the claims
from empirical.estimands import difference, learned_over, margin, share_learned
from empirical.statistics import estimate
from empirical.training import Arm, Schedule, train
from tests.claims.arms import label, text_arm, text_arms, translation_arm
from tests.claims.declaration import BUILDERS, PROFILES, REFUTED, SUPPORTED, Claim, Profile
from tests.claims.sources.training_gradients import GROUPS

QUICK = PROFILES["quick"]
MODULES = ("warm_up", "training_gradients", "deepnorm_trained")
UNIGRAMS, BIGRAMS, SCATTER = 3.27, 2.53, 0.01


def readings(final: float, members: int = 4, worst: float | None = None, move: float = 800.0) -> dict[str, np.ndarray]:
    """Losses that fall in a line from ``worst`` (or halfway to the unigrams') to ``final``, with scatter; a first update."""
    start = (final + UNIGRAMS) / 2 if worst is None else worst
    curve = np.concatenate([[5.5], np.linspace(start, final, 10)])
    losses = curve + np.random.default_rng(int(1000 * final)).normal(0, SCATTER, (members, 1))
    levels = {"unlearned-loss": UNIGRAMS, "bigram-loss": BIGRAMS, "first-block-update": move**2}
    return {"held-out-loss": losses, "final-loss": losses[:, -1:]} | {k: np.full((members, 1), v) for k, v in levels.items()}


def verdicts(claim: Claim, finals: dict[str, float], **more: float) -> list[object]:
    samples = {name: readings(final, **more) for name, final in finals.items()}
    return [check.verdict(estimate(check.statistic, {c: samples[c] for c in check.cells})) for check in claim.checks]


def as_sources_say(claim: Claim) -> dict[str, float]:
    """Post-LN stuck without warm-up, everything else well on the bigrams' side of the middle."""
    return {name: 3.26 if "post-ln, no warm-up" in name else 2.45 if "pre-ln" in name else 2.6 for name in claim.cells}


def changed(finals: dict[str, float], new: float, *words: str) -> dict[str, float]:
    """Another final loss for the arms whose label has all the words."""
    found = {name: new if all(word in name for word in words) else final for name, final in finals.items()}
    assert found != finals
    return found


@pytest.fixture(scope="module")
def claims() -> dict[str, Claim]:
    return {name: build(QUICK) for name, build in BUILDERS.items() if build.__module__.split(".")[-1] in MODULES}


def test_warm_up_on_the_sources_outcome_and_on_others(claims: dict[str, Claim]) -> None:
    claim = claims["warm-up"]
    usual = as_sources_say(claim)
    assert verdicts(claim, usual) == [SUPPORTED] * 7
    without = changed(usual, 2.55, "post-ln", "no warm-up", "rate 0.003")
    assert verdicts(claim, without)[:5] == [REFUTED, REFUTED, SUPPORTED, SUPPORTED, SUPPORTED]  # Post-LN trains without warm-up
    fails = changed(usual, 3.4, "pre-ln", "no warm-up")
    assert verdicts(claim, fails)[:4] == [SUPPORTED, SUPPORTED, REFUTED, REFUTED]  # Pre-LN does not
    needless = changed(usual, 3.2, "post-ln", "warm-up 200")
    assert verdicts(claim, needless)[:2] == [SUPPORTED, REFUTED]  # a warm-up does not help
    slower = changed(usual, 2.6, "post-ln", "no warm-up", "rate 0.001")
    assert verdicts(claim, slower)[:5] == [SUPPORTED] * 4 + [REFUTED]  # at a third of the rate none is needed: what is expected
    assert verdicts(claim, usual, move=200.0)[5:] == [REFUTED, SUPPORTED]
    assert verdicts(claim, usual, move=3000.0)[5:] == [SUPPORTED, REFUTED]


def test_translation_on_the_sources_outcome_and_on_others(claims: dict[str, Claim]) -> None:
    claim = claims["warm-up-translation"]
    usual = as_sources_say(claim)
    assert verdicts(claim, usual) == [SUPPORTED] * 3
    assert verdicts(claim, changed(usual, 2.3, "post-ln", "no warm-up")) == [SUPPORTED, REFUTED, REFUTED]
    assert verdicts(claim, changed(usual, 3.4, "pre-ln")) == [REFUTED, REFUTED, SUPPORTED]
    full = BUILDERS[claim.id](PROFILES["full"])
    outright = as_sources_say(full)
    assert verdicts(full, outright)[3] is SUPPORTED
    assert verdicts(full, changed(outright, 2.7, "post-ln", "no warm-up"))[3] is REFUTED


def test_a_higher_perplexity_or_a_divergence_refutes(claims: dict[str, Claim]) -> None:
    claim = claims["pre-ln-perplexity"]
    usual = as_sources_say(claim)
    assert verdicts(claim, usual) == [SUPPORTED] * 3
    assert verdicts(claim, changed(usual, 2.75, "pre-ln")) == [REFUTED, REFUTED, SUPPORTED]
    assert verdicts(claim, usual, worst=3.6) == [SUPPORTED, SUPPORTED, REFUTED]


def test_a_deepnorm_that_fails_or_a_post_ln_that_trains_refutes(claims: dict[str, Claim]) -> None:
    claim = claims["deepnorm-trains-where-post-ln-fails"]
    usual = {name: 3.26 if "post-ln" in name else 2.6 for name in claim.cells}
    assert verdicts(claim, usual) == [SUPPORTED] * 3
    assert verdicts(claim, changed(usual, 2.6, "post-ln")) == [REFUTED] * 3
    assert verdicts(claim, changed(usual, 3.25, "deepnorm"))[::2] == [SUPPORTED, REFUTED]


@pytest.mark.parametrize("height", [1.0, 30.0, 1000.0])
def test_only_gradients_tens_of_times_larger_are_so(claims: dict[str, Claim], height: float) -> None:
    """Profiles that fall geometrically from ``height`` at the first row to 1 at the last."""
    claim = claims["post-ln-lower-tens-of-times-in-training"]
    for check in claim.checks:
        (name,) = check.cells
        arm = claim.cells[name]
        assert isinstance(arm, Arm)
        depth, matrices = arm.configuration.depth, len(arm.configuration.matrix_names)
        scatter = np.exp(np.random.default_rng(7).normal(0, SCATTER, (4, 1)))
        rows = {"stream-gradient": depth + 1, "parameter-gradient": depth * matrices}
        made = {f"{k}@{s}": scatter * np.geomspace(height ** (1 + 1 / n), 1, n) for k, n in rows.items() for s in arm.read}
        found = check.verdict(estimate(check.statistic, {name: made}))
        assert found is (SUPPORTED if height == 30.0 else REFUTED), check.name


def test_statistics_of_losses_by_hand() -> None:
    """Unigrams at 3, bigrams at 2: a loss of 2.25 is three quarters of the way, 1.5 times of what 2.5 has learned."""
    losses = {"held-out-loss": np.array([9.0, 3.5, 2.25]), "final-loss": np.array([2.25])}
    means = {"a": losses | {"unlearned-loss": np.array([3.0]), "bigram-loss": np.array([2.0])}}
    means["b"] = means["a"] | {"final-loss": np.array([2.5])}
    assert share_learned("a")(means) == pytest.approx([0.75])
    assert learned_over("a", "b")(means) == pytest.approx([1.5])
    assert difference("b", "a", "final-loss")(means) == pytest.approx([0.25])
    assert margin("a")(means) == pytest.approx([-0.5, 0.75])
    assert margin("a", 2)(means) == pytest.approx([0.75])


@pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))
def test_arms_are_independent_of_each_other_and_of_other_base_seeds(profile: Profile) -> None:
    arms: list[Arm] = []
    for seed in (0, 1):
        own = replace(profile, seed=seed)
        arms += text_arms(own, own.training.rates[0]).cells.values()
        arms += (translation_arm(own, "pre-ln", Schedule(3e-3)), text_arm(own, "pre-ln", Schedule(3e-3), 2))
    assert len({arm.seed for arm in arms}) == len(arms) == 12
    assert len({label(arm) for arm in arms}) == 6


def test_groups_stand_in_the_order_of_a_post_ln_networks_readings() -> None:
    arm = text_arm(replace(QUICK, training=replace(QUICK.training, width=8)), "post-ln", Schedule(1e-3), 1, steps=1, profiled=())
    found = train(arm, (0,), torch.device("cpu")).labels["group-gradient"]
    assert [name.removeprefix("decoder ").replace("ffn", "FFN") for name in found] == list(GROUPS)
