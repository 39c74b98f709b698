"""Table 2: what makes POR POR-sparse, and who is said to be ahead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from experiments import rows

from waypost.errors import WaypostError
from waypost.studies.paper.benchmark import ANT_MAZE, TABLE_2
from waypost.studies.paper.run import run
from waypost.studies.paper.sparse import POR, SPARSE, sparse_settings
from waypost.training.plan import plan

KINDS = {"por": POR, "por-sparse": SPARSE}
"""Run directories, and whose they are."""


@pytest.mark.parametrize(("data", "tau"), list(zip(ANT_MAZE, (1.0, 0.5, 0.1, 0.1, 0.1, 0.3), strict=True)))
def test_sparse_differs_from_por_in_vs_loss_only(data: str, tau: float) -> None:
    ours, usual = plan("por", data, **sparse_settings(data)), plan("por", data)
    assert (ours.config.value_objective, ours.config.tau) == ("sparse", tau)
    differ = {key for key, value in ours.to_json()["config"].items() if value != usual.to_json()["config"][key]}
    assert differ <= {"value_objective", "tau"}
    assert (ours.steps, ours.preset, ours.evaluation) == (usual.steps, usual.preset, usual.evaluation)


def test_on_d4rls_files_the_settings_are_the_papers() -> None:
    ours = plan("por", "antmaze-umaze-v2", env="antmaze-umaze", **sparse_settings("antmaze-umaze-v2"))
    assert (ours.preset, ours.config.tau, ours.config.executor_hidden) == (
        "paper-sparse/antmaze-umaze",
        1.0,
        (1024, 1024),
    )
    assert ours.steps == 1_000_000


def test_every_maze_gets_both_and_the_papers_order_is_recognised(trainings: Any, tmp_path: Path) -> None:
    asked = trainings(lambda data, kind: TABLE_2[data][KINDS[kind]].mean)
    run("sparse", tmp_path, seeds=1)
    assert asked == [(data, kind) for data in ANT_MAZE for kind in KINDS]
    text = " ".join((tmp_path / "sparse" / "sparse.md").read_text().split())
    assert "POR-sparse is ahead on **2 of 6** (antmaze-umaze and antmaze-umaze-diverse)" in text
    assert "the same as in the paper on 6 of 6. With one seed each, the order may be chance." in text
    for row in rows(tmp_path / "sparse", "sparse"):
        assert row["here (replica)"] == row["paper (d4rl)"].split()[0] + "*"
        assert row["paper (d4rl)"] == f"{TABLE_2[row['data']][row['algorithm']].mean:.1f} ± " + str(
            TABLE_2[row["data"]][row["algorithm"]].std
        )


def test_another_order_and_a_failure_are_said(trainings: Any, tmp_path: Path) -> None:
    def give(data: str, kind: str) -> float:
        if (data, kind) == ("antmaze-umaze-diverse", "por-sparse"):
            raise WaypostError("value_loss is nan")
        return 60.0 if kind == "por" else 40.0

    trainings(give)
    run("sparse", tmp_path, seeds=2, data=["antmaze-umaze", "antmaze-umaze-diverse", "antmaze-large-play"])
    text = " ".join((tmp_path / "sparse" / "sparse.md").read_text().split())
    assert "POR-sparse is ahead on **0 of 2** (none)" in text
    assert "the same as in the paper on 1 of 2, and different on the others" in text
    assert (
        "Checked on antmaze-umaze: the seeds do not overlap (POR 60.0 to 61.0 and POR-sparse 40.0 to 41.0); "
        "POR rose from update 50 to 100 (30.2 to 60.5); POR-sparse rose from update 50 to 100 (20.2 to 40.5)." in text
    )
    assert text.count("Checked on") == 1
    assert "antmaze-umaze: 60.5 and 40.5 (paper 90.6 and 95.0)" in text
    assert "**1 of 6 trainings gave no result**: POR-sparse on antmaze-umaze-diverse: value_loss is nan." in text
    umaze, *_, failed = rows(tmp_path / "sparse", "sparse")[:4]
    assert umaze["here (replica)"] == "60.5 (60.0 to 61.0)"
    assert (failed["here (replica)"], failed["note"]) == ("failed", "value_loss is nan")
