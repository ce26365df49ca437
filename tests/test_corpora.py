"""The data of the training claims: held-out parts share nothing with training ones, hashes and batches come again."""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import math
import re
import subprocess
import sys
import textwrap
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

import empirical.__main__
from empirical.corpora import (
    BEGIN,
    END,
    PAD,
    Text,
    base,
    bleu,
    catalogues,
    padded,
    pairs,
    regression,
    text,
    topics,
    translation,
    whole,
)
from empirical.corpora.hashes import KNOWN, release, standing
from empirical.corpora.splitting import held_out, passages
from empirical.corpora.subwords import Subwords
from theory.commands import leave_in_one_line
from theory.errors import InvalidInput

LANGUAGES = ("en-de", "en-ru", "en-ja")


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def as_bytes(tokens: torch.Tensor) -> bytes:
    return bytes(tokens.tolist())


# Texts


def test_topics_are_those_of_pydoc() -> None:
    from pydoc_data.topics import topics as original

    data = "\n".join(original[name] for name in sorted(original)).encode()
    assert text("topics").digest == hashlib.sha256(data).hexdigest()
    assert as_bytes(whole("topics")) == data


def test_library_holds_the_docstrings_that_importing_shows() -> None:
    documents = base.documents("library")
    for module in (textwrap, ast, inspect, json):
        path = inspect.getsourcefile(module)
        (document,) = (text for name, text in documents.items() if path.endswith(f"/{name}"))
        parts = [
            module,
            *(value for value in vars(module).values() if inspect.isfunction(value) and value.__module__ == module.__name__),
        ]
        assert all(inspect.cleandoc(part.__doc__) in document for part in parts if part.__doc__)
    assert set(topics.documents()) < set(documents) and not [
        name for name in documents if {"test", "site-packages"} & set(name.split("/"))
    ]
    assert sum(map(len, documents.values())) > 3 * len(whole("topics"))


@pytest.mark.parametrize("name", base.TEXTS)
def test_the_parts_of_a_text_share_no_document_and_no_passage(name: str) -> None:
    documents, corpus = base.documents(name), text(name)
    parts = [as_bytes(part).decode() for part in (corpus.train, corpus.held_out)]
    assert sorted(documents) == sorted(key for key in documents if any(documents[key] in part for part in parts))
    train, rest = map(passages, parts)
    assert len(rest) > 100 and not train & rest
    assert 0.08 < len(corpus.held_out) / len(whole(name)) < 0.13
    assert len(corpus.train) + len(corpus.held_out) + 1 == len(whole(name))


PARAGRAPH = "a paragraph that is long enough to tie two documents together, whatever stands around it in either"


def test_documents_with_a_passage_in_common_stay_together() -> None:
    """A chain of five: each shares a paragraph with the next, wrapped in another way. All or none are held out."""
    sides = set()
    for salt in range(60):
        links = [f"{PARAGRAPH}, number {i} of {salt}" for i in range(4)]
        chain = {f"chain {i}": "\n\n".join([*map(textwrap.fill, links[max(i - 1, 0) : i]), *links[i : i + 1]]) for i in range(5)}
        others = {f"other {i}": f"{salt} {i} " * 400 for i in range(20)}
        sides.add(len(held_out(chain | others) & set(chain)))
    assert sides == {0, 5}


def test_entropies_against_independent_counts() -> None:
    corpus = text("topics")
    train, rest = as_bytes(corpus.train), as_bytes(corpus.held_out)
    single, double, before = Counter(train), Counter(zip(train, train[1:], strict=False)), Counter(train[:-1])
    chance = {b: (single[b] + 1) / (len(train) + 256) for b in range(256)}
    assert corpus.unigram_entropy == pytest.approx(-sum(math.log(chance[b]) for b in rest) / len(rest), rel=1e-12)
    logs = [math.log((double[a, b] + chance[b]) / (before[a] + 1)) for a, b in zip(rest, rest[1:], strict=False)]
    assert corpus.bigram_entropy == pytest.approx(-sum(logs) / len(logs), rel=1e-12)
    windows = corpus.held_out_windows(64, 5)
    pairs = [pair for window in windows.tolist() for pair in zip(window, window[1:], strict=False)]
    assert corpus.unigram_loss(windows) == pytest.approx(-sum(math.log(chance[b]) for _, b in pairs) / 320, rel=1e-12)
    logs = [math.log((double[a, b] + chance[b]) / (before[a] + 1)) for a, b in pairs]
    assert corpus.bigram_loss(windows) == pytest.approx(-sum(logs) / 320, rel=1e-12)


def test_entropies_of_a_text_that_can_be_done_by_hand() -> None:
    """0, 1, 2, 3, 0, …: ln 4 without the context; with it 25 of 25 (once 24) followed as ever, and one more spread over four."""
    cycle = torch.arange(100) % 4
    corpus = Text("cycle", "", 4, cycle, cycle)
    assert corpus.unigram_entropy == pytest.approx(math.log(4), rel=1e-12)
    often, last = -math.log(25.25 / 26), -math.log(24.25 / 25)
    assert corpus.bigram_entropy == pytest.approx((75 * often + 24 * last) / 99, rel=1e-12)


def test_windows_come_from_the_training_part_and_from_the_generator() -> None:
    corpus = text("topics")
    first = corpus.windows(generator(3), 5, 40)
    assert first.shape == (5, 41) and first.dtype == torch.int64
    assert all(as_bytes(window) in as_bytes(corpus.train) for window in first)
    assert torch.equal(first, corpus.windows(generator(3), 5, 40)) and not torch.equal(first, corpus.windows(generator(4), 5, 40))
    resumed = generator(3)
    corpus.windows(resumed, 5, 40)
    again = generator()
    again.set_state(resumed.get_state())
    assert torch.equal(corpus.windows(resumed, 5, 40), corpus.windows(again, 5, 40))


@settings(deadline=None)
@given(st.integers(2, 200), st.integers(1, 60), st.integers(1, 12))
def test_held_out_windows_predict_no_token_twice(size: int, length: int, limit: int) -> None:
    tokens = torch.arange(size)
    corpus = Text("numbers", "", size, tokens, tokens)
    if length >= size:
        with pytest.raises(InvalidInput, match="give a length from 1 to"):
            corpus.held_out_windows(length, limit)
        return
    windows = corpus.held_out_windows(length, limit)
    assert windows.shape == (min(limit, (size - 1) // length), length + 1)
    assert torch.equal(windows - windows[:, :1], torch.arange(length + 1).expand(len(windows), -1))
    assert windows.max() < size and len(set(windows[:, 1:].flatten().tolist())) == windows[:, 1:].numel()


def test_every_place_of_the_training_part_can_be_drawn() -> None:
    tokens = torch.arange(12)
    windows = Text("numbers", "", 12, tokens, tokens).windows(generator(), 2000, 9)
    assert set(windows[:, 0].tolist()) == {0, 1, 2} and windows.max() == 11


def test_unknown_names_are_told() -> None:
    with pytest.raises(InvalidInput, match="unknown text 'novels': known are topics, library"):
        text("novels")
    with pytest.raises(InvalidInput, match="unknown pairs 'en-xx': known are en-all and en-LANGUAGE for one of af, am, ar"):
        pairs("en-xx")


# Translations


def words(sentence: str) -> str:
    return "".join(filter(str.isalnum, sentence.lower()))


@pytest.fixture(scope="module")
def pooled() -> base.Pairs:
    return pairs(translation.ALL)


def test_no_source_stands_on_both_sides_for_all_languages_together(pooled: base.Pairs) -> None:
    """Neither in another case nor with other punctuation; a task of one language has the pooled one's split."""
    tasks = [pooled, *map(pairs, LANGUAGES)]
    train, rest = (
        {words(task.decode(source)) for task in tasks for source, _ in getattr(task, part)} for part in ("train", "held_out")
    )
    assert len(rest) > 80 and not train & rest
    assert 0.08 < len(rest) / len(train | rest) < 0.17


def test_the_pooled_task_says_which_language_is_wanted(pooled: base.Pairs) -> None:
    known = catalogues.languages()
    assert len(known) > 90 and not [name for name in known if name.startswith("en")]
    tags = Counter(int(source[0]) for source, _ in pooled.train)
    assert set(tags) == set(range(END + 1, END + 1 + len(known)))
    german = {(pooled.decode(s), pooled.decode(t)) for s, t in pooled.train if s[0] == END + 1 + known.index("de")}
    single = {(pairs("en-de").decode(s), pairs("en-de").decode(t)) for s, t in pairs("en-de").train}
    assert len(german & single) > 600 and len(german ^ single) < 40  # sentences of about 64 subwords may be in one of them only
    assert len(pooled.train) > 50_000


@pytest.mark.parametrize("name", LANGUAGES)
def test_pairs_are_sentences_in_ids(name: str) -> None:
    task = pairs(name)
    assert [task.decode(target) for _, target in task.held_out] == task.references
    for source, target in task.train + task.held_out:
        assert source[-1] == target[-1] == END and target[0] == BEGIN and len(source) <= 65 and len(target) <= 66
        assert min(source[:-1].min(), target[1:-1].min()) > END and max(source.max(), target.max()) < task.vocabulary


def test_german_is_german() -> None:
    task = pairs("en-de")
    known = {task.decode(source): task.decode(target) for source, target in task.train + task.held_out}
    assert (
        known["Tuesday"] == "Dienstag"
        and known["Please correct the error below."] == "Bitte den unten aufgeführten Fehler korrigieren."
    )
    assert known["§ day"] == "§ Tag"  # of the plural message: the form for one
    assert known["Jan."] == "Jan."  # stands only in a context
    assert "" not in known and not [source for source in known if re.search(r"%\(|<a |\{\w", source)]


def test_a_copied_source_is_worth_little() -> None:
    """With the places to fill in left as they are, it has a BLEU of 33."""
    task = pairs("en-de")
    assert bleu([task.decode(source) for source, _ in task.held_out], task.references) < 12


def test_the_vocabulary_sees_only_the_training_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """A word of every held-out translation is as many pieces as letters; the same in training ones is one."""
    sources = [f"message {i} of many" for i in range(400)]
    made_up = {source: "qqjjxx" if translation.is_held_out(source) else "zzvvkk" for source in sources}
    monkeypatch.setattr(translation, "languages", lambda: ["xx"])
    monkeypatch.setattr(translation, "translations", lambda _: made_up | {"zzvvkk zzvvkk": "zzvvkk"})
    task = translation.pairs.__wrapped__("en-xx")
    assert {len(target) for _, target in task.held_out} == {len("qqjjxx") + 2}
    assert {len(target) for _, target in task.train} == {1 + 2}


subwords = Subwords(["a sentence to learn from", "another sentence, learnt from too"], 300, first=7)


@settings(deadline=None)
@given(st.text())
def test_every_text_comes_back_from_its_subwords(text: str) -> None:
    (ids,) = subwords.encode([text])
    assert subwords.decode(ids) == text
    assert all(7 <= i < 7 + len(subwords) for i in ids)


def test_decoding_ends_at_the_end() -> None:
    task = pairs("en-de")
    (ids,) = (target for _, target in task.train if task.decode(target) == "Dienstag")
    assert task.decode([*ids.tolist(), *ids.tolist()]) == task.decode(torch.cat([ids, torch.tensor([PAD, PAD])])) == "Dienstag"
    assert task.decode([]) == ""


def test_batches_of_pairs_come_from_the_generator() -> None:
    task = pairs("en-de")
    sources, targets = task.batches(generator(1), 16)
    assert len(sources) == len(targets) == 16 and sources.dtype == torch.int64
    known = {(tuple(s.tolist()), tuple(t.tolist())) for s, t in task.train}
    assert all((tuple(s[s != PAD].tolist()), tuple(t[t != PAD].tolist())) in known for s, t in zip(sources, targets, strict=True))
    assert (sources[:, -1] != PAD).any() and (targets[:, -1] != PAD).any()
    assert all(map(torch.equal, (sources, targets), task.batches(generator(1), 16)))
    assert {row.tolist().index(END) for row in padded(task.held_out)[0]} == {len(source) - 1 for source, _ in task.held_out}


def test_hashes_are_those_of_other_processes_and_of_the_record() -> None:
    code = "from empirical.corpora import *; print(text('topics').digest, pairs('en-de').digest, regression().digest)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert found == [text("topics").digest, pairs("en-de").digest, regression().digest]
    for name, digest in zip(("topics", "en-de", "regression"), found, strict=True):
        assert ((name, release(name)) not in KNOWN) or standing(name, digest).startswith("as recorded for ")


def test_a_hash_of_another_release_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert standing("regression", "0" * 64).startswith("differs from the one recorded for seed 0, 3af9839a042a")
    monkeypatch.setattr("platform.python_version", lambda: "3.99.1")
    assert re.match(r"not recorded for CPython 3\.99\.1 \(recorded: CPython 3\.11\.2, ", standing("topics", "0" * 64))


def test_bleu_of_sacrebleus_own_example() -> None:
    """README of sacrebleu: BLEU = 48.53 82.4/50.0/45.5/37.5 (BP = 0.943 ratio = 0.944 hyp_len = 17 ref_len = 18)."""
    first = ["The dog bit the man.", "It was not unexpected.", "The man bit him first."]
    second = ["The dog had bit the man.", "No one was surprised.", "The man had bitten the dog."]
    system = ["The dog bit the man.", "It wasn't surprising.", "The man had just bitten him."]
    assert bleu(system, first, second) == pytest.approx(48.53, abs=0.005)


def test_bleu_by_hand() -> None:
    assert bleu(["a b c d"], ["a b c d e"]) == pytest.approx(100 * math.exp(1 - 5 / 4), rel=1e-9)  # all right but too short
    assert bleu(["a b c d x"], ["a b c d e"]) == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25, rel=1e-9)
    for system, references in (([], [[]]), (["a"], [["a", "b"]]), (["a"], [])):
        with pytest.raises(InvalidInput, match="give one for each"):
            bleu(system, *references)


@pytest.mark.parametrize("missing", ["django", "tokenizers"])
def test_a_missing_extra_is_one_line(missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setattr(sys, "argv", ["empirical", "corpora", "en-fr"])
    assert leave_in_one_line(empirical.__main__.main) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and f"need {missing}, which is not installed: pip install 'normlaws[data]'" in error


# Regression


def test_the_regression_task_is_scaled_as_it_says() -> None:
    """Directions orthonormal and E y² = 1, by scipy's quadrature; on the held-out inputs within what 4,096 of them scatter."""
    task = regression()
    density = SimpleNamespace(of=lambda z: math.exp(-z * z / 2) / math.sqrt(2 * math.pi))
    power = quad(lambda z: math.tanh(z) ** 2 * density.of(z), -12, 12)[0]
    line = quad(lambda z: z * math.tanh(z) * density.of(z), -12, 12)[0]
    assert torch.allclose(task.directions.T @ task.directions, torch.eye(4), atol=1e-6)
    assert float(task.coefficients.square().sum()) * power == pytest.approx(1, rel=1e-6)
    assert task.linear_loss == pytest.approx(1 - line**2 / power, rel=1e-9)
    inputs, targets = (part.double().numpy() for part in task.held_out)
    squares = targets**2
    assert abs(squares.mean() - 1) < 4 * squares.std() / 64 and abs(targets.mean()) < 4 / 64
    residual = np.linalg.lstsq(inputs, targets, rcond=None)[1][0] / len(targets)
    assert residual == pytest.approx(task.linear_loss, rel=0.15)


def test_regression_batches_come_from_the_generator_and_follow_the_formula() -> None:
    task = regression()
    inputs, targets = task.batches(generator(5), 32)
    u, a = task.directions.numpy(), task.coefficients.numpy()
    assert inputs.shape == (32, task.width) and np.allclose(targets, np.tanh(inputs.numpy() @ u) @ a, atol=1e-6)
    assert targets.shape == (32, 1) and torch.equal(inputs, task.batches(generator(5), 32)[0])
    assert not torch.equal(inputs, task.batches(generator(6), 32)[0])


# Command


def test_the_command_lists_corpora(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["empirical", "corpora", "topics", "en-de", "regression"])
    assert leave_in_one_line(empirical.__main__.main) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["topics", "en-de", "regression"]
    assert f"{len(text('topics').train):,} bytes to train on" in lines[0] and text("topics").digest[:12] in lines[0]
    monkeypatch.setattr(sys, "argv", ["empirical", "corpora", "topics", "--json"])
    assert leave_in_one_line(empirical.__main__.main) == 0
    (row,) = json.loads(capsys.readouterr().out)["corpora"]
    assert row["digest"] == text("topics").digest and row["yardsticks"]["unigram entropy"] == text("topics").unigram_entropy
    monkeypatch.setattr(sys, "argv", ["empirical", "corpora", "novels"])
    assert leave_in_one_line(empirical.__main__.main) == 2
    assert "unknown corpus 'novels': known are topics, library, en-de, en-all, regression" in capsys.readouterr().err


def test_the_list_of_all_goes_on_without_the_extra(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "django", None)
    monkeypatch.setattr("empirical.corpora.listing.NAMES", ("topics", "en-fr", "regression"))
    monkeypatch.setattr(sys, "argv", ["empirical", "corpora"])
    assert leave_in_one_line(empirical.__main__.main) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and "pip install 'normlaws[data]'" in lines[1] and lines[2].startswith("regression: ")
