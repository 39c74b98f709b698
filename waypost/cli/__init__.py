"""The command line: parse, call the library, print."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import tyro

from waypost.cli import output
from waypost.cli.doctor import Doctor, run_doctor
from waypost.errors import InterruptedRun, WaypostError

_DESCRIPTION = (
    "Offline reinforcement learning: from logged data to a policy that says where to go and how to get there. "
    "`waypost COMMAND --help` explains a command; `waypost --version` shows the version."
)
_STYLE = (tyro.conf.OmitSubcommandPrefixes, tyro.conf.HelptextFromCommentsOff, tyro.conf.SuppressFixed)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point; exits with 2 after an error the user can fix or a failing file, with 130 after an interruption."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with output.streams(), _terminated_as_interrupted():
            code = _run(arguments)
    except InterruptedRun as stop:
        more = "" if arguments[0] in ("compare", "paper", "sweep") else " and --resume"
        code = output.end(f"stopped and saved at step {stop.step}; continue with the same command{more}", 130)
    except KeyboardInterrupt:
        code = output.end("stopped", 130)
    except BrokenPipeError:  # the reader has closed the pipe
        code = 1
    except (WaypostError, OSError, MemoryError, RecursionError, UnicodeError) as error:
        code = output.end(f"error: {output.reason(error)}", 2)
    output.close()
    sys.exit(code)


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM, and SIGHUP when a terminal closes, end a command as Ctrl-C does: nothing half-written is left behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, _terminated)}
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # `nohup` ignores it
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, _hung_up)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _terminated(number: int, frame: FrameType | None) -> None:
    """Stop once: `timeout` sends the signal twice, to the process and to its group."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _hung_up(number: int, frame: FrameType | None) -> None:
    """Stop as after SIGTERM, even if a training handles it now."""
    output.discard_failing()
    signal.raise_signal(signal.SIGTERM)


def _run(arguments: list[str]) -> int:
    try:
        return _dispatch(arguments)
    except SystemExit as stop:  # the parser has printed the help, or the error
        return stop.code if isinstance(stop.code, int) else int(bool(stop.code))


def _dispatch(arguments: list[str]) -> int:
    """Only the requested command is looked at, so that help need not wait for what others import."""
    command = arguments[0] if arguments else ""
    arguments = _with_expressions(arguments)
    if any("\0" in argument for argument in arguments):
        raise WaypostError("an argument holds a NUL character; remove it")
    if command in ("--version", "-V"):
        from importlib.metadata import version

        output.say(f"waypost {version('waypost')}")
        return 0
    if command == "doctor":  # it must work even if the imports of other commands fail
        run_doctor(_parse(Doctor, arguments[1:], "waypost doctor"))
        return 0
    from waypost.cli import options

    if command in options.COMMANDS:
        from waypost.cli import handlers

        asked = _parse(options.COMMANDS[command], arguments[1:], f"waypost {command}")
        return getattr(handlers, f"run_{command}")(asked) or 0
    if command == "train":
        from waypost.agents import ALGORITHMS

        if len(arguments) > 1 and arguments[1] in ALGORITHMS:
            return _train(arguments[1], arguments[2:])
        _parse(options.names({name: each.title for name, each in ALGORITHMS.items()}), arguments[1:], "waypost train")
    titles = {name: str(each.__doc__).splitlines()[0] for name, each in options.COMMANDS.items()}
    known = {"demo": titles["demo"], "train": "Train agents with an algorithm on data.", **titles}
    _parse(options.names(known), arguments, "waypost", description=_DESCRIPTION)
    return 0


def _with_expressions(arguments: list[str]) -> list[str]:
    """The arguments with --reward as one piece: an expression that starts with a minus would be taken for an option."""
    found: list[str] = []
    for argument in arguments:
        if found and found[-1] == "--reward" and not argument.startswith("--"):
            found[-1] = f"--reward={argument}"
        else:
            found.append(argument)
    return found


def _parse(kind: Any, arguments: list[str], name: str, **more: Any) -> Any:
    with output.harmless(arguments):
        return tyro.cli(kind, args=arguments, prog=name, config=_STYLE, **more)


def _train(algorithm: str, arguments: list[str]) -> int:
    """Parse twice: first for the settings to start from, then with these as defaults."""
    from dataclasses import replace
    from pathlib import Path

    from waypost.cli import handlers, options
    from waypost.data.names import short_name
    from waypost.training.plan import continues, plan, read_plan, seeds_from

    with output.harmless(arguments):
        start, _ = tyro.cli(options.Ground, args=arguments, add_help=False, return_unknown_args=True)
    out = start.out or Path("runs") / f"{algorithm}-{short_name(start.data)}"
    place = options.Place()
    if start.resume and (out / "config.json").is_file():
        ground = read_plan(out)
        if ground.algorithm != algorithm:
            was = f"was started with algorithm = {ground.algorithm!r}, got {algorithm!r}"
            raise WaypostError(f"{out}: {was}; use the same or another --out")
        place = options.Place(seeds=len(ground.seeds), first_seed=ground.seeds[0])
    else:
        reading = vars(options.reading_of(start.columns_from))
        init = start.init if continues(start.init, start.training) else None
        ground = plan(algorithm, start.data, env=start.env, preset=start.preset, init=init, **reading)
    kind = options.train_type(algorithm)
    asked = _parse(kind, arguments, f"waypost train {algorithm}", default=kind(plan=ground, place=place))
    place = asked.place
    planned = replace(
        asked.plan,
        task=_named(start.env, ground.task),
        preset=_named(start.preset, ground.preset),
        rewards=ground.rewards if asked.plan.rewards == "task" else asked.plan.rewards,
        seeds=seeds_from(place.seeds, place.first_seed),
        evaluation=asked.evaluation.on_top_of(ground.evaluation),
    )
    handlers.run_train(planned, out, place.resume, place.json, place.track, place.strict)
    return 0


def _named(given: str | None, usual: str | None) -> str | None:
    """A name from the command line; "none" means None."""
    return usual if given is None else None if given == "none" else given
