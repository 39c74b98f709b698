"""What `import waypost` gives that leaves files: training, comparing and adapting, with their pages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from waypost.report.comparison import write_comparison
from waypost.report.finished import RunPage
from waypost.report.gallery import write_gallery
from waypost.studies import adaptation, comparison
from waypost.studies.adaptation import Adaptation
from waypost.studies.comparison import Comparison
from waypost.studies.paper import run as experiments
from waypost.studies.paper.run import Record
from waypost.training import trainer
from waypost.training.callbacks import Callback, Callbacks
from waypost.training.runs import Run


def train(
    algorithm: str = "por", data: Any = "four-rooms", *, callbacks: Sequence[Callback] = (), **options: Any
) -> Run:
    return trainer.train(algorithm, data, callback=Callbacks(RunPage(), *callbacks), **options)


def compare(
    data: Sequence[str | Path],
    algorithms: Sequence[str] | None = None,
    *,
    out: str | Path,
    callbacks: Sequence[Callback] = (),
    **options: Any,
) -> Comparison:
    found = comparison.compare(data, algorithms, out=out, callback=Callbacks(RunPage(), *callbacks), **options)
    write_comparison(found, Path(out))
    return found


def adapt(run: str | Path, data: Any = None, *, callbacks: Sequence[Callback] = (), **options: Any) -> Adaptation:
    return adaptation.adapt(run, data, callback=Callbacks(RunPage(), *callbacks), **options)


def paper(name: str, out: str | Path, *, callbacks: Sequence[Callback] = (), **options: Any) -> Record:
    record = experiments.run(name, out, callback=Callbacks(RunPage(), *callbacks), **options)
    write_gallery(Path(out))
    return record


train.__doc__, compare.__doc__ = trainer.train.__doc__, comparison.compare.__doc__
adapt.__doc__, paper.__doc__ = adaptation.adapt.__doc__, experiments.run.__doc__
