"""`waypost sweep`: its options and its handler."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.table import Table

from waypost.cli.common import EvaluationOptions, LogOptions
from waypost.cli.scale import ScaleOptions
from waypost.data.names import SEVERAL
from waypost.errors import WaypostError


@dataclass(frozen=True)
class Sweep(LogOptions):
    """Train an algorithm with several settings, and rank them: a grid, or a search with Optuna.

    Finished trainings are only read: run the same command again to continue after an interruption.
    """

    algo: tyro.conf.Positional[str]
    """Algorithm, see `waypost list`."""
    data: Annotated[str, SEVERAL]
    """Data, as for `train --data`."""
    grid: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A setting and its values: tau=0.7,0.9 or 'hidden=[64],[64,64]'. With several, every combination is tried."""
    range: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """For a search: a setting and its range: tau=0.5:0.95, or value_learning_rate=1e-4:1e-2:log."""
    search: Literal["optuna"] | None = None
    """Let Optuna choose --trials settings (extra search); by default the whole grid is tried."""
    trials: int | None = None
    """Number of settings a search tries."""
    search_seed: int = 0
    """Seed of the search."""
    measure: str | None = None
    """Rank by score, return, success_rate, value (by `waypost judge`) or held_out_...; by default as compare does."""
    stop_early: bool = False
    """Stop trials that are not among the best third after a ninth or a third of their updates (ASHA)."""
    factor: int = 3
    """With --stop-early: one trial in this many continues after each rung; each rung has as many times the updates."""
    first_rung: int | None = None
    """With --stop-early: updates at the first rung; by default all divided by the square of --factor."""
    env: str | None = None
    """Task to evaluate on; by default the data's own."""
    seeds: int = 3
    """Number of agents of each trial, trained at once."""
    first_seed: int = 0
    """Seed of the first agent; the others count up from it."""
    steps: int | None = None
    """Updates of each agent, over all stages of its training; by default the preset's."""
    settings: Path | None = None
    """TOML file of settings that override the preset in all trials: a table [ALGORITHM]."""
    out: Path | None = None
    """Folder for a run directory of each trial, results.csv and sweep.html; by default runs/sweep-ALGO."""
    json: bool = False
    """Print the results as one JSON object, the last line on stdout."""
    evaluation: tyro.conf.OmitArgPrefixes[EvaluationOptions] = field(default_factory=EvaluationOptions)
    scale: tyro.conf.OmitArgPrefixes[ScaleOptions] = field(default_factory=ScaleOptions)


def sweep_and_show(command: Sweep) -> dict[str, Any]:
    """Sweep, write the page and show the table; the answer is the record for programs."""
    from waypost.cli.screen import results
    from waypost.console.bar import TrainingBar
    from waypost.report.sweep import write_sweep
    from waypost.studies.candidates import read_grid, read_ranges
    from waypost.studies.settings import read_settings
    from waypost.studies.sweep import Early, cells, sweep
    from waypost.training.plan import seeds_from

    if (command.search is None) != (command.trials is None):
        raise WaypostError("--search optuna needs --trials N, and --trials needs --search optuna")
    out = command.out or Path("runs") / f"sweep-{command.algo}"
    found = sweep(
        command.algo,
        command.data,
        read_grid(command.algo, command.grid),
        out=out,
        ranges=read_ranges(command.algo, command.range),
        trials=command.trials,
        search_seed=command.search_seed,
        measure=command.measure,
        early=Early(command.factor, command.first_rung) if command.stop_early else None,
        env=command.env,
        seeds=seeds_from(command.seeds, command.first_seed),
        steps=command.steps,
        evaluation=command.evaluation.on_top_of,
        settings=read_settings(command.settings).get(command.algo) if command.settings else None,
        **command.reading,
        callback=TrainingBar(),
        runner=command.scale.runner(),
    )
    write_sweep(found, out)
    with results(command.json) as to:
        table = Table(title=f"{found.algorithm} on {found.data}", title_justify="left", title_style="bold")
        settings = [word for row in found.rows for word in cells(row)[0].split()]
        table.add_column("settings", min_width=max(map(len, settings), default=0))  # each in one piece
        table.add_column(found.header[1], justify="right")
        table.add_column(found.header[3], justify="right", max_width=12)
        table.add_column("seeds", overflow="fold", max_width=20)
        for row in found.rows:
            shown = cells(row)
            table.add_row(shown[0], shown[1], shown[3], shown[-1])
        to.print(table)
        to.tell(f"page: {out / 'sweep.html'}; all columns: {out / 'results.csv'}")
    return found.to_json()
