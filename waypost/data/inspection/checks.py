"""What can be wrong or suspicious in data: each check is a function from measurements to findings."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from waypost.data.dataset import Dataset
from waypost.data.in_file import in_memory
from waypost.data.inspection.findings import Finding, Level, percent
from waypost.data.inspection.measurements import SAMPLE, STRIP, Measurements, ranges
from waypost.data.validation import bad_rows, blocks

TIMES = {"time stamp": "time-stamps", "gaps of": "time-gaps", "steps of time": "time-steps"}
"""Findings about time, by the words of a reader's note."""
READER = {"reader", *TIMES.values()}
"""Findings that repeat a reader's note."""
SHOWN = 5
"""Row numbers or names that a finding lists."""
MOST_NUMBERS, FEWEST_ROWS = 12, 50
"""Whole numbers of an action that may be choices, and rows from which on that tells anything."""
LARGE = 1e4
"""Numbers above this are too large for a network without scaling."""

TEXTS: dict[Any, dict[str, str]] = tomllib.loads(Path(__file__).with_name("texts.toml").read_text())
"""Texts of findings by level and name; words after the name tell variants apart."""


def finding(what: str, where: np.ndarray | int, level: Level | None = None, **values: object) -> Finding:
    """A finding about some rows, or about a count; `values` are put into its text."""
    usual = next(each for each, texts in TEXTS.items() if what in texts)
    text, name = TEXTS[usual][what].format(**values), what.partition(" ")[0]
    rows, count = ((), where) if isinstance(where, int) else (tuple(map(int, where[:SHOWN])), len(where))
    return Finding(level or usual, name, text, rows, count)


def listed(names: Iterable[str]) -> str:
    every = list(names)
    return ", ".join(every[:SHOWN]) + (f" and {len(every) - SHOWN} more" if len(every) > SHOWN else "")


def no_signal(dataset: Dataset) -> str:
    """Why the rewards cannot tell good from bad; empty if they can."""
    low, high = ranges(in_memory(dataset.require("rewards"))[:, None])
    if low[0] != high[0]:
        return ""
    if low[0] == 0:
        return "all rewards are 0"
    return "" if dataset.terminals.any() else f"all rewards are {low[0]:g} and no row is terminal"


def _reader(data: Measurements) -> Iterator[Finding]:
    for note in data.dataset.notes:
        known = next((name for words, name in TIMES.items() if words in note), "reader")
        yield finding(known, 0, note=note)


def _rewards(data: Measurements) -> Iterator[Finding]:
    rewards = data.rewards
    if rewards is None or not len(rewards):
        return
    why = no_signal(data.dataset)
    if why:
        yield finding("no-reward-signal", len(rewards), why=why)
    elif rewards.min() == rewards.max():
        yield finding("constant-rewards", len(rewards), reward=rewards[0])
    largest = float(np.abs(rewards).max())
    if largest > LARGE:
        yield finding("extreme-scale of rewards", 1, largest=largest)


def _outside(data: Measurements) -> Iterator[Finding]:
    if data.bounded is None:
        return
    actions, low, high = data.bounded
    slack = 1e-5 * np.maximum(1, np.maximum(abs(low), abs(high)))
    strips = (strip for _, strip in blocks(actions, STRIP))
    with np.errstate(invalid="ignore"):
        rows = np.flatnonzero(np.concatenate([((s < low - slack) | (s > high + slack)).any(axis=1) for s in strips]))
    if len(rows):
        by = np.fmax(low - actions[rows], actions[rows] - high)
        farthest = np.fmax.reduce(by - slack, axis=0)
        which = listed(name for name, far in zip(data.actions, farthest, strict=True) if far > 0)
        share = percent(len(rows) / len(actions))
        yield finding("actions-outside", rows, by=np.nanmax(by), share=share, which=which)


def _discrete(data: Measurements) -> Iterator[Finding]:
    """A single action of small whole numbers is most likely discrete; one of several may be."""
    dataset = data.dataset
    if dataset.actions is None or dataset.action_kind_declared or dataset.action_count:
        return
    if dataset.action_size != 1:
        found = [np.unique(column[np.isfinite(column)]) for column in dataset.actions[: 10 * SAMPLE].T]
        whole = [2 <= len(each) <= MOST_NUMBERS and bool((each == np.floor(each)).all()) for each in found]
        few = [name for name, each in zip(data.actions, whole, strict=True) if each]
        if 0 < len(few) < len(found) and len(dataset) >= FEWEST_ROWS:
            names = " ".join(few if dataset.action_names else [str(i) for i in np.flatnonzero(whole)])
            yield finding("discrete-actions among others", len(few), which=listed(few), names=names)
        return
    sample = dataset.actions[: 10 * SAMPLE, 0]
    if (sample == np.floor(sample)).all() and sample.min() >= 0 and 1 <= sample.max() < 100:
        largest = int(np.nanmax(dataset.actions))
        yield finding("discrete-actions", len(dataset), largest=largest, count=largest + 1)


def _unused(data: Measurements) -> Iterator[Finding]:
    """Discrete actions that are never taken."""
    for column, words in enumerate(data.dataset.action_choices):
        never = [f"{data.actions[column]}={words[i]}" for i in np.flatnonzero(data.chosen(column) == 0)]
        if never:
            yield finding("unused-actions", len(never), unused=len(never), count=len(words), which=listed(never))
    unused, count = np.flatnonzero(data.taken == 0), len(data.taken)
    if len(unused) == count - 1 and len(data.dataset) > 1:
        yield finding("dead-actions of discrete", len(unused), action=data.taken.argmax(), count=count)
    elif 0 < len(unused) < count:
        which = listed(map(str, unused))
        yield finding("unused-actions", len(unused), unused=len(unused), count=count, which=which)


def _dead(data: Measurements) -> Iterator[Finding]:
    actions = data.dataset.actions if data.dataset.action_count is None else None
    sides = [("dead-columns", data.states, data.ranges)]
    sides += [] if actions is None else [("dead-actions", data.actions, ranges(actions))]
    for what, names, (low, high) in sides:
        dead = np.flatnonzero(low == high)
        if len(dead) and len(data.dataset) > 1:
            which = listed(names[i] for i in dead)
            yield finding(what, len(dead), dead=len(dead), size=len(names), which=which)


def _copied(data: Measurements) -> Iterator[Finding]:
    """Actions that are observations too: a policy would only have to repeat what it reads."""
    both = [name for name in data.dataset.action_names if name in data.dataset.observation_names]
    if both:
        yield finding("observed-actions", len(both), which=listed(both))


def _scales(data: Measurements) -> Iterator[Finding]:
    size = np.maximum(*map(np.abs, data.ranges))
    large = np.flatnonzero(size > LARGE)
    if len(large):
        which = listed(data.states[i] for i in large)
        yield finding("extreme-scale", len(large), largest=np.nanmax(size), which=which)


def _motion(data: Measurements) -> Iterator[Finding]:
    dataset, (jumps, motionless) = data.dataset, data.motion
    inside = np.flatnonzero(jumps & ~dataset.ends)
    if len(inside):
        yield finding("unmarked-resets", inside, places=len(inside))
    at_ends = np.flatnonzero(jumps[:-1] & dataset.ends[:-1])
    across = at_ends[(dataset.next_observations[at_ends] == dataset.observations[at_ends + 1]).all(axis=1)]
    if len(across):
        yield finding("next-state-of-another-episode", across, episodes=len(across))
    still = np.flatnonzero(motionless)
    if len(still) >= 0.5 * len(dataset):
        yield finding("nothing-moves", still, share=percent(len(still) / len(dataset)))


def _endings(data: Measurements) -> Iterator[Finding]:
    dataset = data.dataset
    lengths, terminal, lasts = dataset.episode_lengths, dataset.terminals[dataset.ends], np.flatnonzero(dataset.ends)
    if len(dataset) > 1 and dataset.terminals.mean() > 0.5:
        share = percent(dataset.terminals.mean())
        yield finding("mostly-terminal", np.flatnonzero(dataset.terminals), share=share)
        return
    again = np.flatnonzero((lengths[1:] == 1) & terminal[1:] & terminal[:-1]) + 1
    if len(again) >= max(5, 0.05 * len(lengths)):
        yield finding("terminal-runs", dataset.episode_starts[again], episodes=len(again))
    longest = int(lengths.max())
    at_limit = terminal & (lengths == longest)
    other = np.bincount(lengths[terminal & (lengths < longest)]).max(initial=0)
    if longest == 1 or at_limit.sum() < max(5, 5 * other):
        return
    rows, rewards = lasts[at_limit], dataset.rewards
    # If the last rewards are above all others, a goal ended these episodes, not a time limit.
    if rewards is None or not rewards[rows].min() > np.delete(rewards, rows).max(initial=-np.inf):
        yield finding("timeouts-as-terminals", rows, ended=len(rows), episodes=len(lengths), longest=longest)


def _unknown(data: Measurements) -> Iterator[Finding]:
    rows = np.flatnonzero(~data.dataset.next_valid)
    share = len(rows) / len(data.dataset)
    if share >= 0.01:
        yield finding("unknown-next-states", rows, "warning" if share >= 0.1 else "note", share=percent(share))


QUICK = (_reader, _rewards, _outside, _discrete, _unused, _dead, _copied, _scales, _motion, _endings, _unknown)
"""Checks that cost almost nothing."""


def _sparse(data: Measurements) -> Iterator[Finding]:
    rewards = np.zeros(0) if data.rewards is None else data.rewards
    share = np.count_nonzero(rewards) / max(len(rewards), 1)
    if 0 < share < 0.05:
        rows = np.flatnonzero(np.nan_to_num(data.dataset.require("rewards")))
        yield finding("sparse-rewards", rows, share=percent(share))


def _saturated(data: Measurements) -> Iterator[Finding]:
    often = np.flatnonzero(data.saturation >= 0.2)
    if len(often):
        which = listed(data.actions[i] for i in often)
        yield finding("saturated-actions", len(often), share=percent(data.saturation.max()), which=which)


def _one_episode(data: Measurements) -> Iterator[Finding]:
    if len(data.dataset.episode_starts) == 1 < len(data.dataset) and not data.motion[0].any():
        yield finding("one-episode", 1)


def _duplicates(data: Measurements) -> Iterator[Finding]:
    twins = [f"{column.name} = {column.duplicate_of}" for column in data.columns if column.duplicate_of]
    if twins:
        yield finding("duplicate-columns", len(twins), which=listed(twins))


THOROUGH = (_sparse, _saturated, _one_episode, _duplicates)
"""Further checks of an inspection."""


def not_finite(data: Measurements) -> Iterator[Finding]:
    names = {"observations": data.states, "next_observations": data.states, "actions": data.actions}
    for column in (*names, "rewards"):
        values = getattr(data.dataset, column)
        rows = np.zeros(0, np.int64) if values is None else bad_rows(values)
        if len(rows):
            which = ""
            if column in names:
                bad = np.flatnonzero(~np.isfinite(values[rows]).all(axis=0))
                which = f" ({listed(names[column][i] for i in bad)})"
            yield finding("not-finite", rows, column=column, bad=len(rows), rows=len(values), which=which)


def repeated(rows: np.ndarray, of: int) -> Iterator[Finding]:
    if len(rows) >= 0.001 * of:
        level: Level = "warning" if len(rows) >= 0.01 * of else "note"
        yield finding("repeated-transitions", rows, level, share=percent(len(rows) / of))
