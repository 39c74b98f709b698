"""Trials on Ray: workers, nodes and drivers die, and each trial is trained once, to the same bytes as alone."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
from chaos import make_data, trained

from waypost.data.dataset import Dataset
from waypost.studies.lease import Lease, holder_of
from waypost.studies.trials import Trial
from waypost.studies.workers import POLL_SECONDS, OnRay, _started_apart, _Work
from waypost.training.callbacks import Callback
from waypost.training.plan import plan

LONGEST = 240
"""Seconds until a process that does not end is a failure."""


def environment() -> dict[str, str]:
    """Of processes that import what lies here."""
    tests = Path(__file__).parents[1]
    paths = [str(tests.parent), str(tests), str(tests / "studies")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONWARNINGS": "default"}


@contextmanager
def driver(out: Path, data: list[str], workers: int, steps: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process that trains on a Ray of its own."""
    with started(out, "chaos", str(out), json.dumps(data), str(workers), str(steps)) as process:
        yield process


@contextmanager
def started(out: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A module as a process of its own, the first of its group; what it says is in driver.txt."""
    words = sys.executable, "-m", *words
    with (out.parent / "driver.txt").open("ab") as said:
        process = subprocess.Popen(words, env=environment(), stdout=said, stderr=said, start_new_session=True)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def holders(out: Path) -> list[int]:
    """The processes whose training has begun."""
    found = [holder_of(file.with_name(file.name[1:].removesuffix(".lease"))) for file in out.rglob(".*.lease")]
    return [holder["pid"] for holder in found if holder is not None and "step" in holder]


def kill_some(out: Path, process: subprocess.Popen[bytes], count: int, pause: float, chance: random.Random) -> int:
    """Kill workers that train, one after the other; how many there were until all was done."""
    killed, begun = 0, time.monotonic()
    while killed < count and process.poll() is None:
        assert time.monotonic() - begun < LONGEST, (out.parent / "driver.txt").read_text()
        alive = holders(out)
        if alive:
            time.sleep(pause * chance.random())
            with suppress(ProcessLookupError):
                os.kill(chance.choice(alive), signal.SIGKILL)
                killed += 1
        time.sleep(0.1)
    return killed


def chaos(tmp_path: Path, workers: int, count: int, steps: int, kills: int, pause: float) -> None:
    data, out, chance = make_data(tmp_path, count), tmp_path / "out", random.Random(0)
    with driver(out, data, workers, steps) as process:
        assert kill_some(out, process, kills, pause, chance)
        process.kill()  # with all it has started
    with driver(out, data, workers, steps) as process:
        kill_some(out, process, kills, pause, chance)
        assert process.wait(LONGEST) == 0, (tmp_path / "driver.txt").read_text()
    rows = list(csv.DictReader((out / "results.csv").read_text().splitlines()))
    assert sorted(row["data"] for row in rows if row["algorithm"] == "bc") == data
    assert not [row["note"] for row in rows if row["note"]]
    assert [path for path in out.rglob("*") if path.name.endswith((".lease", ".partial"))] == []
    check_against_alone(data, out, steps)


def check_against_alone(data: list[str], out: Path, steps: int) -> None:
    """Each was trained once, some in several attempts, and all to the bytes of one that nobody disturbed."""
    logs = [path.read_text() for path in sorted(out.rglob("*.log"))]
    assert [log.count(" finished") for log in logs] == [1] * len(data)
    assert any(log.count("from step") > 1 for log in logs), "nobody was killed in the middle"
    alone = out.with_name("alone")
    trained(data, alone, steps=steps)
    for file in sorted(alone.rglob("policy/*.safetensors")):
        assert (out / file.relative_to(alone)).read_bytes() == file.read_bytes()


def test_workers_and_the_driver_are_killed_and_all_is_trained_once(tmp_path: Path) -> None:
    chaos(tmp_path, workers=3, count=12, steps=200, kills=2, pause=0.5)


@pytest.mark.slow
def test_workers_are_killed_for_long(tmp_path: Path) -> None:
    chaos(tmp_path, workers=3, count=24, steps=2_000, kills=20, pause=4.0)


def descendants(process: int) -> list[Path]:
    """The processes that a process has started, and those that they have."""
    parents = {int(file.parent.name): file for file in Path("/proc").glob("[0-9]*/stat")}
    found, left = [], [process]
    while left:
        parent = left.pop()
        for number, file in parents.items():
            with suppress(OSError):
                if int(file.read_text().rpartition(")")[2].split()[1]) == parent:
                    found.append(file)
                    left.append(number)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_whole_group_lets_the_workers_save(number: signal.Signals, tmp_path: Path) -> None:
    data, out = make_data(tmp_path, 2), tmp_path / "out"
    options = "--algos bc --env t-maze --seeds 1 --steps 1000000 --evaluate-every 0 --workers 2 --cpus-per-trial 0.5"
    with started(out, "waypost", "compare", "--data", *data, *options.split(), "--out", str(out)) as process:
        begun, said = time.monotonic(), tmp_path / "driver.txt"
        while len(holders(out)) < 2:
            assert time.monotonic() - begun < LONGEST, said.read_text()
            assert process.poll() is None, said.read_text()
            time.sleep(0.2)
        family = descendants(process.pid)
        assert any("raylet" in (file.parent / "cmdline").read_text() for file in family)
        os.killpg(process.pid, number)
        assert process.wait(LONGEST) == 130, said.read_text()
    assert "stopping 2 trainings; each saves before it ends\n" in said.read_text()
    assert said.read_text().endswith("waypost: stopped\n")
    endings = [log.read_text().splitlines()[-1] for log in out.rglob("*.log")]
    assert ["stopped at step" in line for line in endings] == [True, True], endings
    until = time.monotonic() + 20
    while any(file.exists() for file in family) and time.monotonic() < until:
        time.sleep(0.2)
    assert [file for file in family if file.exists()] == []


def test_processes_of_ray_do_not_get_the_signals_of_this_group() -> None:
    services = SimpleNamespace(ConsolePopen=subprocess.Popen)
    with (
        _started_apart(SimpleNamespace(_private=SimpleNamespace(services=services))),
        services.ConsolePopen(["sleep", "60"]) as process,
    ):
        apart = os.getpgid(process.pid) == process.pid
        process.kill()
    assert apart
    assert services.ConsolePopen is subprocess.Popen
    with _started_apart(SimpleNamespace()):
        pass
    real = find_spec("ray")
    assert real is not None
    assert real.origin is not None
    assert "process = ConsolePopen(" in (Path(real.origin).parent / "_private" / "services.py").read_text()


def test_workers_are_waited_for_only_while_they_work(dataset: Dataset, tmp_path: Path) -> None:
    waited: list[float] = []
    trial = Trial(plan("bc", dataset, steps=4), dataset, tmp_path / "run")
    lease = Lease(trial.place)

    class GoneRay:
        """A Ray that reports nothing any more."""

        def cancel(self, reference: str, **options: bool) -> None: ...

        def wait(self, left: list[str], num_returns: int, timeout: float) -> tuple[list[str], list[str]]:
            waited.append(timeout)
            lease.give_back()
            return [], left

    work = _Work(OnRay(2), GoneRay, Callback())
    work.running = {"reference": (trial, 0)}
    work._stop()
    assert waited == []
    assert lease.take()
    work._stop()
    assert waited == [POLL_SECONDS]


@pytest.mark.slow
def test_a_node_is_taken_away_while_it_works(tmp_path: Path) -> None:
    data, out = make_data(tmp_path, 4), tmp_path / "out"
    done = subprocess.run(
        [sys.executable, "-m", "nodes", str(out), json.dumps(data), "1000"],
        env=environment() | {"RAY_AUTH_MODE": "disabled"},
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {"taken away", "all trained"} <= set(done.stdout.splitlines()), done.stdout
    check_against_alone(data, out, 1000)
