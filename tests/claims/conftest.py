"""Options of the claims' run, the session's laboratory and recorder, and its progress display."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import tests.claims.sources  # noqa: F401 - registers the claims
from empirical.measurement import device_named
from tests.claims.declaration import BUILDERS, PROFILES, Profile
from tests.claims.recorder import Recorder, header
from tests.claims.runner import Laboratory
from theory.errors import InvalidInput


def pytest_addoption(parser: pytest.Parser) -> None:
    """The verification's own options."""
    group = parser.getgroup("normlaws")
    group.addoption("--profile", default="quick", help=f"how much is measured: {' or '.join(PROFILES)}")
    group.addoption("--device", default="auto", help="auto, cpu or cuda")
    group.addoption("--seed", type=int, default=0, help="base seed of all networks")
    group.addoption("--results", default="reports/latest/results.jsonl", help="where the verdicts are recorded")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse bad options in one line, before anything is measured or written."""
    try:
        chosen_profile(session.config)
        device_named(session.config.getoption("--device"))
    except InvalidInput as error:
        pytest.exit(str(error), returncode=2)


def chosen_profile(config: pytest.Config) -> Profile:
    """The profile that the options name.

    Raises:
        InvalidInput: unknown profile, negative seed.
    """
    name, seed = config.getoption("--profile"), config.getoption("--seed")
    if name not in PROFILES:
        raise InvalidInput(f"unknown profile {name!r}: use {' or '.join(PROFILES)}")
    if seed < 0:
        raise InvalidInput(f"seed is {seed}: it must be 0 or more")
    return replace(PROFILES[name], seed=seed)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test a claim."""
    if "claim_id" in metafunc.fixturenames:
        metafunc.parametrize("claim_id", list(BUILDERS))


@pytest.fixture(scope="session")
def profile(request: pytest.FixtureRequest) -> Profile:
    """The chosen profile."""
    return chosen_profile(request.config)


@pytest.fixture(scope="session")
def progress(request: pytest.FixtureRequest) -> Iterator[Progress]:
    """A bar for claims and a count of networks, on a terminal."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        terminal = os.fdopen(os.dup(sys.stderr.fileno()), "w")  # stays the terminal while pytest captures stderr
    console = Console(file=terminal)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bars = Progress(
        *columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False, disable=not console.is_terminal
    )
    bars.add_task("claims", total=len(request.session.items))
    bars.add_task("networks", total=None)
    bars.start()
    yield bars
    bars.stop()
    terminal.close()


@pytest.fixture(scope="session")
def laboratory(request: pytest.FixtureRequest, profile: Profile, progress: Progress) -> Laboratory:
    """The session's ensembles."""
    networks = progress.task_ids[1]
    return Laboratory(
        device_named(request.config.getoption("--device")), profile.budget, lambda added: progress.advance(networks, added)
    )


@pytest.fixture(scope="session")
def recorder(request: pytest.FixtureRequest, profile: Profile, laboratory: Laboratory) -> Iterator[Recorder]:
    """The session's results; an interrupted run keeps what it had, and the next one goes on from there."""
    config = request.config
    planned = [str(item.callspec.params["claim_id"]) for item in request.session.items if isinstance(item, pytest.Function)]
    command = f"tox run -e verify -- --profile {profile.name} --device {laboratory.device.type} --seed {profile.seed}"
    if config.getoption("-k"):
        command += f" -k '{config.getoption('-k')}'"
    record = Recorder(
        Path(config.getoption("--results")), header(profile.name, profile.seed, laboratory.device, planned, command)
    )
    yield record
    record.close(complete=set(planned) <= set(record.finished))
