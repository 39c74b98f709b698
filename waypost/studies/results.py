"""A folder of results: the outcome of each finished training, as a small JSON file without weights.

It holds
    LABEL/SEED.json   a training: its plan, the scores of every evaluation, its time (LABEL is DATA/ALGORITHM)
    recipe.json       what all of them share: minutes or steps, evaluation, settings that override the presets
    rates.json        the time of updates, which turns equal minutes into numbers of updates
A training with a file is not run again if it has the same plan and learned from the same rows. So work continues after
an interruption, even on another machine that has only the folder. Several processes can work in one folder: each takes
trainings that no other one works on. A training runs in memory: an interrupted one starts again.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from waypost.data.dataset import Dataset
from waypost.data.sources import kept_file, load, recipe_of
from waypost.envs.tasks import task as find_task
from waypost.errors import DivergenceError, InterruptedRun, WaypostError
from waypost.files import write_json
from waypost.locks import alone
from waypost.resources import cpu_name
from waypost.studies.budget import Rates, with_minutes
from waypost.studies.updates import total_updates
from waypost.training.callbacks import Callback, Callbacks
from waypost.training.plan import Plan, plan_from_json
from waypost.training.records import Moment, Row, read_record
from waypost.training.runs import Run, result
from waypost.training.speed import Stopwatch
from waypost.training.trainer import execute

IDENTITY = ("algorithm", "data", "task", "steps", "rewards", "evaluation", "config", "seeds")
"""The fields that identify a training; the rest of a plan does not change what it learns."""


class NotTrained(WaypostError):
    """A training that is not in the folder, and that must not run or runs in another process."""


class Recipe(TypedDict):
    """The contents of recipe.json."""

    minutes: float | None
    steps: int | None
    evaluation: dict[str, int]
    settings: dict[str, dict[str, Any]]


class Finished(TypedDict):
    """The contents of SEED.json."""

    identity: str
    plan: dict[str, Any]
    updates: int
    fingerprint: str
    """Of the data."""
    cpu: str
    suite: str | None
    final: NotRequired[Row]
    """The mean of the last evaluations, as in the plan; missing if the training failed."""
    evaluations: list[Moment]
    core_seconds: float | None
    """Of the updates, without compilation and evaluations; None if a run directory was finished before."""
    seconds: float
    """From start to end."""
    versions: NotRequired[dict[str, str]]
    note: NotRequired[str]
    """Why there is no score."""
    donor: NotRequired[str]
    """The identity of the training that provided the parts this one leaves out."""


@dataclass(frozen=True, eq=False)
class Donor:
    """An agent that provides parts of others: trained in a run directory when first needed."""

    plan: Plan[Any]
    data: str | Path | Dataset
    place: Path
    callback: Callback

    def run(self) -> Run:
        """Its run; if another process works on it, wait."""
        with alone(self.place):
            return execute(self.plan, self.data, self.place, resume=True, callback=self.callback)


class Results:
    """The folder, to read from and, unless `read_only`, to work in."""

    def __init__(self, folder: Path, read_only: bool = False):
        self.folder, self.read_only = folder, read_only
        self.rates = Rates(folder / "rates.json", read_only)
        self._loaded: tuple[str, Dataset] | None = None
        self._fingerprints: dict[str, str] = {}

    # -- what all trainings share -----------------------------------------------------------------

    def agree(self, given: Recipe) -> Recipe:
        """The folder's recipe, after checking that `given` agrees with it; a new folder stores it."""
        file = self.folder / "recipe.json"
        if not file.is_file():
            if self.read_only:
                raise WaypostError(f"{self.folder}: holds no results; train some without --read-only")
            with alone(file):
                if not file.is_file():
                    write_json(file, given)
        kept: Recipe = read_record(file, Recipe)
        for name, value in given.items():
            if value and value != kept[name]:  # type: ignore[literal-required]
                raise WaypostError(
                    f"{file}: has other {name}; choose another --results, or edit this file: "
                    "trainings that this changes run again"
                )
        return kept

    def with_minutes(self, planned: Plan[Any], minutes: float, data: str | Path | Dataset) -> Plan[Any]:
        """The plan with as many updates as fit in these minutes on a core, by this folder's rates."""
        seconds = self.rates.seconds(planned, lambda: self._load(data))
        if seconds is None:
            raise NotTrained("not trained yet")
        return with_minutes(planned, minutes, seconds)

    # -- trainings --------------------------------------------------------------------------------

    def seeds(self, label: str) -> list[int]:
        """The seeds that have a file."""
        return sorted(int(file.stem) for file in (self.folder / label).glob("*.json") if file.stem.isdecimal())

    def run(
        self,
        planned: Plan[Any],
        data: str | Path | Dataset,
        label: str,
        callback: Callback,
        donor: Donor | None = None,
        place: Path | None = None,
    ) -> Run:
        """The agents of a plan as one run: each is read, or trained by itself; the others are left out.

        place   a run directory to train in, if the weights are needed; by default nothing else is written
        Agents that are read have no policies. A run without any agent is an error.
        """
        seeds = [replace(planned, seeds=(seed,)) for seed in planned.seeds]
        found = [run for each in seeds if (run := self._one(each, data, label, callback, donor, place)) is not None]
        if not found:
            raise NotTrained("not trained yet")
        return found[0] if len(found) == 1 else _joined(planned, found)

    def _one(
        self,
        planned: Plan[Any],
        data: str | Path | Dataset,
        label: str,
        callback: Callback,
        donor: Donor | None,
        place: Path | None,
    ) -> Run | None:
        """The agent of a plan with one seed: read, or trained; None if it must not be trained."""
        file = self.folder / label / f"{planned.seeds[0]}.json"
        due: dict[str, Any] = {"identity": identity(planned, donor), "plan": planned.to_json()}
        due |= {"updates": total_updates(planned), "cpu": cpu_name()}
        due |= {} if donor is None else {"donor": identity(donor.plan)}
        due |= {} if self.read_only else {"fingerprint": self._fingerprint(data)}
        found = self._read(file, planned, due, callback)
        if found is not None or self.read_only:
            return found
        with alone(file, wait=False) as held:
            if not held:
                callback.note(f"{file}: another process works on it")
                return None
            # Another process may have finished it in the meantime.
            found = self._read(file, planned, due, callback)
            if found is not None:
                return found
            if donor is not None:
                planned = replace(planned, init=str(donor.run().directory))
            dataset = self._load(data, callback)
            return _train(file, planned, dataset, due | {"fingerprint": dataset.fingerprint()}, callback, place)

    def _read(self, file: Path, planned: Plan[Any], due: dict[str, Any], callback: Callback) -> Run | None:
        """The run of a file, if it is the requested one."""
        if not file.is_file():
            return None
        record: Finished = read_record(file, Finished)
        why = _difference(record, planned, due, file)
        if why:
            callback.note(f"{file}: {why}; it is ignored")
            return None
        return _run(record, planned)

    # -- data -------------------------------------------------------------------------------------

    def _load(self, data: str | Path | Dataset, callback: Callback | None = None) -> Dataset:
        """The data; named data are kept until others are needed."""
        if isinstance(data, Dataset):
            return data
        if self._loaded is None or self._loaded[0] != str(data):
            self._loaded = None
            self._loaded = str(data), load(data, progress=callback.recording if callback else None)
        return self._loaded[1]

    def _fingerprint(self, data: str | Path | Dataset) -> str | None:
        """That of the data, if they are here: nothing is recorded only to see that all trainings are finished."""
        if isinstance(data, Dataset):
            return data.fingerprint()
        made, name = recipe_of(str(data)), str(data)
        if made is not None and made[0].transitions is not None and not kept_file(made[0].name, made[1]).is_file():
            return None
        if name not in self._fingerprints:
            self._fingerprints[name] = self._load(data).fingerprint()
        return self._fingerprints[name]


def identity(planned: Plan[Any], donor: Donor | None = None) -> str:
    """A digest of the fields that identify a training."""
    told = _told(planned) | ({} if donor is None else {"donor": identity(donor.plan)})
    return hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=16).hexdigest()


def _told(planned: Plan[Any]) -> dict[str, Any]:
    record = planned.to_json()
    record["evaluation"].pop("workers")
    return {name: record[name] for name in IDENTITY}


def _difference(record: Finished, planned: Plan[Any], due: dict[str, Any], file: Path) -> str:
    """Why a file does not belong to the planned training; empty if it does."""
    try:
        # Compared as plans: settings added later have their defaults.
        kept = _told(plan_from_json(record["plan"], file))
    except WaypostError:
        return "is from another version of Waypost"
    wanted = _told(planned)
    other = [name for name in IDENTITY if kept[name] != wanted[name]]
    other += ["donor"] if record.get("donor") != due.get("donor") else []
    if other:
        return f"has other {', '.join(other)}"
    # Another kind of processor rounds differently, so its recording of the same data may differ.
    if due.get("fingerprint") not in (None, record["fingerprint"]) and record["cpu"] == due["cpu"]:
        return "learned from other rows"
    return ""


def _train(
    file: Path, planned: Plan[Any], dataset: Dataset, due: dict[str, Any], callback: Callback, place: Path | None
) -> Run:
    """Train and write the file."""
    watch = Stopwatch()
    try:
        with alone(place) if place is not None else nullcontext():
            run = execute(planned, dataset, place, resume=place is not None, callback=Callbacks(callback, watch))
    except DivergenceError as error:
        # It would fail the same way again.
        task = find_task(planned.task) if planned.task else None
        due |= {"suite": task.suite if task else None, "evaluations": [], "note": str(error)}
        write_json(file, due | {"core_seconds": watch.seconds, "seconds": watch.elapsed})
        raise
    except InterruptedRun:
        if place is None:  # nothing was saved
            raise KeyboardInterrupt from None
        raise
    due |= {name: run.result[name] for name in ("suite", "seconds", "versions")}
    due |= {"core_seconds": watch.seconds, "evaluations": run.evaluations}
    due["final"] = {name: value for name, value in run.result["per_seed"][0].items() if name != "seed"}
    write_json(file, due)
    run.result.update(core_seconds=due["core_seconds"], rows=[due["fingerprint"]])
    return run


def _run(record: Finished, planned: Plan[Any]) -> Run:
    if "final" not in record:
        raise DivergenceError(record.get("note", "failed"))
    task = find_task(planned.task) if planned.task else None
    per_seed = [{"seed": planned.seeds[0], **record["final"]}]
    outcome = result(planned.algorithm, planned.data, task, planned.steps, per_seed, record["seconds"])
    outcome |= {"core_seconds": record["core_seconds"], "rows": [record["fingerprint"]]}
    outcome["versions"] = record.get("versions", {})
    rows: list[dict[str, Any]] = [dict(row) for row in record["evaluations"]]
    return Run(planned, outcome, [], [], rows)


def _joined(planned: Plan[Any], runs: list[Run]) -> Run:
    """Runs of one plan with one seed each as a single run."""
    planned = replace(planned, seeds=tuple(run.plan.seeds[0] for run in runs))
    per_seed = [each for run in runs for each in run.result["per_seed"]]
    seconds = sum(run.result["seconds"] for run in runs)
    task = find_task(planned.task) if planned.task else None
    outcome = result(planned.algorithm, planned.data, task, planned.steps, per_seed, seconds)
    known = [run.result["core_seconds"] for run in runs]
    outcome["core_seconds"] = None if None in known else sum(known)
    outcome["rows"] = sorted({each for run in runs for each in run.result["rows"]})
    rows = sorted((row for run in runs for row in run.evaluations), key=lambda row: row["step"])
    return Run(planned, outcome, [each for run in runs for each in run.policies], [], rows)
