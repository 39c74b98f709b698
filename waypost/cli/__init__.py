"""The command line: parse, call the library, print."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import tyro

from waypost.cli import options
from waypost.errors import InterruptedRun, WaypostError

_DESCRIPTION = (
    "Offline reinforcement learning: from logged data to a policy that says where to go and how to get there."
)
_STYLE = (tyro.conf.OmitSubcommandPrefixes, tyro.conf.HelptextFromCommentsOff, tyro.conf.SuppressFixed)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point; exits with 2 after a mistake the user can fix, 130 after an interruption."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _dispatch(arguments)
    except WaypostError as error:
        print(f"waypost: error: {' '.join(str(error).split())}", file=sys.stderr)
        code = 2
    except InterruptedRun as stop:
        more = "" if arguments[0] in ("compare", "paper") else " and --resume"
        print(f"waypost: stopped and saved at step {stop.step}; continue with the same command{more}", file=sys.stderr)
        code = 130
    except KeyboardInterrupt:
        print("waypost: stopped", file=sys.stderr)
        code = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)


def _dispatch(arguments: list[str]) -> int:
    """Only the command that is asked for is looked at, so that help need not wait for what others import."""
    command = arguments[0] if arguments else ""
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
    known = {"demo": titles["demo"], "train": "Train agents of an algorithm on data.", **titles}
    _parse(options.names(known), arguments, "waypost", description=_DESCRIPTION)
    return 0


def _parse(kind: Any, arguments: list[str], name: str, **more: Any) -> Any:
    return tyro.cli(kind, args=arguments, prog=name, config=_STYLE, **more)


def _train(algorithm: str, arguments: list[str]) -> int:
    """Two readings of the line: the first says which settings to start from, the second puts the line's on top."""
    from dataclasses import replace
    from pathlib import Path

    from waypost.cli import handlers
    from waypost.training.plan import plan, read_plan

    start, _ = tyro.cli(options.Ground, args=arguments, add_help=False, return_unknown_args=True)
    out = start.out or Path("runs") / f"{algorithm}-{Path(start.data).stem}"
    place = options.Place()
    if start.resume and (out / "config.json").is_file():
        ground = read_plan(out)
        place = options.Place(seeds=len(ground.seeds), first_seed=ground.seeds[0])
    else:
        ground = plan(algorithm, start.data, env=start.env, preset=start.preset)
    kind = options.train_type(algorithm)
    asked = _parse(kind, arguments, f"waypost train {algorithm}", default=kind(plan=ground, place=place))
    place = asked.place
    planned = replace(
        asked.plan,
        task=_named(start.env, ground.task),
        preset=_named(start.preset, ground.preset),
        rewards=ground.rewards if asked.plan.rewards == "task" else asked.plan.rewards,
        seeds=tuple(range(place.first_seed, place.first_seed + place.seeds)),
        evaluation=asked.evaluation.on_top_of(ground.evaluation),
    )
    handlers.run_train(planned, out, place.resume, place.json)
    return 0


def _named(given: str | None, usual: str | None) -> str | None:
    """What a name on the line means: none is none at all."""
    return usual if given is None else None if given == "none" else given
