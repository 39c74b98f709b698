"""What reaches a terminal, and how a command ends when something fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.table import Table

from waypost.cli import main, output
from waypost.cli.handlers import _print_json
from waypost.cli.output import reason
from waypost.console.screen import Screen, counting_bar, plain
from waypost.errors import WaypostError
from waypost.files import write_text

ODD = "a[/red]b\x1b[31mc\x07\u202ed\udc80:smile:"
SHOWN = r"a[/red]b\x1b[31mc\x07\u202ed\udc80:smile:"


def ended(capfd: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    return int(stop.value.code or 0), *capfd.readouterr()


# -- names -----------------------------------------------------------------------------------------------


def test_control_characters_are_written_out() -> None:
    assert plain(ODD) == SHOWN
    assert plain("a\r\nb\tc\x85\u2028") == r"a\r\nb\tc\x85\u2028"
    assert plain("a\nb\r", kept="\n") == "a\nb\\r"
    assert plain("Grüße, 你好 👩‍🚀") == "Grüße, 你好 👩‍🚀"


def test_a_console_shows_names_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("name", title=ODD)
    table.add_row(ODD)
    console = Screen(stderr=True)
    console.print(ODD, table)
    console.tell(f"{ODD}\nx")
    shown = capsys.readouterr().err
    assert shown.count(SHOWN) == 4
    assert SHOWN + r"\nx" in shown
    assert not set(shown) & {"\x1b", "\x07", "\u202e", "\udc80"}


def test_a_bar_shows_its_title_as_it_is(capfd: pytest.CaptureFixture[str]) -> None:
    with counting_bar("[/red]") as count:
        count(1, 2)
    assert "[/red]" in capfd.readouterr().err


def test_the_parser_repeats_no_control_characters(capfd: pytest.CaptureFixture[str]) -> None:
    for arguments in (["\x1b[31mx"], ["list", "--\x1b[31mx"], ["train", "\x1b[31mx"]):
        code, _, err = ended(capfd, *arguments)
        assert code == 2
        assert "\x1b[31m" not in err
        assert r"\x1b[31mx" in err


def test_a_nul_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    code, _, err = ended(capfd, "inspect", "a\0b")
    assert (code, err) == (2, "waypost: error: an argument holds a NUL character; remove it\n")


def test_a_name_that_is_no_text_is_told_in_ascii(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / os.fsdecode(b"\xff[/red]\x1b.npz")
    code, _, err = ended(capfd, "convert", "t-maze", out)
    assert code == 0
    assert err.strip().endswith(r"\udcff[/red]\x1b.npz")
    code, said, _ = ended(capfd, "inspect", out, "--json")
    assert code == 0
    assert json.loads(said)["name"].endswith("\udcff[/red]\x1b.npz")
    write_text(tmp_path / "page.html", str(out))
    assert (tmp_path / "page.html").read_text("utf-8").endswith("\\udcff[/red]\x1b.npz")


def test_json_has_only_numbers_it_knows(capfd: pytest.CaptureFixture[str]) -> None:
    _print_json(True, {"a": [float("nan"), (1.5, float("inf"))], "b": "\udc80"})
    assert capfd.readouterr().out == '{"a": [null, [1.5, null]], "b": "\\udc80"}\n'


# -- errors ----------------------------------------------------------------------------------------------


def noted(error: BaseException, *notes: str) -> BaseException:
    for note in notes:
        error.add_note(note)
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(28, "No space left on device", "runs/a"), "runs/a: No space left on device"),
        (OSError(28, "No space left on device", b"runs/a"), "runs/a: No space left on device"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (
            noted(OSError(30, "Read-only file system", "a"), "step 5 is kept"),
            "a: Read-only file system; step 5 is kept",
        ),
        (noted(WaypostError("wrong"), "one", "two"), "wrong; one; two"),
        (MemoryError(), "out of memory"),
        (RecursionError("maximum recursion depth exceeded"), "something is nested too deeply to be read"),
        (UnicodeEncodeError("utf-8", "\udc80", 0, 1, "surrogates not allowed"), "surrogates not allowed"),
    ],
)
def test_every_failure_is_one_line_and_exit_code_2(
    error: BaseException, words: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr("waypost.cli.handlers.run_list", fail)
    assert words in reason(error)
    code, out, err = ended(capfd, "list")
    assert (code, out) == (2, "")
    assert err == f"waypost: error: {reason(error)}\n"


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [(KeyboardInterrupt(), 130, "waypost: stopped\n"), (BrokenPipeError(32, "Broken pipe"), 1, "")],
)
def test_interruptions_and_closed_pipes_keep_their_meaning(
    error: BaseException, code: int, words: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(_: object) -> None:
        raise error

    monkeypatch.setattr("waypost.cli.handlers.run_list", stop)
    assert ended(capfd, "list") == (code, "", words)


def test_a_closed_terminal_does_not_fail(capfd: pytest.CaptureFixture[str]) -> None:
    kept, (terminal, end) = os.dup(2), os.openpty()
    try:
        os.dup2(end, 2)
        os.close(terminal)
        with pytest.raises(OSError, match="Input/output error"):
            os.write(2, b"lost")
        output.discard_failing()
        assert os.write(2, b"lost") == 4
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(end)
    output.discard_failing()
    os.write(2, b"seen")
    assert capfd.readouterr().err == "seen"


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("waypost.cli.handlers.run_list", bug)
    with pytest.raises(ZeroDivisionError):
        main(["list"])


# -- streams that fail --------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
@pytest.mark.parametrize(
    ("redirection", "code", "words"),
    [
        (">/dev/full", 2, "waypost: error: standard output: No space left on device"),
        (">&-", 2, "waypost: error: standard output: Bad file descriptor"),
    ],
)
def test_a_stream_that_cannot_be_written_to_ends_in_one_line(redirection: str, code: int, words: str) -> None:
    line = f'exec "$0" -m waypost list --json {redirection}'
    done = subprocess.run(["sh", "-c", line, sys.executable], capture_output=True, text=True)
    assert (done.returncode, done.stderr.strip()) == (code, words)


def test_output_without_anyone_to_read_it_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(OSError, match="standard output"), output.streams():
        output.say("x")
    closed: Any = sys.stdout
    closed.place.close()
