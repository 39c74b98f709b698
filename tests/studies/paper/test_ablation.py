"""The executor's ablation: which rows each part learns from, which guide each executor gets, what is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any

import jax
import numpy as np
import pytest
from experiments import rows

import waypost
from waypost.errors import WaypostError
from waypost.studies.paper import ablation
from waypost.studies.paper.ablation import VARIANTS, Variant, executor_data
from waypost.studies.paper.experiment import Context, Size
from waypost.studies.paper.run import run
from waypost.studies.paper.scores import load_data, require_same_parts
from waypost.studies.results import Results
from waypost.training.callbacks import Callback
from waypost.training.runs import load_run


def test_the_variants_are_the_papers_and_its_preset() -> None:
    assert [(ablation.SIZES[each.size], each.share) for each in VARIANTS] == [
        (512, 100),
        (128, 100),
        (1024, 100),
        *((width, share) for width in (512, 128) for share in (10, 25, 40)),
    ]


def test_the_executor_sees_the_best_episodes(replicas: Callable[..., None]) -> None:
    replicas("hopper-medium")
    dataset = waypost.load("hopper-medium")
    best = np.argsort(-dataset.episode_returns, kind="stable")
    for share, episodes in ((10, 2), (25, 5), (40, 8)):
        seen = executor_data(dataset, Variant("big", share))
        chosen = np.isin(dataset.episode_of, best[:episodes])
        assert np.array_equal(seen.observations, dataset.observations[chosen])
        assert np.array_equal(seen.actions, dataset.actions[chosen])
        assert seen.rewards is None
    whole = executor_data(dataset, Variant("small"))
    assert (whole.rewards, whole.name) == (None, "hopper-medium")
    assert np.array_equal(whole.actions, dataset.actions)


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(Size(1, 2), tmp_path / "runs", Callback(), lambda what: nullcontext(lambda done, total: None))


def test_an_executor_is_trained_alone_and_has_the_guide_of_its_seed(
    replicas: Callable[..., None], cheap_evaluations: None, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicas("hopper-medium", rows=120)
    monkeypatch.setitem(ablation.SIZES, "small", 8)
    dataset, variant = load_data(context, "hopper-medium"), Variant("small", 10)
    seen = executor_data(dataset, variant)
    (joined,) = ablation._train(context, dataset, seen, variant)
    stamps = {path: path.stat().st_mtime_ns for path in context.runs.rglob("result.json")}
    guide = load_run(context.runs / "hopper-medium" / "guide" / "seed-0")
    assert (joined.plan.config.training, joined.plan.config.executor_hidden) == ("executor", (8, 8))
    assert (guide.plan.config.training, guide.plan.preset, joined.plan.preset) == ("guide", *["hopper-medium"] * 2)
    assert (fingerprint(guide), fingerprint(joined)) == (dataset.fingerprint(), seen.fingerprint())
    assert len(seen) == 10
    assert guide.policy.agent.executor is None
    parts = [(run.policy.agent.guide_part, run.policy.agent.value_part) for run in (guide, joined)]
    assert all(np.array_equal(a, b) for a, b in zip(*map(jax.tree.leaves, parts), strict=True))
    (again,) = ablation._train(context, dataset, seen, variant)
    assert {path: path.stat().st_mtime_ns for path in context.runs.rglob("result.json")} == stamps
    assert again.result == joined.result
    agent = joined.policy.agent
    other = replace(agent, guide_part=jax.tree.map(lambda leaf: np.asarray(leaf) + 1, agent.guide_part))
    changed = replace(joined, policies=[replace(joined.policy, agent=other)])
    with pytest.raises(WaypostError, match="has another guide than"):
        require_same_parts(changed, guide, "value_part", "guide_part")


def test_in_a_folder_of_results_the_guide_is_trained_for_executors_that_are_missing(
    replicas: Callable[..., None], cheap_evaluations: None, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicas("hopper-medium", rows=120)
    monkeypatch.setitem(ablation.SIZES, "small", 8)
    kept = context.runs.parent / "kept"
    context = replace(context, results=Results(kept))
    dataset, variant = load_data(context, "hopper-medium"), Variant("small", 10)
    seen = executor_data(dataset, variant)
    (joined,) = ablation._train(context, dataset, seen, variant)
    assert joined.policies
    assert [str(file.relative_to(kept)) for file in kept.rglob("*.json")] == ["hopper-medium/executor-8-10/0.json"]
    assert [path.parent.name for path in context.runs.rglob("result.json")] == ["seed-0"], "of the guide alone"
    rmtree(context.runs)
    (again,) = ablation._train(context, dataset, seen, variant)
    assert not context.runs.exists()
    assert again.policies == []
    assert again.result["per_seed"] == joined.result["per_seed"]


def fingerprint(run: Any) -> str:
    return json.loads((run.directory / "config.json").read_text())["fingerprint"]


def test_parts_of_d4rls_files_keep_the_papers_settings(
    replicas: Callable[..., None], context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicas("hopper-medium")
    asked = []
    dataset = load_data(context, "hopper-medium").named("hopper-medium-v2")

    def train(self: Context, algorithm: str, data: Any, **options: Any) -> Any:
        asked.append((data.name, options["env"], options["preset"]))
        raise WaypostError("enough")

    monkeypatch.setattr(Context, "train", train)
    with pytest.raises(WaypostError, match="enough"):
        ablation._train(context, dataset, dataset, Variant("big"))
    assert asked == [("hopper-medium-v2", "hopper-medium", "paper/hopper-medium")]


# -- made up -----------------------------------------------------------------------------------------


@pytest.fixture
def scored(replicas: Callable[..., None], made: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """`give(variant)` says the score of an executor."""
    replicas("hopper-medium", "antmaze-umaze")

    def install(give: Callable[[Variant], float]) -> None:
        def train(context: Context, dataset: Any, seen: Any, variant: Variant) -> list[Any]:
            return [made("por", dataset.name, [give(variant)]) for _ in range(context.size.seeds)]

        monkeypatch.setattr(ablation, "_train", train)

    return install


def test_the_papers_order_is_recognised_and_the_best_share_counts(scored: Any, tmp_path: Path) -> None:
    scores = {10: 20.0, 25: 55.0, 40: 50.0, 100: 60.0}
    scored(lambda variant: scores[variant.share] + {"big": 5, "small": 0, "preset": 9}[variant.size])
    run("ablation", tmp_path, seeds=2, data=["antmaze-umaze", "hopper-medium"])
    folder = tmp_path / "ablation"
    text = " ".join((folder / "ablation.md").read_text().split())
    assert (
        "The big executor against the small one, all data: 65.0 against 60.0 (paper 76.2 against 63.8), as in" in text
    )
    assert (
        "All data against the best episodes, small executor: 60.0 against 55.0 (paper 63.8 against 41.5), as in" in text
    )
    assert "With 1024 units on all data the mean is 69.0." in text
    assert "unlike" not in text
    table = {(row["group"], row["executor"]): row for row in rows(folder, "ablation")}
    assert (table["AntMaze", "big"]["full"], table["AntMaze", "big"]["partial"]) == ("65.0", "60.0")
    assert table["Locomotion", "big"]["paper_partial"] == "60.9"
    assert table["Locomotion", "preset"]["paper_full"] == ""
    kept = rows(folder, "scores")
    assert len(kept) == 2 * len(VARIANTS)
    assert {(row["guide_rows"], row["executor_rows"], row["share"]) for row in kept} == {
        ("200", "200", "100"),
        ("200", "20", "10"),
        ("200", "50", "25"),
        ("200", "80", "40"),
    }
    assert "best share" in (folder / "ablation.svg").read_text()


def test_another_order_and_a_failure_are_said(scored: Any, tmp_path: Path) -> None:
    def give(variant: Variant) -> float:
        if variant == Variant("big", 25):
            raise WaypostError("executor_loss is nan")
        return 70.0 if variant.size == "small" else 30.0

    scored(give)
    run("ablation", tmp_path, seeds=1, data=["hopper-medium"])
    text = " ".join((tmp_path / "ablation" / "ablation.md").read_text().split())
    assert "all data: 30.0 against 70.0 (paper 65.7 against 57.0), **unlike in the paper**. Checked" in text
    assert "big executor: no result, because a training failed (paper 65.7 against 60.9)" in text
    assert "**1 of 9 trainings gave no result**: 512x512, top 25 % on hopper-medium: executor_loss is nan." in text
