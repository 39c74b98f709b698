"""One HTML page about a run: complete in a single file, readable without a network."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup
from matplotlib.figure import Figure

from waypost import figures
from waypost.figures import Columns, World
from waypost.statistics import spread, spread_name

DASH = "\N{EN DASH}"
SPACE = "\N{NO-BREAK SPACE}"
LARGEST_SVG = 300_000
"""Bytes above which a picture goes in as PNG."""

MEASURES = {
    "return": "Return",
    "score": "Score",
    "success_rate": "Success rate",
    "episode_length": "Episode length",
}
STATISTICS = {"mean": "Mean", "std": "Standard deviation", "iqm": "Interquartile mean (IQM)"}


@dataclass(frozen=True, eq=False)
class Report:
    """Everything the page shows, as plain data."""

    title: str
    result: Mapping[str, Any]
    """The run's result.json."""
    config: Mapping[str, Any]
    """The run's config.json; its "config" holds the algorithm's fields."""
    field_docs: Mapping[str, str] = field(default_factory=dict)
    """One line about each field of the algorithm."""
    metrics: Columns = field(default_factory=dict)
    """Columns of metrics.csv."""
    evaluations: Columns = field(default_factory=dict)
    """Columns step, seed, return, score, success_rate and episode_length."""
    worlds: Sequence[tuple[str, World]] = ()
    """Maps of a 2-D task, each with the words its captions begin with."""


@dataclass(frozen=True)
class Picture:
    """A figure ready for the page."""

    image: Markup
    caption: str


def template(name: str) -> Template:
    """A page to fill in; what goes into it is escaped."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def render_report(report: Report) -> str:
    """Return the whole page as HTML."""
    result = report.result
    fields = report.config.get("config") or {}
    return template("run.html").render(
        title=report.title,
        summary=summary(report),
        about=[(name, str(result[name])) for name in ("data", "task", "suite") if result.get(name) is not None],
        measures=list(MEASURES.values()),
        seed_rows=_seed_rows(result),
        statistic_rows=_statistic_rows(result),
        maps=[_maps(prefix, world) for prefix, world in report.worlds],
        curve=_curve(report.evaluations),
        metrics=_metrics(report.metrics),
        settings=list(_flatten({name: value for name, value in report.config.items() if name != "config"})),
        fields=[(name, value, _doc(report.field_docs, name)) for name, value in _flatten(fields)],
        seconds=_number(result.get("seconds"), 1),
        versions=[(name, str(version)) for name, version in (result.get("versions") or {}).items()],
    )


def summary(report: Report) -> str:
    """Say in one sentence how the run went, from the best measure there is."""
    result, mean = report.result, report.result.get("mean") or {}
    name = str(result.get("algorithm", "the agent")).upper()
    if _present(mean.get("success_rate")):
        count = _rollouts(report)
        of = f" {count}" if count else " its"
        says = f"{name} reached the goal in {_percent(mean['success_rate'])} of{of} rollouts"
    elif _present(mean.get("score")):
        suite = f" ({result['suite']} suite)" if result.get("suite") else ""
        says = f"{name} reached a mean score of {_number(mean['score'], 1)}{suite}"
    elif _present(mean.get("return")):
        says = f"{name} reached a mean return of {_measure('return', mean['return'])}"
    else:
        says = f"{name} trained without a simulator: no rollouts"
    seeds = len(result.get("per_seed") or ())
    details = [f"{seeds}{SPACE}seed{'' if seeds == 1 else 's'}"] if seeds else []
    if _present(result.get("steps")):
        details.append(f"{_number(result['steps'], 0)}{SPACE}steps")
    if _present(result.get("seconds")):
        details.append(_duration(result["seconds"]))
    return ", ".join([says, *details]) + "."


def _rollouts(report: Report) -> str | None:
    """Count the final rollouts of all seeds, if the evaluation settings tell."""
    evaluation = report.config.get("evaluation")
    each = evaluation.get("episodes") if isinstance(evaluation, Mapping) else None
    return _number(int(each) * len(report.result.get("per_seed") or ()), 0) if each else None


def _present(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and math.isfinite(value)


def _number(value: Any, digits: int) -> str:
    return f"{value:,.{digits}f}".replace(",", SPACE) if _present(value) else DASH


def _percent(value: Any) -> str:
    return f"{_number(100 * value, 1)}{SPACE}%" if _present(value) else DASH


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{_number(seconds, 0 if seconds >= 10 else 1)}{SPACE}s"
    if seconds < 7200:
        return f"{_number(seconds / 60, 0)}{SPACE}min"
    return f"{_number(seconds / 3600, 1)}{SPACE}h"


def _measure(name: str, value: Any) -> str:
    """Write a result with the digits that suit it, or a dash where there is none."""
    if name == "success_rate":
        return _percent(value)
    if name == "return" and _present(value):
        return _number(value, 3 if abs(value) < 10 else 1 if abs(value) < 1000 else 0)
    return _number(value, 1)


def _seed_rows(result: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    return [
        (f"Seed {row.get('seed', DASH)}", [_measure(name, row.get(name)) for name in MEASURES])
        for row in result.get("per_seed") or ()
    ]


def _statistic_rows(result: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    rows = [
        (label, [_measure(name, (result.get(key) or {}).get(name)) for name in MEASURES])
        for key, label in STATISTICS.items()
    ]
    seeds = result.get("per_seed") or ()
    # Not those of the file: older ones have intervals for fewer than five seeds.
    spreads = [_spread(name, spread([row.get(name) for row in seeds])) for name in MEASURES]
    return [*rows, (spread_name(len(seeds)).replace(" %", f"{SPACE}%").capitalize(), spreads)]


def _spread(name: str, bounds: Sequence[Any] | None) -> str:
    if bounds is None or not all(map(_present, bounds)):
        return DASH
    return " to ".join(_measure(name, bound) for bound in bounds)


def _setting(value: Any) -> str:
    """Write a setting as its file has it, so that it can be copied back."""
    if value is None:
        return DASH
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield each setting with a dotted name."""
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _setting(value)


def _doc(docs: Mapping[str, str], name: str) -> str:
    return docs.get(name) or docs.get(name.split(".")[0]) or DASH


def picture(figure: Figure, caption: str, alt: str) -> Picture:
    return embed(figures.to_svg(figure), lambda: figures.to_png(figure), caption, alt)


def embed(svg: str, png: Callable[[], bytes], caption: str, alt: str) -> Picture:
    """A drawing inside the page: as <svg>, or as PNG if that would be too large."""
    if len(svg) <= LARGEST_SVG:
        return Picture(
            Markup('<svg role="img" aria-label="{}"').format(alt) + Markup(svg.removeprefix("<svg")), caption
        )
    source = base64.b64encode(png()).decode()
    return Picture(Markup('<img alt="{}" src="data:image/png;base64,{}">').format(alt, source), caption)


def _maps(prefix: str, world: World) -> list[Picture]:
    """Draw the maps that have something to show: not every algorithm has a value or a guide."""

    def words(text: str) -> str:
        return f"{prefix}: {text}" if prefix else text[0].upper() + text[1:]

    pictures = []
    if np.isfinite(world.value).any():
        low, high = np.nanmin(world.value), np.nanmax(world.value)
        pictures.append(
            picture(
                figures.value_map(world),
                words("value of each position; brighter is better."),
                words(f"map of the value function, from {low:.3g} to {high:.3g}, with walls, start and goal."),
            )
        )
    if len(world.arrow_points):
        pictures.append(
            picture(
                figures.guide_map(world),
                words("direction to the next state the guide names. All arrows have one length; real steps differ."),
                words(f"map of {len(world.arrow_points)} arrows that show where the guide points."),
            )
        )
    if len(world.rollouts):
        reached = f"{sum(map(bool, world.successes))} of {len(world.rollouts)} rollouts reach the goal"
        pictures.append(
            picture(
                figures.rollout_map(world),
                words("paths of the rollouts, darker as time goes."),
                words(f"map of the paths the agent takes; {reached}."),
            )
        )
    return pictures


def _curve(evaluations: Columns) -> Picture | None:
    column = figures.curve_column(evaluations)
    if column is None:
        return None
    seeds = len(np.unique(np.asarray(evaluations["seed"])))
    label = figures.AXIS_LABELS[column]
    spread = f"mean of {seeds} seeds, with their range" if seeds > 1 else "one seed"
    return picture(
        figures.learning_curve(evaluations, column),
        f"Evaluation during training: {label}, {spread}.",
        f"Line chart of {label} against the training step, {spread}.",
    )


def _metrics(metrics: Columns) -> list[Picture]:
    """Draw one figure a metric, so that the page can wrap them to its width."""
    if not len(metrics.get("step", ())):
        return []
    return [
        picture(figures.metric_curves(metrics, [name]), name, f"Line chart of {name} against the training step.")
        for name in figures.metric_names(metrics)
    ]
