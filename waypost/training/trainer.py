"""A training from data to result, in memory or in a run directory.

The tables and the policy of a run directory are derived from its checkpoint: if the process dies, the checkpoint
alone decides where the training continues, and the final weights are bit-identical to an uninterrupted run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from waypost.agents import able
from waypost.agents.agent import Algorithm, Arrays, Spec, Stage
from waypost.agents.window import acting
from waypost.data.dataset import Dataset
from waypost.data.inspection import doubts
from waypost.data.large import Choice, obtain
from waypost.data.rewards import learning_rewards
from waypost.data.stream import Stream, sample
from waypost.envs.tasks import task as find_task
from waypost.errors import InterruptedRun, WaypostError
from waypost.files import table, write_json, write_text
from waypost.resources import cores, device_memory, enough_memory
from waypost.training.alarms import Alarms, described, reach
from waypost.training.beside import Evaluations
from waypost.training.callbacks import Callback, Callbacks
from waypost.training.compilation import keep_programs
from waypost.training.defaults import fitted
from waypost.training.directory import Claim, blaming_the_directory, claimed
from waypost.training.donor import begin_with, check_parts, donor_of, inherited, kept_behaviour, trains_all
from waypost.training.evaluation import MEASURES, can_act, check
from waypost.training.interruption import signals
from waypost.training.loop import Learner, learning_devices
from waypost.training.memory import check_steps
from waypost.training.plan import Plan, same_plan
from waypost.training.policy import Policy, blank, missing_parts, save_policies
from waypost.training.records import read_config
from waypost.training.runs import Run, last_evaluations, load_run, result
from waypost.training.shown import Shown, reward_scale, some_episodes
from waypost.training.state import identity, load_state, save_state
from waypost.training.validation import FEWEST_EPISODES, Best, HeldOut, Stalled, split

CHECKPOINT_SECONDS = 30.0
"""A checkpoint is written at every evaluation and stage end, and at least this often."""


def execute(
    planned: Plan[Any],
    data: str | Path | Dataset,
    out: str | Path | None = None,
    resume: bool = False,
    callback: Callback | None = None,
) -> Run:
    """Carry out a plan."""
    callback = callback or Callback()
    keep_programs()
    if out is None:
        if resume:
            raise WaypostError("resume needs a run directory; name it with out")
        with enough_memory(planned.data):
            return _Training(planned, data, None, callback).run()
    directory = Path(out)
    with ExitStack() as claims:
        # A finished run no longer changes: it is read without a claim, so a read-only disk works too.
        finished = _finished(planned, directory, callback) if resume else None
        if finished is not None:
            return finished
        # An existing directory is claimed first; a new one is made only once nothing can go wrong any more.
        claim = claims.enter_context(claimed(directory, resume)) if directory.exists() else None
        claims.enter_context(enough_memory(planned.data))
        training = _Training(planned, data, directory, callback)
        claim = claim or claims.enter_context(claimed(directory, resume))
        # Another process may have finished it in the meantime.
        finished = _finished(planned, directory, callback)
        if finished is not None:
            return finished
        training.open(claim)
        return training.run()


def _finished(planned: Plan[Any], directory: Path, callback: Callback) -> Run | None:
    """The run of a directory, if it is finished; it must have the given plan."""
    with blaming_the_directory():
        if not (directory / "result.json").is_file():
            return None
        same_plan(planned, directory)
        callback.note(f"{directory} is already finished")
        return load_run(directory)


class _Training:
    """A training in progress."""

    def __init__(self, planned: Plan[Any], data: str | Path | Dataset, directory: Path | None, callback: Callback):
        self.plan, self.directory, self.callback = planned, directory, callback
        self.task = find_task(planned.task) if planned.task else None
        choice, recording = self._stream_choice(), callback.recording
        dataset, self.streamed = obtain(data, planned.columns, choice, _device_room, recording, planned.pipeline)
        if dataset.reading is not None:
            planned = replace(planned, pipeline=dataset.reading.pipeline)
        some = sample(dataset) if self.streamed else dataset
        donor = donor_of(planned)
        self.plan = planned = fitted(planned, some, len(dataset), donor.config if donor else None)
        self.reading = dataset.reading
        self.fingerprint = dataset.fingerprint()
        chosen = able(dataset, planned.algorithm, self.streamed).load()
        # Rewards are rewritten for the whole data set: this takes all returns, and a window has only some.
        rewarded = learning_rewards(dataset, planned.convention, getattr(planned.config, "discount", 0.99))
        scale = reward_scale(dataset, rewarded, planned.convention)
        columns, self.spec = self._columns(chosen, rewarded, scale)
        for doubt in doubts(some):
            callback.note(f"warning: {doubt}")
        self.alarms = Alarms(planned.config, some, reach(rewarded, getattr(planned.config, "discount", 1.0)))
        del dataset, some, rewarded
        self.warm = donor is not None and trains_all(chosen, planned, self.spec)
        """Whether it continues from another run's weights."""
        if donor is not None:
            self.spec = inherited(self.spec, donor, self.warm, planned)
        seen, done = self.spec.names_in_time, self.spec.action_names
        self.task = self.task and replace(self.task, names=seen, action_names=done)
        self.algorithm: Algorithm = chosen(planned.config, self.spec, planned.steps)
        check_steps(self.algorithm, planned.log_every)
        parts = donor.agent if donor and not self.warm else None
        self.learner = Learner(self.algorithm, columns, planned.seeds, parts)
        del columns  # they are on the device now, or in a file
        self.validation = HeldOut(self.algorithm, self.held_out) if self.held_out else None
        if self.warm:
            begin_with(self.learner, planned)
        agent = self.learner.states[0].agent
        check_parts(agent, blank(chosen, planned.config, self.spec, missing_parts(agent)), planned)
        self.metrics: list[dict[str, Any]] = []
        self.evaluations: list[dict[str, Any]] = []
        self.seconds = 0.0
        self.saved: int | None = None
        """The step of the last checkpoint."""
        self.stopped: dict[str, Any] | None = None
        """Where and why a callback ended the training before its last step."""
        self.beside: Evaluations | None = None
        if self.task is not None and can_act(agent, self.spec, self.task):
            check(acting(agent, self.spec), self.task)
            self.beside = Evaluations(self.task, planned.evaluation, planned.seeds)
        self.metric_names = self.learner.metric_names(lambda stage: self._steps(stage, 0))
        self.metric_names += self.validation.names(self.metric_names) if self.validation else []
        self.best = Best(planned.keep_best, self.metric_names, directory) if planned.keep_best else None
        self.stalled: Stalled | None = None
        if planned.stop_early and self.validation:
            last = self.algorithm.stages[-1].name
            known = self.validation.names(self.learner.metrics_of[last])
            self.stalled = Stalled(planned.stop_early, planned.patience, last, known)
            self.callback = Callbacks(callback, self.stalled)

    def _stream_choice(self) -> Choice:
        """The requested choice; a resumed run continues as it started, whatever the free memory."""
        if self.directory is None or not (self.directory / "config.json").is_file():
            return self.plan.stream
        with blaming_the_directory():
            return "always" if read_config(self.directory).get("streamed", False) else "never"

    def _columns(self, chosen: type[Algorithm], dataset: Dataset, scale: float | None) -> tuple[Arrays | Stream, Spec]:
        """What the learner draws from, and the spec of its agents."""
        config = self.plan.config
        dataset, held = split(dataset, self.plan.hold_out, self.streamed)
        self.held_out = None if held is None else chosen.prepare(config, held)[0]
        if held is not None and (count := len(held.episode_starts)) < FEWEST_EPISODES:
            few = f"{count} episode{'s are' if count > 1 else ' is'} held out"
            self.callback.note(f"warning: only {few}; `waypost judge` needs {FEWEST_EPISODES}: use a larger --hold-out")
        self.shown: Shown | None = None
        if self.task is None:
            seen = held or (sample(dataset) if self.streamed else dataset)
            self.shown = some_episodes(seen, held is not None, scale)
        if not self.streamed:
            return chosen.prepare(config, dataset)
        like, spec = chosen.prepare(config, sample(dataset))
        stream = Stream(dataset, lambda block: chosen.prepare(config, block)[0], like, config.batch_size)
        self.callback.note(
            f"{self.plan.data}: {len(dataset)} rows streamed in {stream.windows} windows of {stream.updates} updates"
        )
        return stream, spec

    # -- the loop -------------------------------------------------------------------------------

    def run(self) -> Run:
        begun = time.monotonic() - self.seconds
        last_saved = time.monotonic()
        stages = self.algorithm.stages
        total = sum(stage.steps for stage in stages)
        self.callback.start(self.plan, total, self.learner.step)
        with signals() as stopped:
            try:
                # A run that was interrupted during an evaluation repeats it first.
                self._evaluate()
                first = 0
                for stage in stages:
                    while self.learner.step < first + stage.steps and self.stopped is None:
                        means = self.learner.advance(stage, self._steps(stage, self.learner.step - first))
                        self._log(stage, means)
                        self.callback.advance(stage.name, self.learner.step)
                        stop, ended = stopped(), self.learner.step == first + stage.steps
                        self._take_evaluation(wait=stop)
                        due = not stop and self._evaluate()
                        if not stop and not ended:
                            self._ask_callback(stage)
                        pause = self.learner.step < total and self.callback.wants_pause(self.learner.step)
                        if pause:  # a paused run is looked at, so its evaluation must be there
                            self._take_evaluation(wait=True)
                        if due or ended or stop or pause or time.monotonic() - last_saved > CHECKPOINT_SECONDS:
                            self.seconds = time.monotonic() - begun
                            self.save()
                            last_saved = time.monotonic()
                        if due and cores() == 1:  # on one core they would only take turns
                            self._take_evaluation(wait=True)
                        if pause and self.directory is not None:
                            save_policies(self._policies(), self.directory / "policy")
                        if stop or pause:
                            raise InterruptedRun(self.learner.step)
                    first += stage.steps
                self._take_evaluation(wait=True)
            finally:
                self.learner.close()
                if self.beside is not None:
                    self.beside.close()
                self.callback.stop()
        self.seconds = time.monotonic() - begun
        return self._finish()

    def _steps(self, stage: Stage, inside: int) -> int:
        """Updates from here to the next row of metrics, evaluation or end of the stage."""
        evaluates = self.beside is not None and stage is self.algorithm.stages[-1]
        every = self.plan.evaluation.every if evaluates else 0
        return min(_until(inside, self.plan.log_every), _until(inside, every), stage.steps - inside)

    def _due(self) -> bool:
        """Whether an evaluation is due at this step; only the last stage is evaluated."""
        *earlier, last = self.algorithm.stages
        inside, every = self.learner.step - sum(stage.steps for stage in earlier), self.plan.evaluation.every
        return inside > 0 and (inside == last.steps or (every > 0 and inside % every == 0))

    def _evaluate(self, last: bool = False) -> bool:
        """Start the evaluation of this step if one is due and not there yet, after the previous one has finished."""
        done = any(row["step"] == self.learner.step for row in self.evaluations)
        if self.beside is None or done or not (last or self._due()):
            return False
        self._take_evaluation(wait=True)
        self.beside.begin(self.learner.step, [acting(agent, self.spec) for agent in self.learner.agents])
        return True

    def _take_evaluation(self, wait: bool) -> None:
        rows = self.beside.take(wait) if self.beside is not None else []
        if rows:
            self.evaluations += rows
            self.callback.evaluated(rows[0]["step"], rows)

    def _ask_callback(self, stage: Stage) -> None:
        """Stop here if a callback asks for it, after an evaluation."""
        if not self.callback.may_stop:
            return
        self._take_evaluation(wait=True)
        if self._stop(self.callback.wants_stop()) and stage is self.algorithm.stages[-1]:
            self._evaluate(last=True)

    def _stop(self, reason: str) -> bool:
        """Stop here if there is a reason."""
        if reason:
            self.stopped = {"step": self.learner.step, "reason": reason}
            self.callback.note(f"stopped at step {self.learner.step}: {reason}")
        return bool(reason)

    def _log(self, stage: Stage, means: dict[str, np.ndarray]) -> None:
        means = means | (self.validation.measure(stage, self.learner) if self.validation else {})
        rows = [
            {"step": self.learner.step, "stage": stage.name, "seed": seed}
            | {name: float(values[i]) for name, values in means.items()}
            for i, seed in enumerate(self.plan.seeds)
        ]
        if self.best is not None:
            self.best.look(self.metrics, rows, self._policies)
        self.metrics += rows
        self.callback.logged(self.learner.step, rows)
        for alarm in self.alarms.look(self.learner.step, rows, lambda: [each.agent for each in self.learner.states]):
            self.callback.note(described(alarm))
            self.callback.alarmed(alarm)

    # -- the directory --------------------------------------------------------------------------

    def open(self, claim: Claim) -> None:
        """Start the directory, or go back to its last checkpoint."""
        self.claim, directory = claim, claim.directory
        file = directory / "config.json"
        config = {"waypost": version("waypost"), **self.plan.to_json()}
        config |= {"fingerprint": self.fingerprint, "streamed": self.streamed}
        with blaming_the_directory():
            if file.is_file():
                config = same_plan(self.plan, directory)
                if config.get("fingerprint") != self.fingerprint:
                    raise WaypostError(f"{directory}: {self.plan.data} has changed since the run started")
            else:
                write_json(file, config)
            self.identity = identity(config)
            saved = load_state(directory, self.identity, self.callback.note)
            if saved is not None:
                self._restore(*saved)

    def _restore(self, arrays: dict[str, np.ndarray], record: dict[str, Any]) -> None:
        try:
            self.learner.restore(arrays)
        except (KeyError, TypeError, ValueError, WaypostError) as error:
            raise WaypostError(f"{self.directory}: its checkpoint does not belong to this run ({error})") from None
        self.metrics, self.evaluations, self.seconds = record["metrics"], record["evaluations"], record["seconds"]
        self.alarms.raised += record.get("alarms", [])
        self.saved = self.learner.step
        if self.stalled is not None:
            self.stalled.recall(self.metrics)
            if self.learner.step < sum(stage.steps for stage in self.algorithm.stages):
                self._stop(self.stalled.wants_stop())

    @contextmanager
    def _saying_what_is_saved(self) -> Iterator[None]:
        """Add to a disk error what was saved before it."""
        try:
            yield
        except OSError as error:
            if self.saved is None:
                error.add_note("nothing was saved before")
            else:
                error.add_note(f"the checkpoint of step {self.saved} is kept; a resumed run continues from there")
            raise

    def save(self) -> None:
        """Write the checkpoint, then the tables that mirror it.

        Only an evaluation of the checkpoint's own step may be missing from it: the agents it holds can then be
        evaluated again.
        """
        if not self._due():
            self._take_evaluation(wait=True)
        if self.directory is None:
            return
        record = {
            "step": self.learner.step,
            "seconds": self.seconds,
            "metrics": self.metrics,
            "evaluations": self.evaluations,
            "run": self.identity,
            "alarms": self.alarms.raised,
        }
        self.claim.check()
        with self._saying_what_is_saved():
            save_state(self.directory, self.learner.snapshot(), record)
            self.saved = self.learner.step
            columns = ["step", "stage", "seed", *self.metric_names]
            write_text(self.directory / "metrics.csv", table(columns, self.metrics))
            write_text(self.directory / "evaluations.csv", table(["step", "seed", *MEASURES], self.evaluations))

    def _policies(self) -> list[Policy]:
        """The current agents."""
        plan, agents = self.plan, zip(self.plan.seeds, self.learner.agents, strict=True)
        return [Policy(plan.algorithm, plan.config, self.spec, agent, seed, self.reading) for seed, agent in agents]

    def _finish(self) -> Run:
        planned, policies = self.plan, self._policies()
        per_seed = last_evaluations(self.evaluations, planned)
        outcome = result(planned.algorithm, planned.data, self.task, planned.steps, per_seed, self.seconds)
        outcome |= {"alarms": self.alarms.raised}
        outcome |= {} if self.stopped is None else {"stopped": self.stopped}
        outcome |= {} if self.best is None else {"best": self.best.record(self.metrics)}
        if self.warm:
            outcome["warm_start"] = kept_behaviour(planned, policies[0], self.callback.note)
        run = Run(planned, outcome, policies, self.metrics, self.evaluations, self.directory, self.shown)
        if self.directory is None:
            self.callback.finished(run)
            return run
        self.save()
        with self._saying_what_is_saved():
            save_policies(policies, self.directory / "policy")
            self.callback.finished(run)
            write_json(self.directory / "result.json", outcome)
        return run


# -- small parts ---------------------------------------------------------------------------------


def _until(step: int, every: int) -> int:
    """Steps from here to the next multiple; a large number if there is none."""
    return every - step % every if every else 2**31


def _device_room() -> int | None:
    return device_memory(learning_devices()[0])
