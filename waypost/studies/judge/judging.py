"""Policies judged by recorded data alone: no simulator, nothing tried out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from waypost.agents.bc import BCAgent
from waypost.agents.fqe import Candidate, Config, discounted_to_go, recorded
from waypost.data.dataset import Dataset
from waypost.data.pipeline import Pipeline, Reading
from waypost.data.roles import Columns
from waypost.data.sources import load
from waypost.envs.tasks import task as find_task
from waypost.errors import WaypostError
from waypost.schema import conform, shown
from waypost.studies.judge.bias import Bias, bias
from waypost.studies.judge.evaluators import Evaluation, evaluate, q_of
from waypost.studies.judge.imagined import Plant, imagine, learn, model_updates
from waypost.studies.judge.judgement import DATA, Judged, Judgement, difference, estimate, percentiles, within
from waypost.studies.judge.likelihood import Behaviour
from waypost.studies.judge.robust import Robust, clone, doubly_robust, log_ratios
from waypost.studies.judge.support import Neighbourhood
from waypost.training.compilation import keep_programs
from waypost.training.plan import Plan, read_plan
from waypost.training.policy import Policy, load_policies
from waypost.training.records import read_config
from waypost.training.replay import candidate
from waypost.training.runs import Run
from waypost.training.validation import BEST, FEWEST_EPISODES
from waypost.types import Count, Doubles, Floats

LEAST = {"members": 5, "horizon": 0}
MOST = {"members": 100, "steps": 10_000_000, "rows": 10_000_000, "horizon": 10_000}
USUAL_DISCOUNT = 0.99
SEEN = "it learned from these episodes, so its value is probably too high; judge it by others"


@dataclass(frozen=True, eq=False)
class Subject:
    """A policy to judge."""

    name: str
    policy: Policy
    plan: Plan[Any] | None = None
    run: Path | None = None

    @property
    def goal(self) -> Sequence[float] | None:
        """Where its task wants it to go."""
        return find_task(self.plan.task).goal if self.plan is not None and self.plan.task else None


def judge(
    subjects: str | Path | Run | Policy | Sequence[str | Path | Run | Policy],
    data: Any = None,
    *,
    columns: Columns | None = None,
    pipeline: Pipeline | None = None,
    discount: float | None = None,
    members: int = 8,
    steps: int = 10_000,
    hidden: tuple[int, ...] = (64, 64),
    rows: int = 100_000,
    horizon: int = 300,
    seed: int = 0,
    progress: Count | None = None,
) -> Judgement:
    """Say how good policies are from data they did not learn from, and which one to take.

    subjects    run directories (all their seeds), runs or policies
    data        episodes to judge by: a name, a file, a Dataset; by default those the runs held out
    columns, pipeline    how to read them, on top of how the first run read its own
    discount    that of the values; by default the runs' own
    members     evaluators of each policy, each on its own bootstrap of the episodes; 5 or more
    steps       updates of the evaluators
    hidden      hidden layers of the evaluators
    rows        transitions to use at most: whole episodes are drawn where there are more
    horizon     steps to imagine with a model of the plant at most; 0 imagines nothing
    seed        of the evaluators and of what is drawn
    """
    for what, number in (("members", members), ("steps", steps), ("rows", rows), ("horizon", horizon)):
        least = LEAST.get(what, 1)
        if not least <= conform(number, int, what) <= MOST[what]:
            raise WaypostError(f"{what} must be from {least} to {MOST[what]}, got {number}")
    keep_programs()
    found = named(subjects)
    config = Config(discount=_discount(found) if discount is None else discount, hidden=tuple(hidden))
    whole = _data(found, data, columns or Columns(), pipeline or Pipeline())
    seen = set() if data is None else _seen(found, whole)
    dataset = _some(whole, rows, seed)
    _check(dataset, found)
    candidates, refused = _candidates(found, dataset)
    near, clones = Neighbourhood(dataset, seed), clone(dataset, min(steps, 3_000), seed)
    behaviour = Behaviour(clones, dataset, near.asked)
    updates = model_updates(steps) if horizon else 0
    total = steps + updates + horizon * (len(candidates) - 1)
    evaluation = evaluate(config, dataset, list(candidates.values()), members, steps, seed, _part(progress, 0, total))
    plant = learn(dataset, members, updates, seed, _part(progress, steps, total)) if horizon else None
    checks = _checks(dataset, config.discount, candidates, evaluation, clones)
    judged = [Judged(each.name, **_about(each), note=refused[each.name]) for each in found if each.name in refused]
    by_name, own, (_, own_bias) = {each.name: each for each in found}, evaluation.values[:, 0], checks[DATA]
    for place, (name, acts) in enumerate(candidates.items()):
        each, values, imagined = by_name.get(name), evaluation.values[:, place], None
        if each is not None and plant is not None and plant.known:
            alone = _imagined(plant, evaluation, place, each, dataset, config.discount, horizon, seed)
            values, imagined = (values + alone) / 2.0, float(alone.mean())
            _part(progress, steps + updates, total)(horizon * place, total)
        distance, distances = near.measure(acts.actions)
        likelihood, ratios = behaviour.measure(acts.actions)
        known = Judged(
            name,
            **(_about(each) if each else {}),
            distance=distance,
            distances=distances,
            likelihood=likelihood,
            log_ratios=ratios,
            members=values,
            imagined=imagined,
        )
        if each is not None and distance.left:
            note = f"{100 * distance.outside:.0f} % of its actions are unlike any recorded in such states"
            judged.append(replace(known, note=note))
            continue
        check, missed = checks[name]
        judged.append(
            replace(
                known,
                value=within(estimate(values, missed, known.gap), *evaluation.value_range),
                gain=difference(values, own, missed.against(own_bias), known.gap),
                robust=percentiles(check.value, check.resamples) if check.steps else None,
                robust_steps=check.steps,
                bias=missed,
                curve=evaluation.curves[:, place],
            )
        )
    judged = [replace(each, note=each.note or SEEN) if each.name in seen else each for each in judged]
    first = dataset.episode_starts
    return Judgement(
        data=dataset.name,
        episodes=len(first),
        rows=len(dataset),
        discount=config.discount,
        mean_return=float(dataset.episode_returns.mean()),
        discounted_return=float(discounted_to_go(dataset, config.discount)[first].mean()),
        candidates=ranked(judged),
        steps=tuple(evaluation.steps),
        clipped=evaluation.clipped,
        explained=None if plant is None else plant.explained,
        settings={"members": members, "steps": steps, "hidden": list(hidden), "horizon": horizon, "seed": seed},
    )


def ranked(judged: Sequence[Judged]) -> tuple[Judged, ...]:
    """Best first by the lower end of the interval, then by the value; those nobody can tell about last, without a rank.

    Lower ends are the same where several intervals end at the least that can be reached.
    """
    told = [each for each in judged if each.value is not None]
    order = sorted(told, key=lambda each: (-each.value.low, -each.value.value) if each.value else (0.0, 0.0))
    places = [replace(each, rank=place) for place, each in enumerate(order, 1)]
    return (*places, *(each for each in judged if each.value is None))


def _about(each: Subject) -> dict[str, Any]:
    run = None if each.run is None else str(each.run)
    return {"algorithm": each.policy.algorithm, "run": run, "seed": each.policy.seed}


# -- what is judged --------------------------------------------------------------------------------


def named(subjects: str | Path | Run | Policy | Sequence[str | Path | Run | Policy]) -> list[Subject]:
    """The policies of all seeds, each under a name of its own."""
    several = [subjects] if isinstance(subjects, str | Path | Run | Policy) else list(subjects)
    if not several:
        raise WaypostError("nothing to judge: name one or more run directories")
    strange = [each for each in several if not isinstance(each, str | Path | Run | Policy)]
    if strange:
        raise WaypostError(f"what is judged must be run directories, runs or policies, got {shown(strange[0])}")
    folders = [Path(each) for each in several if isinstance(each, str | Path)]
    shared = len({_label(folder) for folder in folders}) < len(folders)
    found: list[Subject] = []
    for each in several:
        if isinstance(each, Policy):
            found.append(Subject(each.algorithm, each))
            continue
        if isinstance(each, Run):
            policies, planned, folder = each.policies, each.plan, each.directory
        else:
            folder = Path(each)
            policies, planned = load_policies(folder), read_plan(_home(folder))
        name = planned.algorithm if folder is None else str(folder) if shared else _label(folder)
        found += [Subject(f"{name} seed {one.seed}", one, planned, folder) for one in policies]
    names = [each.name for each in found]
    return [
        replace(each, name=f"{each.name} ({place})") if names.count(each.name) > 1 or each.name == DATA else each
        for place, each in enumerate(found, 1)
    ]


def _discount(found: Sequence[Subject]) -> float:
    """The runs' own: the largest, where they differ."""
    known = [each.policy.config.discount for each in found if hasattr(each.policy.config, "discount")]
    return min(max(known, default=USUAL_DISCOUNT), 0.999)


def _data(found: Sequence[Subject], data: Any, columns: Columns, pipeline: Pipeline) -> Dataset:
    first = found[0]
    if data is None:
        return _held_out(found)
    if isinstance(data, Dataset):
        return data
    if first.plan is not None:
        how = Reading(first.plan.columns, first.plan.pipeline)
    else:
        how = first.policy.reading or Reading()
    how = how.with_given(columns, pipeline)
    return load(data, how.columns, pipeline=how.pipeline)


def _held_out(found: Sequence[Subject]) -> Dataset:
    """The episodes that the runs kept from learning, all of them the same ones."""
    plans = [each.plan for each in found]
    first = plans[0]
    if first is None or any(planned is None or not planned.hold_out for planned in plans):
        raise WaypostError(
            "name the data to judge by with --data: episodes the policies did not learn from; runs that were trained "
            "with --hold-out 0.1 have some of their own"
        )
    told = {(each.data, each.hold_out, each.columns, replace(each.pipeline, learned=None)) for each in plans if each}
    if len(told) > 1:
        raise WaypostError("the runs learned from different data or held out different shares; name others with --data")
    try:
        dataset = load(first.data, first.columns, pipeline=first.pipeline)
    except WaypostError as error:
        raise WaypostError(
            f"the data the runs learned from cannot be read again ({error}); name episodes they did not learn from, "
            "with --data (in Python: data=...)"
        ) from None
    for each in found:
        if each.run is not None and read_config(_home(each.run)).get("fingerprint") != dataset.fingerprint():
            raise WaypostError(f"{first.data}: has changed since {each.run} learned from it; name others with --data")
    held = dataset.split(first.hold_out)[1]
    return held.named(f"{dataset.name}, {first.hold_out:.0%} held out")


def _seen(found: Sequence[Subject], dataset: Dataset) -> set[str]:
    """The policies that learned from the very rows they are to be judged by."""
    own = dataset.fingerprint()
    return {each.name for each in found if each.run and read_config(_home(each.run)).get("fingerprint") == own}


def _label(folder: Path) -> str:
    """What people call a run: the name of its folder."""
    home = _home(folder).resolve()
    return home.name if home == folder.resolve() else f"{home.name}/{BEST}"


def _home(folder: Path) -> Path:
    """The run directory of a folder with policies: itself, or the one that keeps its best agents in it."""
    return folder.parent if folder.name == BEST and not (folder / "config.json").is_file() else folder


def _some(dataset: Dataset, rows: int, seed: int) -> Dataset:
    """Whole episodes, as many as have so many rows together; at least a handful."""
    if len(dataset) <= rows:
        return dataset
    order = np.random.default_rng(seed).permutation(len(dataset.episode_starts))
    together = np.cumsum(dataset.episode_lengths[order])
    count = max(FEWEST_EPISODES, int(np.searchsorted(together, rows, side="right")))
    return dataset.keep(np.isin(dataset.episode_of, order[:count]))


def _check(dataset: Dataset, found: Sequence[Subject]) -> None:
    for column in ("actions", "rewards"):
        dataset.require(column)
    if len(dataset.episode_starts) < FEWEST_EPISODES:
        episodes = f"{dataset.name}: {len(dataset.episode_starts)} episodes"
        raise WaypostError(
            f"{episodes}; at least {FEWEST_EPISODES} are needed to say how sure a judgement is: name more with --data, "
            "or train with a larger --hold-out"
        )
    if not (dataset.next_valid | dataset.terminals).any():
        raise WaypostError(f"{dataset.name}: no row has a known next state: store next_observations")
    sizes = (dataset.observation_size, dataset.action_size, dataset.action_choices or dataset.action_count)
    for each in found:
        spec = each.policy.spec
        given = (spec.observation_size, spec.action_size, spec.action_choices or spec.action_count)
        if given != sizes:
            raise WaypostError(
                f"{each.name}: learned from other columns than {dataset.name} has: observations, actions and choices "
                f"are {given}, in the data {sizes}"
            )


def _candidates(found: Sequence[Subject], dataset: Dataset) -> tuple[dict[str, Candidate], dict[str, str]]:
    """What each would do, what recorded the data first; and why some cannot be asked."""
    candidates, refused = {DATA: recorded(dataset)}, {}
    for each in found:
        try:
            candidates[each.name] = candidate(each.policy, dataset, each.goal)
        except WaypostError as error:
            refused[each.name] = str(error)
    return candidates, refused


# -- the checks ------------------------------------------------------------------------------------


def _part(progress: Count | None, before: int, total: int) -> Count:
    """Progress of one part of the work, after so many steps of others."""

    def count(done: int, _: int) -> None:
        if progress:
            progress(min(before + done, total), total)

    return count


def _imagined(
    plant: Plant,
    evaluation: Evaluation,
    place: int,
    subject: Subject,
    dataset: Dataset,
    discount: float,
    horizon: int,
    seed: int,
) -> Doubles:
    """The value of a candidate in imagined episodes, by each member."""

    def ending(states: Floats, actions: Floats) -> Doubles:
        members = zip(evaluation.agents, states, actions, strict=True)
        found = [q_of(agent, seen, [taken])[place] for agent, seen, taken in members]
        return np.clip(np.stack(found), *evaluation.value_range)

    values = imagine(plant, subject.policy.agent, dataset, discount, horizon, ending, subject.goal, seed)
    return np.clip(values, *evaluation.value_range)


def _checks(
    dataset: Dataset,
    discount: float,
    candidates: dict[str, Candidate],
    evaluation: Evaluation,
    behaviour: BCAgent,
) -> dict[str, tuple[Robust, Bias]]:
    """The doubly robust estimate of each candidate, and what its evaluators get wrong."""
    acts = list(candidates.values())
    q = evaluation.out_of_bag(dataset, [dataset.require("actions")])
    v = evaluation.out_of_bag(dataset, [each.actions for each in acts])
    later = evaluation.out_of_bag(dataset, [each.next_actions for each in acts], following=True)
    found = {}
    for place, (name, each) in enumerate(candidates.items()):
        ratios = np.zeros(len(dataset)) if name == DATA else log_ratios(behaviour, dataset, each)
        robust = doubly_robust(dataset, discount, ratios, each.known, q[place], v[place], later[place])
        found[name] = robust, bias(dataset, discount, ratios, each.known, q[place], later[place])
    return found
