"""Learning curves: the same updates and evaluations for both, and what is read off the curves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from experiments import rows

from waypost.errors import WaypostError
from waypost.studies.paper import EXPERIMENTS
from waypost.studies.paper.benchmark import DATA, TABLE_1
from waypost.studies.paper.experiment import Context
from waypost.studies.paper.run import run
from waypost.training.plan import plan
from waypost.training.runs import Run


@pytest.mark.parametrize(
    ("steps", "data", "expected"),
    [
        (None, "hopper-medium", (50_000, 5_000)),
        (None, "antmaze-umaze", (100_000, 10_000)),
        (2_000, "antmaze-umaze", (100_000, 400)),
    ],
)
def test_both_get_pors_updates_and_the_same_evaluations(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, steps: int | None, data: str, expected: tuple[int, int]
) -> None:
    """`context.train` shortens both alike where the form has fewer steps."""
    plans = []

    def train(self: Context, algorithm: str, data: str, *, label: str, **options: Any) -> Run:
        plans.append(plan(algorithm, data, **options))
        raise WaypostError("enough")

    monkeypatch.setattr(Context, "train", train)
    with pytest.raises(WaypostError, match="nothing could be trained"):
        run("curves", tmp_path, steps=steps, data=[data])
    assert [each.algorithm for each in plans] == ["por", "iql"]
    assert [(each.steps, each.evaluation.every) for each in plans] == [expected] * 2
    assert plans[0].evaluation == plans[1].evaluation
    assert plans[1].config.hidden == plans[0].config.executor_hidden == plans[0].config.value_hidden


def test_each_data_set_has_curves_and_numbers(trainings: Any, tmp_path: Path) -> None:
    data = ["antmaze-umaze", "antmaze-large-play", "hopper-medium"]
    asked = trainings(lambda data, kind: TABLE_1[data][kind.upper()].mean)
    run("curves", tmp_path, seeds=2, data=data)
    assert asked == [(name, kind) for name in data for kind in ("por", "iql")]
    assert EXPERIMENTS["curves"].data == DATA
    folder = tmp_path / "curves"
    assert {"curves-antmaze.png", "curves-antmaze.svg", "curves-locomotion.png"} <= {p.name for p in folder.iterdir()}
    text = " ".join((folder / "curves.md").read_text().split())
    assert "At the end POR is ahead of IQL on **3 of 3**" in text
    assert "The order is the same on 3 of 3." in text
    assert "AntMaze, mean of 2: POR 74.8, IQL 64.0; in the paper 74.3 and 63.5. The order is the same." in text
    first = rows(folder, "scores")[0]
    assert (float(first["POR"]), first["paper POR"], first["suite"]) == (pytest.approx(91.1), "90.6", "replica")
    assert first["POR 90 % after"] == "1.0"  # made up: half the score after half the updates
    evaluations = rows(folder, "curves")
    assert len(evaluations) == 3 * 2 * 2 * 2
    assert evaluations[0] == {"data": "antmaze-umaze", "kind": "POR", "step": "50", "seed": "0", "score": "45.3"}


def test_a_failed_curve_is_named(trainings: Any, tmp_path: Path) -> None:
    def give(data: str, kind: str) -> float:
        if kind == "iql" and data == "hopper-medium":
            raise WaypostError("value_loss is nan")
        return 50.0 if kind == "por" else 70.0

    trainings(give)
    run("curves", tmp_path, seeds=1, data=["hopper-medium", "walker2d-medium"])
    folder = tmp_path / "curves"
    text = " ".join((folder / "curves.md").read_text().split())
    assert "POR is ahead of IQL on **0 of 1** (none)" in text
    assert "The order is not the same." in text
    assert "Checked on walker2d-medium: with one seed each it may be chance; POR rose" in text
    assert "**1 of 4 trainings gave no result**: IQL on hopper-medium: value_loss is nan." in text
    assert [row["note"] for row in rows(folder, "scores")] == ["IQL: value_loss is nan", ""]
    assert "no result: IQL" in (folder / "curves-locomotion.svg").read_text()
    assert not (folder / "curves-antmaze.png").exists()
