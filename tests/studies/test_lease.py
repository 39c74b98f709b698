"""Leases: one holder at a time, and none that is dead."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from waypost.errors import DirectoryError
from waypost.studies import lease as leases
from waypost.studies.lease import EXPIRY_SECONDS, Lease, holder_of, lease_file, leased


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "run"


def change(place: Path, **changes: Any) -> None:
    """Make the lease one of another process, another machine, or both."""
    file = lease_file(place)
    file.write_bytes(json.dumps(json.loads(file.read_text()) | changes).encode().ljust(leases.SIZE))


def test_one_holds_it_and_nothing_is_left(place: Path) -> None:
    with leased(place) as lease:
        assert lease is not None
        assert lease.held
        with leased(place) as other:
            assert other is None
        found = holder_of(place)
        assert found is not None
        assert found["pid"] == os.getpid()
    assert holder_of(place) is None
    assert list(place.parent.iterdir()) == []


def test_it_says_how_far_the_work_is(place: Path) -> None:
    with leased(place) as lease:
        assert lease is not None
        lease.is_at(30, 100)
        lease.beat()
        lease.beat()
        found = holder_of(place)
        assert found is not None
        assert (found["step"], found["total"], found["beat"]) == (30, 100, 2)
        assert lease_file(place).stat().st_size == leases.SIZE


def test_a_dead_process_of_this_machine_loses_it_at_once(place: Path) -> None:
    program = "import sys; from pathlib import Path; from waypost.studies.lease import Lease; "
    program += "print(Lease(Path(sys.argv[1])).take())"
    done = subprocess.run([sys.executable, "-c", program, str(place)], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
    assert lease_file(place).is_file()
    assert holder_of(place) is None
    assert Lease(place).take()


def test_another_process_with_the_number_of_a_dead_one_is_not_the_holder(place: Path) -> None:
    assert Lease(place).take()
    change(place, started="1")
    assert Lease(place).take()


@pytest.mark.parametrize("machine", ["another", ""])
def test_of_another_machine_only_time_tells(place: Path, machine: str) -> None:
    first, clock = Lease(place), Clock()
    assert first.take()
    change(place, machine=machine, pid=2**22 + 1)
    second = Lease(place, clock)
    assert not second.take()
    clock.now += EXPIRY_SECONDS
    assert not second.take()
    change(place, beat=7)
    clock.now += 1
    assert not second.take(), "it has just changed"
    clock.now += EXPIRY_SECONDS
    assert not second.take()
    clock.now += 1
    assert second.take()
    assert not first.held
    with pytest.raises(DirectoryError, match="another worker has taken over"):
        first.check()
    first.beat()
    first.give_back()
    assert second.held, "what the first one does changes nothing"
    second.check()


@pytest.mark.parametrize("content", [b"", b"half a le", b'{"token": 3}'])
def test_what_is_no_lease_expires_too(place: Path, content: bytes) -> None:
    lease_file(place).write_bytes(content)
    clock = Clock()
    lease = Lease(place, clock)
    assert holder_of(place) is None
    assert not lease.take()
    clock.now += EXPIRY_SECONDS + 1
    assert lease.take()


def no_links(*_: Any) -> None:
    raise OSError(errno.ENOTSUP, "no links")


@pytest.mark.parametrize("links", [True, False])
def test_of_two_that_see_the_same_expired_lease_one_gets_it(
    place: Path, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not links:
        monkeypatch.setattr(os, "link", no_links)
    assert Lease(place).take()
    change(place, started="1")
    first, second = Lease(place), Lease(place)
    usual = Path.rename

    def late(self: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "rename", usual)
        assert first.take()  # between the second one's look and its rename
        return usual(self, target)

    monkeypatch.setattr(Path, "rename", late)
    assert not second.take()
    assert first.held
    assert [path.name for path in place.parent.iterdir()] == [lease_file(place).name]


def test_a_file_system_without_links_has_leases_too(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", no_links)
    first, second = Lease(place), Lease(place)
    assert first.take()
    assert first.held
    assert not second.take()
    first.give_back()
    assert second.take()


def test_it_is_waited_for_as_long_as_one_wants(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "WAIT_SECONDS", 0.0)
    first, asked = Lease(place), []
    assert first.take()

    def wait() -> bool:
        asked.append(None)
        if len(asked) == 3:
            first.give_back()
        return True

    with leased(place, wait) as lease:
        assert lease is not None
    assert len(asked) == 3


def test_a_thread_keeps_it_alive(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "BEAT_SECONDS", 0.001)
    with leased(place) as lease:
        assert lease is not None
        while lease.holder["beat"] < 3:
            pass


def test_a_disk_that_fails_is_named_and_nothing_is_left(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(os, "write", full)
    for link in (os.link, no_links):
        monkeypatch.setattr(os, "link", link)
        with pytest.raises(OSError, match="no room") as failed:
            Lease(place).take()
        assert failed.value.filename == str(lease_file(place))
        assert list(place.parent.iterdir()) == []
