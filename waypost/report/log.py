"""The part of a page for runs without a simulator: the policy compared with the log, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from waypost.agents.fqe import discounted_to_go
from waypost.errors import WaypostError
from waypost.figures.episodes import Panel, episode_chart, trend, trend_chart
from waypost.report.page import DASH, Picture, picture
from waypost.training.policy import Policy
from waypost.training.replay import candidate
from waypost.training.runs import Run
from waypost.training.shown import Picked, Shown, shown_again
from waypost.types import Doubles

FEWEST = 100
"""Policies with fewer updates have not learned anything."""
MOST_ACTIONS, MOST_COLUMNS = 3, 4
"""The most columns of actions and of observations that are drawn: those where the policy differs most."""
THIRDS = ("nearest third", "middle third", "farthest third")

Rows = list[list[str]]


@dataclass(frozen=True)
class LogSection:
    """The policy compared with the log."""

    words: str
    """A sentence about the comparison, or why there is none."""
    errors: Rows
    """For each action: its name, the mean distance in its own units, and in standard deviations of the log."""
    episodes: Sequence[Picture]
    """A good one, a typical one and a bad one."""
    trends: Picture | None
    """Recorded and proposed actions over the range of the columns."""
    expected_header: Sequence[str]
    expected: Rows
    """Where the policy differs from the log, and what V expects there."""


def log_section(run: Run) -> LogSection:
    """The first policy of a run compared with recorded episodes."""
    if run.plan.steps < FEWEST:
        return _words_only(f"The policy is not compared with the log: it has fewer than {FEWEST} updates.")
    try:
        beside = Beside(run.policy, run.shown or shown_again(run.plan))
    except (WaypostError, OSError) as error:
        return _words_only(f"The policy cannot be compared with recorded episodes: {error}.")
    return LogSection(
        beside.words(), beside.errors(), beside.episodes(), beside.trends(), beside.expected_header(), beside.expected()
    )


def _words_only(words: str) -> LogSection:
    return LogSection(words, [], (), None, (), [])


class Beside:
    """The recorded actions and the policy's in the same rows."""

    def __init__(self, policy: Policy, shown: Shown):
        self.policy, self.shown, self.dataset = policy, shown, shown.dataset
        self.recorded = np.asarray(self.dataset.require("actions"), np.float64)
        self.proposed = np.asarray(candidate(policy, self.dataset).actions, np.float64)
        self.discrete = self.dataset.action_count is not None
        self.names = _names(policy.spec.action_names, self.recorded.shape[1], "action")
        spread = self.recorded.std(axis=0)
        self.spread = np.where((spread > 0) & (not self.discrete), spread, 1.0)
        self.apart = np.abs(self.proposed - self.recorded) / self.spread
        if self.discrete:
            self.apart = (self.apart != 0).astype(np.float64)
        self.departure = np.sqrt((self.apart**2).mean(axis=1))
        """Distance of each row."""
        self.value = self._ask("value", self.dataset.observations)
        self.earned = None
        if self.value is not None and self.dataset.rewards is not None:
            self.earned = discounted_to_go(self.dataset, policy.config.discount) / self._unit

    @property
    def _unit(self) -> float:
        return self.shown.scale or 1.0

    def _ask(self, what: str, observations: np.ndarray) -> Doubles | None:
        """V in units of the recorded rewards, if these were only scaled, or the guide's goals; None without one."""
        try:
            found = np.asarray(getattr(self.policy, what)(observations), np.float64)
        except WaypostError:
            return None
        return found / self._unit if what == "value" else found

    def words(self) -> str:
        """The comparison in a sentence."""
        kind = "held-out" if self.shown.held_out else "recorded"
        asked = f"{len(self.dataset)} rows of {len(self.dataset.episode_starts)} {kind} episodes"
        if self.discrete:
            far = f"differs from the recorded action in {self.departure.mean():.0%} of them"
        else:
            far = f"is {self.departure.mean():.2g} standard deviations away from the recorded actions on average"
        return f"In {asked}, the policy of seed {self.policy.seed} {far}. The log's own mistakes count too."

    def errors(self) -> Rows:
        if self.discrete:
            return []
        distances = self.apart.mean(axis=0)
        return [
            [name, f"{distance * spread:.3g}", f"{spread:.3g}", f"{distance:.2g}"]
            for name, distance, spread in zip(self.names, distances, self.spread, strict=True)
        ]

    def episodes(self) -> list[Picture]:
        return [self._episode(each) for each in self.shown.picked]

    def _episode(self, picked: Picked) -> Picture:
        first = int(self.dataset.episode_starts[picked.place])
        rows = slice(first, first + int(self.dataset.episode_lengths[picked.place]))
        panels = [
            Panel(self.names[i], self.recorded[rows, i], self.proposed[rows, i], self.discrete)
            for i in self._most_departed()
        ]
        caption = f"{picked.words.capitalize()}: recorded and proposed actions"
        caption += "" if picked.earned is None else f"; its return is {picked.earned:.4g}"
        if self.value is not None and self.earned is not None:
            panels.append(Panel("return to go", self.earned[rows], self.value[rows]))
            caption += "; discounted return from each row, and what V expected"
        alt = f"Line charts over {rows.stop - rows.start} rows of {picked.words}."
        return picture(episode_chart(panels), f"{caption}.", alt)

    def _most_departed(self) -> list[int]:
        return sorted(np.argsort(-self.apart.mean(axis=0), kind="stable")[:MOST_ACTIONS].tolist())

    def trends(self) -> Picture | None:
        """Recorded and proposed actions over the columns along which they differ most."""
        spec, now = self.policy.spec, self.dataset.observations
        width = now.shape[1] // spec.history
        now, names = now[:, -width:].astype(np.float64), _names(spec.names_in_time, width, "observation")
        moving = [i for i in range(width) if now[:, i].std() > 0]
        actions = self._most_departed()
        found = {(a, c): trend(now[:, c], self.recorded[:, a], self.proposed[:, a]) for a in actions for c in moving}
        parting = {
            c: sum(float(np.std(found[a, c].agent - found[a, c].recorded) / self.spread[a]) for a in actions)
            for c in moving
        }
        columns = sorted(sorted(moving, key=lambda c: -parting[c])[:MOST_COLUMNS])
        if not columns:
            return None
        figure = trend_chart(
            [[found[a, c] for c in columns] for a in actions],
            [names[c] for c in columns],
            [self.names[a] for a in actions],
        )
        shown = f"Mean action over {', '.join(names[c] for c in columns)}"
        return picture(figure, f"{shown}: where the policy differs from the log.", f"{shown}, recorded and proposed.")

    def expected_header(self) -> list[str]:
        unit = "" if self.shown.scale is not None else ", learning rewards"
        header = ["Rows by distance", "Differs" if self.discrete else "Distance (standard deviations)"]
        header += [f"V expects{unit}"] if self.value is not None else []
        header += [f"Recorded return{unit}"] if self.earned is not None else []
        return header + (["V of its waypoint minus V of the next row"] if self._reach is not None else [])

    def expected(self) -> Rows:
        """The rows in three parts of equal size, by the distance of the policy from the log."""
        if self.value is None:
            return []
        rows: Rows = []
        for name, part in zip(THIRDS, np.array_split(np.argsort(self.departure, kind="stable"), 3), strict=True):
            columns = [each for each in (self.value, self.earned, self._reach) if each is not None]
            far = f"{self.departure[part].mean():.0%}" if self.discrete else f"{self.departure[part].mean():.2g}"
            rows.append([name, far, *(_mean(each[part]) for each in columns)])
        return rows

    @property
    def _reach(self) -> Doubles | None:
        """V of the guide's goal minus V of the recorded next state."""
        goals = self._ask("guide", self.dataset.observations)
        if goals is None:
            return None
        aimed, came = self._ask("value", goals), self._ask("value", self.dataset.next_observations)
        if aimed is None or came is None:
            return None
        return np.where(self.dataset.next_valid, aimed - came, np.nan)


def _mean(values: Doubles) -> str:
    return f"{np.nanmean(values):.4g}" if np.isfinite(values).any() else DASH


def _names(known: Sequence[str], count: int, kind: str) -> list[str]:
    return list(known) if known else [kind if count == 1 else f"{kind} {i}" for i in range(count)]
