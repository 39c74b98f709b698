"""What pages take from the code and from results: `{{ NAME }}` on a line of its own becomes Markdown.

    {{ api }}            every public name of `waypost`, from its docstring
    {{ commands }}       every command with its options, from the parsers of the command line
    {{ settings }}       every setting of every algorithm, from the dataclasses and the presets
    {{ algorithms }}     the algorithms by name, from the catalogue
    {{ results PATH }}   a table of the trainings in a folder that `waypost paper table1 --results PATH` wrote; a name
                         after it leaves one algorithm
    {{ curves PATH }}    a table of POR's and IQL's evaluations in such a folder
    {{ arrivals PATH }}  a table of evaluations, from folders with an evaluations.csv of several seeds

Nothing here is kept in the repository, so it cannot drift.
"""

from __future__ import annotations

import csv
import inspect
import json
import re
import warnings
from argparse import Action, ArgumentParser
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, Field, fields
from pathlib import Path
from statistics import mean
from typing import Any

import tyro
from sphinx.application import Sphinx

import waypost
from waypost.agents import ALGORITHMS
from waypost.cli import _STYLE, options
from waypost.report.run import field_docs
from waypost.studies.paper.benchmark import DATA, NAMES, TABLE_1
from waypost.studies.paper.scores import with_spread
from waypost.training import presets
from waypost.training.plan import plan

ROOT = Path(__file__).parents[2]
REPOSITORY = "https://github.com/waypost-rl/waypost"
LOG_GROUPS = ("columns options", "pipeline options")
"""Groups of options that several commands have: how a log is read."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 0) -> str:
    """A Markdown table whose last `numbers` columns are aligned to the right."""
    left = len(head) - numbers
    lines = [head, ["---"] * left + ["---:"] * numbers, *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def plain(text: str) -> str:
    """Text in which Markdown sees nothing but code in backticks."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([*_<>\[\]|$])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


# -- the API --------------------------------------------------------------------------------------


TABLES = {
    "ALGORITHMS": "The algorithms by name: what each is, and what data it can learn from.",
    "TASKS": "The tasks by name: environment, reward convention, protocol of evaluation, and scores.",
}
"""Public names that are neither functions nor classes, and so have no docstring."""


def api() -> str:
    kinds: dict[str, list[str]] = {"Functions": [], "Classes": [], "Errors": [], "Tables": []}
    for name in sorted(waypost.__all__, key=str.lower):
        thing = getattr(waypost, name)
        if inspect.isclass(thing):
            error = issubclass(thing, Exception)
            kinds["Errors" if error else "Classes"].append(f".. autoclass:: waypost.{name}")
        elif callable(thing):
            kinds["Functions"].append(f".. autofunction:: waypost.{name}")
        else:
            kinds["Tables"].append(f".. py:data:: waypost.{name}\n\n   {TABLES[name]}")
    parts = []
    for title, directives in kinds.items():
        parts += [f"## {title}\n", *(f"```{{eval-rst}}\n{each}\n```\n" for each in directives)]
    return "\n".join(parts)


# -- commands -------------------------------------------------------------------------------------


def parser_of(command: str) -> ArgumentParser:
    """The parser of a command; that of `train` has POR's settings among its options."""
    more: dict[str, Any] = {}
    if command == "train":
        kind = options.train_type("por")
        more = {"default": kind(plan=plan("por", "four-rooms"), place=options.Place())}
    else:
        kind = options.COMMANDS[command]
    with warnings.catch_warnings():  # deprecated, and the only way to look at a parser without printing it
        warnings.simplefilter("ignore", DeprecationWarning)
        return tyro.extras.get_parser(kind, prog=f"waypost {command}", config=_STYLE, **more)


def commands() -> str:
    parts, shared = [], ""
    settings = {f"--{each.name.replace('_', '-')}" for each in fields(ALGORITHMS["por"].config_type)}
    for command in ("train", *options.COMMANDS):
        parser = parser_of(command)
        groups = {str(group.title): group for group in parser._action_groups}
        described = "Train agents with an algorithm on data." if command == "train" else str(parser.description)
        first, _, rest = described.partition("\n")
        parts.append(f"## `waypost {command}`\n\n{plain(first)} {plain(' '.join(rest.split()))}\n")
        if command == "train":
            parts.append("`waypost train ALGORITHM`, with the [settings of the algorithm](settings.md) as options.\n")
        own = [action for title, group in groups.items() if title not in LOG_GROUPS for action in group._group_actions]
        parts += [_option(each) for each in own if not settings & set(each.option_strings) or command != "train"]
        if LOG_GROUPS[0] in groups:
            parts.append("Also: [how a log is read](#how-a-log-is-read).\n")
            shared = "\n".join(_option(each) for title in LOG_GROUPS for each in groups[title]._group_actions)
    also = "`train`, `compare`, `adapt`, `diagnose`, `judge`, `inspect` and `convert` have these options too."
    return "\n".join([*parts, f"## How a log is read\n\n{also}\n", shared])


def _option(action: Action) -> str:
    """An option as a term and its meaning."""
    if "--help" in action.option_strings:
        return ""
    text = re.sub(r" \((default: (None|False)?|required)\)$", "", str(action.help))
    if "by default" in text or "the task's;" in text:  # the data decide: the parser shows those of one data set
        text = re.sub(r" \(default: [^)]*\)$", "", text)
    values = str(action.metavar or "").replace("{None}|", "").replace("{None,", "{")
    values = re.sub(r"^\[?(\S+) \[\1 \.\.\.\]\]?$", r"\1 ...", values)
    term = " ".join(filter(None, [", ".join(action.option_strings), values]))
    return f"`{term}`\n: {plain(text)}\n"


# -- settings -------------------------------------------------------------------------------------


def settings() -> str:
    parts = []
    for name, entry in ALGORITHMS.items():
        config, docs = entry.config_type, field_docs(entry.config_type)
        parts.append(f"## `{name}`\n\n{plain(entry.title[0].upper() + entry.title[1:])}.\n")
        known = {preset: presets.find(name, config, preset, "")[2] for preset in presets.names(name)}
        for each in fields(config):
            used: dict[str, list[str]] = {}
            for preset, chosen in known.items():
                if each.name in chosen and chosen[each.name] != _default(each):
                    used.setdefault(_value(chosen[each.name]), []).append(f"`{preset}`")
            own = "; ".join(f"`{value}` in {_listed(names)}" for value, names in used.items())
            head = f"`{each.name}`: {_kind(each)}, default `{_value(_default(each))}`"
            parts.append(f"{head}\n: {plain(docs.get(each.name, ''))}{f' Presets: {own}.' if own else ''}\n")
    return "\n".join(parts)


def _default(field: Field[Any]) -> Any:
    return field.default if field.default is not MISSING else field.default_factory()  # type: ignore[misc]


def _kind(field: Field[Any]) -> str:
    kind = str(field.type)
    choices = re.fullmatch(r"Literal\[(.*)\]", kind)
    if choices:
        return " or ".join(f"`{word.strip()[1:-1]}`" for word in choices[1].split(","))
    plain_words = {
        "tuple[int, ...]": "whole numbers",
        "int": "whole number",
        "float": "number",
        "bool": "true or false",
    }
    more = {"Standardise": "`true`, `false` or `robust`", "Weighing": "`plain` or `standardised`"}
    return (plain_words | more).get(kind, f"`{kind}`")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return " ".join(map(str, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _listed(names: list[str]) -> str:
    return ", ".join(names) if len(names) < 5 else f"{', '.join(names[:3])} and {len(names) - 3} more"


def algorithms() -> str:
    rows = []
    for name, entry in ALGORITHMS.items():
        actions = [kind for kind in ("continuous", "discrete") if getattr(entry, kind)]
        # What learns either kind does so by likelihood, which mixed actions have, too.
        actions += ["mixed"] if len(actions) == 2 else []
        needs = " and ".join(sorted(entry.needs))
        rows.append((f"`{name}`", plain(entry.title), needs, ", ".join(actions)))
    return table(("name", "what it is", "data must have", "actions"), rows)


# -- results --------------------------------------------------------------------------------------


def finished(folder: Path) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The trainings with a score in a folder of results, by data set and algorithm, seed by seed."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    files = sorted(folder.glob("*/*/*.json"), key=lambda file: (file.parts[-3:-1], int(file.stem)))
    for file in files:
        record = json.loads(file.read_text())
        if "final" in record:
            found.setdefault((file.parts[-3], file.parts[-2]), []).append(record)
    return found


def scores(folder: Path) -> dict[tuple[str, str], list[float]]:
    """Their final scores."""
    return {key: [each["final"]["score"] for each in records] for key, records in finished(folder).items()}


def cell(values: Sequence[float]) -> str:
    """The mean and the range of the seeds; a star for one seed, a dash for none."""
    return with_spread(values) if values else "-"


def results(path: str, only: str = "") -> str:
    """The scores of a folder of results: a row for each data set, a column for each algorithm; or those of one."""
    found = scores(ROOT / path)
    data = [name for name in DATA if any(where == name for where, _ in found)]
    if only:
        kept = [(name, found[name, only]) for name in data if (name, only) in found]
        rows = [(name, cell(values), ", ".join(f"{value:.1f}" for value in values)) for name, values in kept]
        return table(("data", "mean", "seeds"), rows, 2)
    # A page cuts the table on the right, so the methods that it is about come first.
    names = sorted(NAMES, key=("waypoint", "por", *NAMES).index)
    columns = [name for name in names if any(algorithm == name for _, algorithm in found)]
    # A range stays on one line in the narrow columns of a page.
    texts = {key: cell(values).replace(" to ", "&nbsp;to&nbsp;") for key, values in found.items()}
    body = [(name, *(texts.get((name, each), "-") for each in columns)) for name in data]
    return table(("data", *(NAMES[name] for name in columns)), body, len(columns))


def curves(path: str) -> str:
    """The scores of POR and IQL half-way and at the end, where both are trained; means over the seeds."""
    found, names = finished(ROOT / path), ("por", "iql")
    rows = []
    for data in (name for name in DATA if all((name, each) in found for each in names)):
        halves = []
        for each in names:
            by_seed = [[row["score"] for row in record["evaluations"]] for record in found[data, each]]
            halves += [
                f"{mean(row[len(row) // 2 - 1] for row in by_seed):.1f}",
                f"{mean(row[-1] for row in by_seed):.1f}",
            ]
        paper = (f"{TABLE_1[data][NAMES[each]].mean:.1f}" for each in names)
        rows.append((data, *halves, *paper))
    head = ("data", "POR half-way", "POR end", "IQL half-way", "IQL end", "paper: POR", "paper: IQL")
    return table(head, rows, len(head) - 1)


def arrivals(path: str) -> str:
    """Percent of the rollouts that arrive after so many updates, seed by seed."""
    rows: dict[str, dict[int, list[str]]] = {}
    for file in sorted((ROOT / path).glob("*/*.csv")):
        moments = rows.setdefault(file.parent.name, {})
        for row in csv.DictReader(file.read_text().splitlines()):
            moments.setdefault(int(row["step"]), []).append(f"{100 * float(row['success_rate']):.0f}")
    steps = sorted({step for moments in rows.values() for step in moments})
    body = [(data, *(", ".join(moments.get(step, [])) for step in steps)) for data, moments in rows.items()]
    return table(("data", *(f"{step:,}".replace(",", " ") for step in steps)), body, len(steps))


MAKERS: dict[str, Callable[..., str]] = {
    "api": api,
    "commands": commands,
    "settings": settings,
    "algorithms": algorithms,
    "results": results,
    "curves": curves,
    "arrivals": arrivals,
}


def fill(text: str) -> str:
    """A page with everything generated in its place."""

    def made(match: re.Match[str]) -> str:
        name, *arguments = match[1].split()
        return MAKERS[name](*arguments)

    return re.sub(r"^\{\{ (.+) \}\}$", made, text, flags=re.MULTILINE)


def outward(text: str, folder: Path) -> str:
    """A page of that folder with links to files outside of docs/ leading to the repository."""

    def led(match: re.Match[str]) -> str:
        file = (folder / match[1]).resolve()
        inside = file.is_relative_to(ROOT / "docs") or not file.is_relative_to(ROOT) or not file.exists()
        return match[0] if inside else f"]({REPOSITORY}/blob/main/{file.relative_to(ROOT)}"

    return re.sub(r"\]\(((?:\.\./)+[^)#]+)", led, text)


def _read(app: Sphinx, page: str, source: list[str]) -> None:
    source[0] = outward(fill(source[0]), (ROOT / "docs" / page).parent)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
