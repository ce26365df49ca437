"""Options of the claims' run, the session's laboratory and recorder, and its progress display."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

import tests.claims.sources  # noqa: F401 - registers the claims
from empirical.measurement import device_named
from empirical.training import Arm, Crew
from tests.claims.declaration import BUILDERS, PROFILES, Builder, Profile
from tests.claims.own_variant import claims_of
from tests.claims.recorder import Recorder, code_digest, header
from tests.claims.runner import Laboratory
from theory.algebra import Variant
from theory.errors import InvalidInput
from theory.variants import adopt

VARIANTS: pytest.StashKey[Sequence[Variant]] = pytest.StashKey()
CLAIMS: pytest.StashKey[Mapping[str, Builder]] = pytest.StashKey()
RECORDED: pytest.StashKey[Path] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The verification's own options."""
    group = parser.getgroup("normlaws")
    group.addoption("--profile", default="quick", help=f"how much is measured: {' or '.join(PROFILES)}")
    group.addoption("--device", default="auto", help="auto, cpu or cuda")
    group.addoption("--seed", type=int, default=0, help="base seed of all networks")
    group.addoption(
        "--variant",
        action="append",
        default=[],
        help="a variant of your own, a .py file or an installed one's name, in place of all claims (repeatable)",
    )
    group.addoption(
        "--results", help="where the verdicts are recorded (default: reports/latest/results.jsonl, or reports/variants/NAME/)"
    )
    group.addoption("--report", action="store_true", help="write report.md beside the results, and print its summary")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse bad options in one line, before anything is measured or written."""
    config = session.config
    try:
        profile = chosen_profile(config)
        device_named(config.getoption("--device"))
        variants, claims = chosen_claims(config.getoption("--variant"), profile)
    except InvalidInput as error:
        pytest.exit(str(error), returncode=2)
    config.stash[VARIANTS], config.stash[CLAIMS] = variants, claims


def chosen_claims(given: list[str], profile: Profile) -> tuple[Sequence[Variant], Mapping[str, Builder]]:
    """The variants that the options name, and the claims of the run: theirs, or all where none is named.

    Raises:
        InvalidInput: a file or name that is no variant, or a variant of which theory can predict nothing.
    """
    if not given:
        return (), BUILDERS
    variants = [adopt(name) for name in given]
    claims: dict[str, Builder] = {}
    for name, variant in zip(given, variants, strict=True):
        claims |= claims_of(variant.name, f"--variant {shlex.quote(name)}")
    for build in claims.values():
        build(profile)
    return tuple(dict.fromkeys(variants)), claims


def results_path(config: pytest.Config) -> Path:
    """Where the run's results go."""
    names = "+".join(variant.name for variant in config.stash[VARIANTS])
    folder = f"reports/variants/{names}" if names else "reports/latest"
    return Path(config.getoption("--results") or f"{folder}/results.jsonl")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> Iterator[None]:
    """Turn what was recorded into a report, by the reports' own command, after pytest's own summary."""
    yield
    recorded = session.config.stash.get(RECORDED, None)
    if session.config.getoption("--report") and recorded and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        sys.stdout.flush()
        done = subprocess.run([sys.executable, "-m", "reports", str(recorded)], check=False)
        session.exitstatus = max(exitstatus, done.returncode)


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
        claims: Mapping[str, Builder] = metafunc.config.stash[CLAIMS]
        metafunc.parametrize("claim_id", list(claims))


@pytest.fixture(scope="session")
def builders(request: pytest.FixtureRequest) -> Mapping[str, Builder]:
    """The run's claims."""
    return request.config.stash[CLAIMS]


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


class Trainings:
    """One bar for each training that runs, with its loss."""

    def __init__(self, bars: Progress) -> None:
        self.bars, self.shown = bars, dict[Arm, TaskID]()

    def __call__(self, arm: Arm, step: int, loss: float) -> None:
        """Called after every step."""
        if arm not in self.shown:
            self.shown[arm] = self.bars.add_task("", total=arm.steps)
        words = f"{arm.configuration.variant.name}, {arm.task}, L={arm.configuration.depth}: loss {loss:.3f}"
        self.bars.update(self.shown[arm], completed=step, description=words)
        if step == arm.steps:
            self.bars.remove_task(self.shown.pop(arm))


@pytest.fixture(scope="session")
def laboratory(request: pytest.FixtureRequest, profile: Profile, progress: Progress) -> Iterator[Laboratory]:
    """The session's ensembles and trainings."""
    _, networks = progress.task_ids
    device, crew = device_named(request.config.getoption("--device")), Crew()
    kept = checkpoints(request.config, device.type)
    told = Trainings(progress)
    yield Laboratory(device, profile.budget, lambda added: progress.advance(networks, added), told, kept, crew)
    crew.stop()


def checkpoints(config: pytest.Config, device: str) -> Path:
    """Folder of the trainings' states beside the results; other code or another device has another one."""
    return results_path(config).parent / "trainings" / f"{device}-{code_digest(config.stash[VARIANTS])[:16]}"


@pytest.fixture(scope="session")
def recorder(request: pytest.FixtureRequest, profile: Profile, laboratory: Laboratory) -> Iterator[Recorder]:
    """The session's results; an interrupted run keeps what it had, and the next one goes on from there."""
    config = request.config
    planned = [str(item.callspec.params["claim_id"]) for item in request.session.items if isinstance(item, pytest.Function)]
    command = f"tox run -e verify -- --profile {profile.name} --device {laboratory.device.type} --seed {profile.seed}"
    command += "".join(f" --variant {shlex.quote(name)}" for name in config.getoption("--variant"))
    if config.getoption("-k"):
        command += f" -k '{config.getoption('-k')}'"
    provenance = header(profile.name, profile.seed, laboratory.device, planned, command, config.stash[VARIANTS])
    path = results_path(config)
    record = Recorder(path, provenance)
    yield record
    complete = set(planned) <= set(record.finished)
    record.close(complete)
    if complete and laboratory.checkpoints is not None:
        shutil.rmtree(laboratory.checkpoints, ignore_errors=True)
        with suppress(OSError):  # another device's trainings may lie beside them
            laboratory.checkpoints.parent.rmdir()
    config.stash[RECORDED] = path
