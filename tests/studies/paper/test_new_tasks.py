"""Four rooms, three tasks: the executor stays, rollouts are counted, and the text says what the counts say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from experiments import rows

from waypost.errors import WaypostError
from waypost.studies.paper import new_tasks
from waypost.studies.paper.experiment import Context
from waypost.studies.paper.new_tasks import Journeys, by_lower_door
from waypost.studies.paper.run import run
from waypost.training.plan import plan
from waypost.training.runs import load_run


@pytest.mark.slow
def test_b_and_c_learn_without_actions_and_keep_the_executor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_tasks, "EPISODES", 3)

    def again() -> dict[Path, int]:
        run("new-tasks", tmp_path, quick=True, steps=2, seeds=2)
        return {path: path.stat().st_mtime_ns for path in tmp_path.rglob("result.json")}

    stamps = again()
    folder = tmp_path / "new-tasks"
    runs = {name: load_run(folder / "runs" / "quick" / name) for name in "ABC"}
    executor = jax.tree.leaves(runs["A"].policy.agent.executor)  # type: ignore[attr-defined]
    for name in "BC":
        assert runs[name].plan.config.training == "guide"
        assert runs[name].plan.task == new_tasks.TASKS[name][0]
        for policy in runs[name].policies:
            ours = jax.tree.leaves(policy.agent.executor)  # type: ignore[attr-defined]
            assert all(np.array_equal(a, b) for a, b in zip(ours, executor, strict=True))
    assert [row["task"] for row in rows(folder, "seeds")] == ["A", "A", "B", "B", "C", "C"]
    for row in rows(folder, "seeds"):
        assert int(row["arrived"]) + int(row["drowned"]) + int(row["out_of_time"]) == 3
    assert "are bit-identical" in " ".join((folder / "new-tasks.md").read_text().split())
    assert again() == stamps


# -- made up -----------------------------------------------------------------------------------------

RIGHT = np.array([[2, 2], [8, 4], [9.4, 4], [9.6, 4], [15, 3], [16, 16]], np.float32)
"""By the lower door and the key."""
UP = RIGHT[:, ::-1]


def test_the_first_door_counts() -> None:
    assert by_lower_door(RIGHT)
    assert not by_lower_door(UP)
    assert not by_lower_door(RIGHT[:3])
    assert not by_lower_door(np.concatenate([UP[:4], RIGHT]))


@pytest.fixture
def travelled(made: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`give` has the rollouts of each task: how many arrive, drown and go up first, of 100, for each seed."""

    def install(give: dict[str, list[tuple[int, int, int]]]) -> None:
        variants = {variant: name for name, (variant, _) in new_tasks.TASKS.items()}

        def train(self: Context, algorithm: str, data: Any, *, label: str, **options: Any) -> Any:
            assert (data.actions is None) == (label != "A")
            trained = made("por", data.name, [float(each[0]) for each in give[label]])
            trained.result["seconds"] = {"A": 200.0, "B": 50.0, "C": 100.0}[label]
            trained.policies.extend(_Nobody(seed) for seed in range(len(give[label])))
            return trained

        def journeys(trained: Any, variant: str) -> list[Journeys]:
            place = np.arange(100)
            return [
                Journeys(
                    [UP if each < up else RIGHT for each in place],
                    place < arrived,
                    (place >= arrived) & (place < arrived + fell),
                )
                for arrived, fell, up in give[variants[variant]]
            ]

        monkeypatch.setattr(Context, "train", train)
        monkeypatch.setattr(new_tasks, "journeys", journeys)
        monkeypatch.setattr(new_tasks, "require_same_parts", lambda *each: None)

    return install


class _Nobody:
    def __init__(self, seed: int):
        self.seed = seed


def test_what_the_paper_says_is_recognised(travelled: Any, tmp_path: Path) -> None:
    travelled({"A": [(100, 0, 50), (98, 0, 50)], "B": [(100, 0, 40), (90, 10, 40)], "C": [(95, 0, 0), (92, 0, 0)]})
    run("new-tasks", tmp_path, seeds=2)
    folder = tmp_path / "new-tasks"
    text = " ".join((folder / "new-tasks.md").read_text().split())
    assert "99 (worst seed 98) in Task A, 95 (worst seed 90) in Task B and 93.5 (worst seed 92) in Task C" in text
    assert f"on Task A with 2 seeds of 100 updates (the preset has {plan('por', 'four-rooms').steps}); for" in text
    assert "**3 of 3** tasks (A, B and C) are solved; the paper says that all three are" in text
    assert "In Task A 50% of the rollouts leave the first room by the lower door, in Task B 60%, in Task C 100%" in text
    assert "Into a river fall 5 in Task B." in text
    assert "50 s for Task B (25%) and 100 s for Task C (50%)" in text
    assert [(row["fewest"], row["drowned"], row["out_of_time"], row["steps"]) for row in rows(folder, "new-tasks")] == [
        ("98", "0.0", "1.0", "5.0"),
        ("90", "5.0", "0.0", "5.0"),
        ("92", "0.0", "6.5", "5.0"),
    ]
    assert (folder / "new-tasks.png").stat().st_size > 10_000
    assert len(rows(folder, "paths")) == 3 * 100 * 2


def test_a_task_that_is_not_solved_is_said(travelled: Any, tmp_path: Path) -> None:
    travelled({"A": [(100, 0, 0)], "B": [(89, 0, 0)], "C": [(0, 0, 0)]})
    run("new-tasks", tmp_path, seeds=1)
    text = " ".join((tmp_path / "new-tasks" / "new-tasks.md").read_text().split())
    assert "100 in Task A, 89 in Task B and 0 in Task C" in text
    assert "**1 of 3** tasks (A) are solved" in text
    assert "No rollout falls into a river." in text


def test_a_changed_executor_is_an_error(travelled: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    travelled({name: [(100, 0, 0)] for name in "ABC"})
    asked = []

    def compare(run: Any, donor: Any, *parts: str) -> None:
        asked.append((run.plan.data, donor.plan.data, parts))
        raise WaypostError("has another executor")

    monkeypatch.setattr(new_tasks, "require_same_parts", compare)
    with pytest.raises(WaypostError, match="has another executor"):
        run("new-tasks", tmp_path, seeds=1)
    assert asked == [("four-rooms-river", "four-rooms", ("executor",))]
