"""Every command on a disk that fails: one line, exit code 2, nothing lost, nothing left behind."""

from __future__ import annotations

import errno
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path

import pytest
from bounds import Answer, ask
from command_table import FILE_WRITERS, FOLDER_WRITERS, TABLE, WRITERS
from failing_disk import KINDS, MOUNTS, Calls, failing, file_size_limit, full, no_permission, read_only, small_disk
from leftovers import check_kept, contents, furnished

from waypost.cli.options import COMMANDS

CODES = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT)
ALIKE = ("demo", "adapt")
"""Commands that train by the same code as `train`, and take long: the default run tries them on whole disks only."""
OTHERS = [name for name in WRITERS if name not in ALIKE]
_REHEARSED: dict[str, tuple[Counter[str], dict[str, bytes | None]]] = {}

pytestmark = pytest.mark.usefixtures("cheap")


def run(name: str, out: Path, places: dict[str, Path], again: bool = False) -> Answer:
    return ask(TABLE[name].words(out, places, again))


def rehearsed(name: str, places: dict[str, Path], folder: Path) -> tuple[Counter[str], dict[str, bytes | None]]:
    """How often a command does what, and what it leaves, where nothing fails; it compiles what it needs, too."""
    if name not in _REHEARSED:
        folder.mkdir()
        with Calls(folder).watched() as calls:
            answer = run(name, folder / TABLE[name].out, places)
        assert answer.code == 0, answer.err
        _REHEARSED[name] = calls.counts, contents(folder)
    return _REHEARSED[name]


def test_every_command_is_in_the_table() -> None:
    assert {name.split()[0] for name in TABLE} == {"train", *COMMANDS}
    for name, command in TABLE.items():
        assert command.line.split()[0] == name.split()[0]
    assert {name for name in TABLE if name not in WRITERS} == {"evaluate", "serve", "list", "doctor"}


# -- calls that fail -------------------------------------------------------------------------------


def injected(writers: list[str], every: bool) -> Iterator[object]:
    """Which call of which kind fails how: all of them, or one of each kind for each command."""
    codes, places = itertools.cycle(CODES), itertools.cycle(("first", "last", "middle"))
    for name in writers:
        for kind in KINDS:
            chosen = itertools.product(("first", "middle", "last"), CODES) if every else [(next(places), next(codes))]
            for place, code in chosen:
                yield pytest.param(name, kind, place, code, id=f"{name}-{place} {kind}-{errno.errorcode[code]}")


def fails(name: str, kind: str, place: str, code: int, places: dict[str, Path], disk: Path) -> None:
    counts, _ = rehearsed(name, places, disk.with_name("rehearsal"))
    most = counts[kind]
    if not most:
        # Libraries in C write for themselves: the system's own refusals below reach them.
        assert name.startswith("convert") or kind == "mkdir"
        return
    number = {"first": 1, "middle": (most + 1) // 2, "last": most}[place]
    before = contents(disk)
    with Calls(disk, failing(kind, number, code)).watched():
        answer = run(name, disk / TABLE[name].out, places)
    answer.refuses(disk / TABLE[name].out)
    check_kept(before, disk)


@pytest.mark.parametrize(("name", "kind", "place", "code"), [*injected(OTHERS, every=False)])
def test_a_call_that_fails(name: str, kind: str, place: str, code: int, places: dict[str, Path], disk: Path) -> None:
    fails(name, kind, place, code, places, disk)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind", "place", "code"), [*injected(WRITERS, every=True)])
def test_every_call_that_fails(
    name: str, kind: str, place: str, code: int, places: dict[str, Path], disk: Path
) -> None:
    fails(name, kind, place, code, places, disk)


# -- disks that fail -------------------------------------------------------------------------------


@contextmanager
def half_full(folder: Path, need: int) -> Iterator[None]:
    with full(folder, need // 2):
        yield


FAULTS: dict[str, Callable[[Path, int], AbstractContextManager[None]]] = {
    "full disk": lambda folder, need: full(folder, 0),
    "disk that fills up": half_full,
    "read-only disk": lambda folder, need: read_only(folder),
    "no permission": lambda folder, need: no_permission(folder),
    "file size limit": lambda folder, need: file_size_limit(100),
}
"""What happens to the folder a command writes to; the second number is how many bytes it writes."""


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_disk_that_fails(name: str, fault: str, places: dict[str, Path], tmp_path: Path) -> None:
    _, left = rehearsed(name, places, tmp_path / "rehearsal")
    need = sum(len(content or b"") for content in left.values())
    disk = tmp_path / "disk"
    disk.mkdir()
    with ExitStack() as stack:
        stack.enter_context(small_disk(disk) if MOUNTS else nullcontext())
        furnished(disk)
        before = contents(disk)
        with FAULTS[fault](disk, need):
            answer = run(name, disk / TABLE[name].out, places)
        answer.refuses(disk / TABLE[name].out)
        check_kept(before, disk)


@pytest.mark.parametrize("name", FILE_WRITERS)
def test_a_file_that_cannot_be_replaced_stays(name: str, places: dict[str, Path], tmp_path: Path) -> None:
    rehearsed(name, places, tmp_path / "rehearsal")
    disk = tmp_path / "disk"
    disk.mkdir()
    with ExitStack() as stack:
        stack.enter_context(small_disk(disk) if MOUNTS else nullcontext())
        furnished(disk)
        out = disk / TABLE[name].out
        out.write_bytes(b"what was there before")
        before = contents(disk)
        with full(disk, 0):
            run(name, out, places, again=True).refuses(out)
        assert contents(disk) == before


@pytest.mark.parametrize("name", ["train", "compare"])
def test_what_a_full_disk_stopped_goes_on(name: str, places: dict[str, Path], disk: Path) -> None:
    """Nothing in the way of the same command, once there is room."""
    counts, left = rehearsed(name, places, disk.with_name("rehearsal"))
    for kind, number in (("write", counts["write"] // 2), ("rename", 1)):
        with Calls(disk, failing(kind, number, errno.ENOSPC)).watched():
            run(name, disk / TABLE[name].out, places, again=True).refuses(disk / TABLE[name].out)
    assert run(name, disk / TABLE[name].out, places, again=True).code == 0
    assert left.keys() <= contents(disk).keys()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_replica_that_cannot_be_kept(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recording it takes minutes: that it cannot be kept is said before."""
    disk = tmp_path / "disk"
    disk.mkdir()
    monkeypatch.setenv("WAYPOST_DATA", str(disk))
    with ExitStack() as stack:
        stack.enter_context(small_disk(disk) if MOUNTS else nullcontext())
        furnished(disk)
        before = contents(disk)
        with FAULTS[fault](disk, 1 << 20):
            ask(["inspect", "hopper-random"]).refuses(disk)
        check_kept(before, disk)


# -- names that lead nowhere ------------------------------------------------------------------------


@pytest.mark.parametrize("name", WRITERS)
def test_a_name_that_is_too_long(name: str, places: dict[str, Path], disk: Path) -> None:
    before = contents(disk)
    out = disk / ("x" * 300 + TABLE[name].out)
    run(name, out, places).refuses(str(out)[:40])  # the rest may be left out
    check_kept(before, disk)


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_on_the_way(name: str, places: dict[str, Path], disk: Path) -> None:
    before = contents(disk)
    run(name, disk / "notes.txt" / TABLE[name].out, places).refuses(disk / "notes.txt")
    check_kept(before, disk)


@pytest.mark.parametrize("name", WRITERS)
def test_a_link_that_leads_to_itself(name: str, places: dict[str, Path], disk: Path) -> None:
    before = contents(disk)
    (disk / "loop").symlink_to("loop")
    run(name, disk / "loop" / TABLE[name].out, places).refuses(disk / "loop")
    (disk / "loop").unlink()
    check_kept(before, disk)


@pytest.mark.parametrize("name", [*FOLDER_WRITERS, "convert to Minari"])
def test_a_file_where_a_folder_should_be(name: str, places: dict[str, Path], disk: Path) -> None:
    out = disk / TABLE[name].out
    out.write_text("mine")
    before = contents(disk)
    run(name, out, places).refuses(out)
    check_kept(before, disk)


@pytest.mark.parametrize("name", [*FILE_WRITERS, "convert to Minari"])
def test_a_folder_where_a_file_should_be(name: str, places: dict[str, Path], disk: Path) -> None:
    out = disk / TABLE[name].out
    out.mkdir()
    before = contents(disk)
    run(name, out, places, again=True).refuses(out)
    check_kept(before, disk)


@pytest.mark.parametrize("name", FOLDER_WRITERS)
def test_a_folder_in_place_of_one_of_the_files(name: str, places: dict[str, Path], disk: Path) -> None:
    """Each command writes several files; the last of them cannot be."""
    _, left = rehearsed(name, places, disk.with_name("rehearsal"))
    files = [path for path, content in left.items() if content is not None and not path.endswith(".lock")]
    (disk / files[-1]).mkdir(parents=True)
    before = contents(disk)
    run(name, disk / TABLE[name].out, places).refuses(disk / TABLE[name].out)
    check_kept(before, disk)
