"""Work in other processes: the order kept, mistakes passed on, nobody left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from waypost.errors import WaypostError
from waypost.recording.workers import sharing


@pytest.fixture
def function(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parent), *sys.path])
    return "squaring:square"


def numbers(*values: int) -> Iterator[dict[str, Any]]:
    return ({"number": value, "seconds": 0.2 if value == 0 else 0.0} for value in values)


@pytest.mark.parametrize("count", [1, 3])
def test_answers_come_in_the_order_of_the_requests(function: str, count: int) -> None:
    with sharing(function, count) as run:
        answers = [(request["number"], int(rows["square"][0])) for request, rows in run(numbers(*range(9)))]
    assert answers == [(n, n**2) for n in range(9)]


def test_several_processes_work_and_none_is_this_one(function: str) -> None:
    with sharing(function, 2) as run:
        processes = {int(rows["process"][0]) for _, rows in run({"number": 1, "seconds": 0.1} for _ in range(6))}
    assert len(processes) == 2
    assert os.getpid() not in processes
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


@pytest.mark.parametrize("count", [1, 2])
def test_requests_are_made_no_sooner_than_needed(function: str, count: int) -> None:
    made: list[int] = []

    def requests() -> Iterator[dict[str, Any]]:
        for number in range(100):
            made.append(number)
            yield {"number": number % 13}

    with sharing(function, count) as run:
        answers = run(requests())
        next(answers)
        assert len(made) <= 2 * count + 1


@pytest.mark.parametrize("count", [1, 2])
def test_mistakes_are_raised_here(function: str, count: int) -> None:
    with pytest.raises(WaypostError, match="13 is not a number to square"), sharing(function, count) as run:
        list(run(numbers(1, 13, 2)))


def test_a_worker_that_always_dies_is_reported(function: str) -> None:
    with pytest.raises(WaypostError, match="ended unexpectedly, twice"), sharing(function, 2) as run:
        list(run(numbers(1, 99)))


def test_what_a_killed_worker_did_is_done_again(function: str) -> None:
    """Killed while it works, and while it waits for work."""
    found: list[int] = []
    processes: set[int] = set()
    with sharing(function, 2) as run:
        for request, rows in run({"number": number, "seconds": 0.05} for number in range(12)):
            found.append(int(rows["square"][0]))
            process = int(rows["process"][0])
            processes.add(process)
            if request["number"] in (2, 6):
                os.kill(process, signal.SIGKILL)
    assert found == [number**2 for number in range(12)]
    assert len(processes) >= 3
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def test_a_recording_process_does_not_need_jax() -> None:
    program = "import sys, waypost.recording.replicas; print([m for m in ('jax', 'mujoco') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_interruption_ends_the_workers() -> None:
    program = (
        # Tests in the background of a shell begin with interruptions ignored.
        "import signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from waypost.recording import replicas\n"
        "replicas.UNIT = 200\n"
        "print('begun', flush=True)\n"
        "replicas.collect('hopper-medium', 1_000_000, workers=2, progress=lambda *_: print('more', flush=True))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert [process.stdout.readline().strip() for _ in range(2)] == ["begun", "more"]
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert "KeyboardInterrupt" in errors
    assert errors.count("Traceback") == 1, "only the parent speaks"
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
