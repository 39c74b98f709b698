"""The HTML page of a run: a single file, readable without a network."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from waypost.agents import display_name
from waypost.figures import AXIS_LABELS, curves, maps, to_png, to_svg
from waypost.figures.curves import Table
from waypost.figures.maps import World
from waypost.statistics import spread, spread_name

if TYPE_CHECKING:
    from waypost.report.log import LogSection
    from waypost.report.verdict import Verdict

DASH = "\N{EN DASH}"
SPACE = "\N{NO-BREAK SPACE}"
LARGEST_SVG = 300_000
"""Bytes above which a figure is embedded as PNG."""

_FOLDER = FileSystemLoader(Path(__file__).parent)
_PAGES = Environment(loader=_FOLDER, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
template = _PAGES.get_template
"""A page template by name; values are escaped."""
MEASURES = ("return", "score", "success_rate", "episode_length")
EVALUATION = "Final evaluation of each seed, and over seeds."
LOSSES = "There was no simulator: the last losses of each seed. A low loss means a good fit, not a good policy."
HELD_OUT = "held_out_"
"""Prefix of losses on held-out episodes."""
STATISTICS = {"mean": "Mean", "std": "Standard deviation", "iqm": "Interquartile mean (IQM)"}


@dataclass(frozen=True, eq=False)
class Report:
    """Everything on the page, as plain data."""

    title: str
    result: Mapping[str, Any]
    """The run's result.json."""
    config: Mapping[str, Any]
    """The run's config.json; its "config" holds the algorithm's settings."""
    field_docs: Mapping[str, str] = field(default_factory=dict)
    """One line about each setting of the algorithm."""
    metrics: Table = field(default_factory=dict)
    """Columns of metrics.csv."""
    evaluations: Table = field(default_factory=dict)
    """Columns step, seed, return, score, success_rate and episode_length."""
    names: Sequence[tuple[str, str]] = ()
    """Names of the observation and action columns, if known."""
    worlds: Sequence[tuple[str, World]] = ()
    """Maps of a 2-D task, each with a prefix for its captions."""
    log: LogSection | None = None
    """The policy compared with the log, if there was no simulator."""
    verdict: Verdict | None = None
    """The estimated values of the policies, if there was no simulator."""


@dataclass(frozen=True)
class Picture:
    """A figure ready for the page."""

    image: Markup
    caption: str


def render_report(report: Report) -> str:
    """Return the whole page as HTML."""
    result, docs, settings = report.result, report.field_docs, dict(report.config)
    fields = _flatten(settings.pop("config", None) or {})
    losses = {} if result.get("task") is not None else _last_losses(report.metrics)
    pairs = [name for name in report.metrics if f"{HELD_OUT}{name}" in report.metrics]
    shown_above = {*pairs, *(f"{HELD_OUT}{name}" for name in pairs)}
    others = {name: column for name, column in report.metrics.items() if name not in shown_above}
    known = result.get("task") is not None or any(map(_present, (result.get("mean") or {}).values()))
    seed_rows = [_row(f"Seed {row.get('seed', DASH)}", row) for row in result.get("per_seed") or ()]
    statistic_rows = [*(_row(label, result.get(key) or {}) for key, label in STATISTICS.items()), _spread(result)]
    return template("run.html").render(
        title=report.title,
        summary=summary(report),
        about=[
            *((name, str(result[name])) for name in ("data", "task", "suite") if result.get(name) is not None),
            *((side, words) for side, words in report.names if words),
        ],
        measures=list(losses) or MEASURES,
        alarms=[(f"step {each['step']}, seed {each['seed']}", each["text"]) for each in result.get("alarms") or ()],
        result_caption=LOSSES if losses else EVALUATION,
        seed_rows=_loss_rows(losses, report.metrics) if losses else seed_rows if known else [],
        statistic_rows=[] if losses else statistic_rows,
        stopped=_stopped(result),
        verdict=report.verdict,
        log=report.log,
        maps=[_maps(prefix, world) for prefix, world in report.worlds],
        curve=_curve(report.evaluations),
        losses=[_loss(report.metrics, name, result) for name in pairs],
        metrics=_metrics(others),
        settings=list(_flatten(settings)),
        fields=[(name, value, docs.get(name) or docs.get(name.split(".")[0]) or DASH) for name, value in fields],
        seconds=_number(result.get("seconds"), 1),
        versions=[(name, str(version)) for name, version in (result.get("versions") or {}).items()],
    )


def _last_losses(metrics: Table) -> dict[str, dict[Any, float]]:
    """Each seed's last value of every loss, with those on held-out episodes beside the others."""
    found: dict[str, dict[Any, float]] = {}
    for name in (name for name in metrics if name.endswith("_loss")):
        pairs = zip(metrics["seed"], np.asarray(metrics[name], float), strict=True)
        found[name] = {seed: value for seed, value in pairs if _present(value)}
    return {name: values for name, values in found.items() if values}


def _loss_rows(losses: Mapping[str, Mapping[Any, float]], metrics: Table) -> list[tuple[str, list[str]]]:
    def cell(value: float | None) -> str:
        return DASH if value is None else f"{value:.4g}"

    seeds = dict.fromkeys(metrics["seed"])
    return [(f"Seed {seed:g}", [cell(each.get(seed)) for each in losses.values()]) for seed in seeds]


def summary(report: Report) -> str:
    """One sentence about the result, from the best measure available."""
    result, mean = report.result, report.result.get("mean") or {}
    name = display_name(str(result.get("algorithm", "the agent")))
    seeds = len(result.get("per_seed") or ())
    if _present(mean.get("success_rate")):
        evaluation = report.config.get("evaluation")
        each = evaluation.get("episodes") if isinstance(evaluation, Mapping) else None
        count = _number(int(each) * seeds, 0) if each else "its"
        says = f"{name} reached the goal in {_measure('success_rate', mean['success_rate'])} of {count} rollouts"
    elif _present(mean.get("score")):
        suite = f" ({result['suite']} suite)" if result.get("suite") else ""
        says = f"{name} reached a mean score of {_number(mean['score'], 1)}{suite}"
    elif _present(mean.get("return")):
        says = f"{name} reached a mean return of {_measure('return', mean['return'])}"
    else:
        says = f"{name} trained without a simulator: no rollouts"
    details = [f"{seeds}{SPACE}seed{'' if seeds == 1 else 's'}"] if seeds else []
    steps = (result.get("stopped") or result).get("step", result.get("steps"))
    details += [f"{_number(steps, 0)}{SPACE}steps"] if _present(steps) else []
    details += [_duration(result["seconds"])] if _present(result.get("seconds")) else []
    return ", ".join([says, *details]) + "."


def _present(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and math.isfinite(value)


def _number(value: Any, digits: int) -> str:
    return f"{value:,.{digits}f}".replace(",", SPACE) if _present(value) else DASH


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{_number(seconds, 0 if seconds >= 10 else 1)}{SPACE}s"
    if seconds < 7200:
        return f"{_number(seconds / 60, 0)}{SPACE}min"
    return f"{_number(seconds / 3600, 1)}{SPACE}h"


def _measure(name: str, value: Any) -> str:
    """A result, or the two ends of its interval, with suitable digits; a dash if there is none."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " to ".join(_measure(name, bound) for bound in value) if all(map(_present, value)) else DASH
    if not _present(value):
        return DASH
    if name == "success_rate":
        return f"{_number(100 * value, 1)}{SPACE}%"
    return _number(value, 1 if name != "return" else 3 if abs(value) < 10 else 1 if abs(value) < 1000 else 0)


def _spread(result: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Computed here, not read from the file: older files have intervals for fewer than five seeds."""
    seeds = result.get("per_seed") or ()
    name = spread_name(len(seeds)).replace(" %", f"{SPACE}%").capitalize()
    return _row(name, {measure: spread([row.get(measure) for row in seeds]) for measure in MEASURES})


def _row(label: str, values: Mapping[str, Any]) -> tuple[str, list[str]]:
    return label, [_measure(name, values.get(name)) for name in MEASURES]


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield each setting with a dotted name, written as in its file, so that it can be copied back."""
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{prefix}{name}.")
        elif isinstance(value, str):
            yield f"{prefix}{name}", value
        else:
            yield f"{prefix}{name}", DASH if value is None else json.dumps(value, ensure_ascii=False, default=str)


def picture(figure: Figure, caption: str, alt: str) -> Picture:
    return embed(to_svg(figure), lambda: to_png(figure), caption, alt)


def embed(svg: str, png: Callable[[], bytes], caption: str, alt: str) -> Picture:
    """A figure for the page: as <svg>, or as PNG if that would be too large."""
    if len(svg) <= LARGEST_SVG:
        opening = Markup('<svg role="img" aria-label="{}"').format(alt)
        return Picture(opening + Markup(svg.removeprefix("<svg")), caption)
    source = base64.b64encode(png()).decode()
    return Picture(Markup('<img alt="{}" src="data:image/png;base64,{}">').format(alt, source), caption)


def _maps(prefix: str, world: World) -> list[Picture]:
    """Draw the maps that the algorithm has: not every one has a value or a guide."""
    shown: list[tuple[Callable[[World], Figure], str, str]] = []
    if np.isfinite(world.value).any():
        span = f"from {np.nanmin(world.value):.3g} to {np.nanmax(world.value):.3g}"
        alt = f"map of the value function, {span}, with walls, start and goal."
        shown.append((maps.value_map, "value of each position; brighter is better.", alt))
    if len(world.arrow_points):
        caption = "direction to the guide's next state. All arrows have the same length; real steps differ."
        alt = f"map of {len(world.arrow_points)} arrows that show where the guide points."
        shown.append((maps.guide_map, caption, alt))
    if len(world.rollouts):
        reached = f"{sum(map(bool, world.successes))} of {len(world.rollouts)} rollouts reach the goal"
        alt = f"map of the paths the agent takes; {reached}."
        shown.append((maps.rollout_map, "paths of the rollouts, darker over time.", alt))

    def words(text: str) -> str:
        return f"{prefix}: {text}" if prefix else text[0].upper() + text[1:]

    return [picture(draw(world), words(caption), words(alt)) for draw, caption, alt in shown]


def _curve(evaluations: Table) -> Picture | None:
    column = curves.curve_column(evaluations)
    if column is None:
        return None
    seeds, label = len(np.unique(np.asarray(evaluations["seed"]))), AXIS_LABELS[column]
    spread = f"mean of {seeds} seeds, with their range" if seeds > 1 else "one seed"
    alt = f"Line chart of {label} against the training step, {spread}."
    return picture(curves.learning_curve(evaluations, column), f"Evaluation during training: {label}, {spread}.", alt)


def _stopped(result: Mapping[str, Any]) -> str:
    """Where and why the training stopped early, if it did."""
    stopped = result.get("stopped")
    if not stopped:
        return ""
    planned = f" of {result['steps']}" if result.get("steps") else ""
    return f"Stopped at step {stopped['step']}{planned}: {stopped['reason']}."


def _loss(metrics: Table, name: str, result: Mapping[str, Any]) -> Picture:
    ended = (result.get("stopped") or {}).get("step")
    figure = curves.loss_curves(metrics, name, f"{HELD_OUT}{name}", ended)
    words = f"{name} on the training rows and on held-out rows"
    return picture(figure, f"{words}.", f"Line chart of {words} against the training step.")


def _metrics(metrics: Table) -> list[Picture]:
    """One figure per metric, so that the page can wrap them to its width."""
    names = curves.metric_names(metrics) if len(metrics.get("step", ())) else []
    alt = "Line chart of {} against the training step."
    return [picture(curves.metric_curves(metrics, [name]), name, alt.format(name)) for name in names]
