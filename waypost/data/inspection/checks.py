"""What can be wrong or doubtful about data: each check is a function from what was measured to its findings."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from waypost.data.dataset import Dataset, bad_rows
from waypost.data.inspection.findings import Column, Finding, Level, percent
from waypost.types import Flags, Floats

STRIP = 1 << 13
"""Rows worked on together: few enough to stay in the processor's cache."""
SHOWN = 5
"""Row numbers or names a finding lists."""
SAMPLE = 20_000
"""Rows that stand for all where only a typical size is wanted."""
TYPICAL = 0.9
"""Quantile of a column's steps that counts as typical: resets stay above it in episodes of ten rows and more."""
LOUD, FAR = 3.0, 10.0
"""Typical steps that most columns make in a jump, and that one of them makes at least."""
EDGE = 0.005
"""Share of an action's range that counts as being at the bound."""
LARGE = 1e4
"""Numbers above this are too large for a network to read as they are."""


# -- what several checks measure -----------------------------------------------------------------


class Motion(NamedTuple):
    """How the state changes from each row to its next state."""

    jumps: Flags
    """It changes so much at once that another episode must have begun."""
    still: Flags
    """Nothing changes."""


class Look:
    """A data set and what more than one check asks about it; NaN is a gap, infinities are not there any more."""

    def __init__(self, dataset: Dataset):
        self.dataset = dataset

    @cached_property
    def rewards(self) -> Floats | None:
        """The rewards that are known."""
        rewards = self.dataset.rewards
        return None if rewards is None else rewards[~np.isnan(rewards)]

    @cached_property
    def ranges(self) -> tuple[Floats, Floats]:
        """Smallest and largest value of each observation column."""
        return _ranges(self.dataset.observations)

    @cached_property
    def motion(self) -> Motion:
        return _motion(self.dataset, *self.ranges)

    @cached_property
    def saturation(self) -> np.ndarray:
        """Share of the rows at a bound, for each action."""
        actions, low, high = self.dataset.actions, self.dataset.action_low, self.dataset.action_high
        if actions is None or low is None or high is None or self.dataset.action_count is not None:
            return np.zeros(0)
        edge = EDGE * (high - low)
        at_bound = sum(
            ((abs(strip - low) <= edge) | (abs(strip - high) <= edge)).sum(axis=0) for strip in _strips(actions)
        )
        return np.where(high > low, at_bound / len(actions), 0.0)

    @cached_property
    def taken(self) -> np.ndarray:
        """In how many rows each of the numbered actions is taken."""
        actions, count = self.dataset.actions, self.dataset.action_count
        if actions is None or count is None:
            return np.zeros(0, np.int64)
        return np.bincount(actions[~np.isnan(actions)].astype(np.int64), minlength=count)


def no_signal(dataset: Dataset) -> str:
    """Why the rewards cannot tell good from bad, or nothing where they can."""
    low, high = _ranges(dataset.require("rewards")[:, None])
    if low[0] != high[0]:
        return ""
    if low[0] == 0:
        return "all rewards are 0"
    return "" if dataset.terminals.any() else f"all rewards are {low[0]:g} and no row is terminal"


def _ranges(values: np.ndarray) -> tuple[Floats, Floats]:
    """Smallest and largest known value of each column."""
    low, high = values.min(axis=0), values.max(axis=0)
    if np.isnan(low).any():
        return np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)
    return low, high


def _strips(values: np.ndarray) -> Iterator[np.ndarray]:
    for first in range(0, len(values), STRIP):
        yield values[first : first + STRIP]


def _motion(dataset: Dataset, low: Floats, high: Floats) -> Motion:
    """Find unmarked resets: rows where most columns change far more than they ever do otherwise, for one row only.

    A column takes part if its range is many of its typical steps, so that it could show a jump, and if it mostly
    moves, which a flag, a goal or a contact force does not. Contacts kick velocities but not positions, an angle wraps
    alone: neither moves most of the columns. A burst that does lasts for more than a row or comes in numbers; a reset
    stands alone.
    """
    observations, following = dataset.observations, dataset.next_observations
    rows = np.linspace(0, len(dataset) - 1, min(len(dataset), SAMPLE)).astype(np.int64)
    rows = rows[dataset.next_valid[rows]]
    rows = rows[np.isfinite(following[rows] - observations[rows]).all(axis=1)]
    typical, part = np.ones(dataset.observation_size, np.float32), np.zeros(dataset.observation_size, bool)
    if len(rows):
        steps = np.abs(following[rows] - observations[rows])
        typical = np.quantile(steps, TYPICAL, axis=0).astype(np.float32)
        span = high - low
        moves = (steps > 0).mean(axis=0) >= 0.5
        part = moves & (span > FAR * typical) & (typical > 1e-5 * span)
    most = part.sum() // 2 + 1
    loud, stirred, still = (np.zeros(len(dataset), bool) for _ in range(3))
    with np.errstate(invalid="ignore", over="ignore"):
        for first in range(0, len(dataset), STRIP):
            block = slice(first, first + STRIP)
            steps = np.abs(following[block] - observations[block])
            still[block] = ~steps.any(axis=1)
            steps = steps[:, part] / typical[part]
            stirred[block] = (steps > LOUD / 2).sum(axis=1) >= most
            loud[block] = ((steps > LOUD).sum(axis=1) >= most) & (steps > FAR).any(axis=1)
    loud &= dataset.next_valid
    alone = loud & ~np.append(stirred[1:], False) & ~np.append(False, stirred[:-1])
    resets = alone.sum() >= 2 and 2 * alone.sum() > loud.sum()
    return Motion(alone if resets else np.zeros_like(alone), still & dataset.next_valid)


# -- the checks: quick ones ----------------------------------------------------------------------


def _finding(level: Level, what: str, text: str, rows: np.ndarray | None = None, count: int = 0) -> Finding:
    if rows is None:
        return Finding(level, what, text, count=count)
    return Finding(level, what, text, tuple(map(int, rows[:SHOWN])), len(rows))


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    return ", ".join(every[:SHOWN]) + (f" and {len(every) - SHOWN} more" if len(every) > SHOWN else "")


def _reader(look: Look) -> Iterator[Finding]:
    for note in look.dataset.notes:
        yield _finding("note", "reader", note)


def _rewards(look: Look) -> Iterator[Finding]:
    rewards = look.rewards
    if rewards is None or not len(rewards):
        return
    silent = no_signal(look.dataset)
    if silent:
        yield _finding(
            "warning",
            "no-reward-signal",
            f"{silent}: nothing tells good from bad; check that the reader takes the right array, or relabel the "
            "data with the task's rewards",
            count=len(rewards),
        )
    elif rewards.min() == rewards.max():
        yield _finding(
            "note",
            "constant-rewards",
            f"all rewards are {rewards[0]:g}: only how soon an episode ends tells good from bad",
            count=len(rewards),
        )
    size = float(max(abs(rewards.min()), abs(rewards.max())))
    if size > LARGE:
        yield _finding(
            "warning",
            "extreme-scale",
            f"rewards reach {size:.3g}: values will be too large to learn; divide the rewards, or train with "
            "--rewards return-range",
            count=1,
        )


def _outside(look: Look) -> Iterator[Finding]:
    actions, low, high = look.dataset.actions, look.dataset.action_low, look.dataset.action_high
    if actions is None or low is None or high is None or look.dataset.action_count is not None:
        return
    slack = 1e-5 * np.maximum(1, np.maximum(abs(low), abs(high)))
    with np.errstate(invalid="ignore"):
        outside = np.concatenate([((b < low - slack) | (b > high + slack)).any(axis=1) for b in _strips(actions)])
    if outside.any():
        rows = np.flatnonzero(outside)
        names = _names(look.dataset)[look.dataset.observation_size :]
        by = np.fmax(low - actions[rows], actions[rows] - high)
        which = (name for name, far in zip(names, np.fmax.reduce(by - slack, axis=0), strict=True) if far > 0)
        yield _finding(
            "warning",
            "actions-outside",
            f"actions leave their bounds by up to {np.nanmax(by):.3g} in {percent(len(rows) / len(actions))} of the "
            f"rows ({_listed(which)}): a policy cannot do what it is shown there; correct action_low and action_high, "
            "or clip or rescale the actions",
            rows,
        )


def _discrete(look: Look) -> Iterator[Finding]:
    """A single action of small whole numbers is an index, not a size, unless somebody said so."""
    dataset = look.dataset
    if dataset.actions is None or dataset.action_count_said or dataset.action_count or dataset.action_size != 1:
        return
    sample = dataset.actions[: 10 * SAMPLE, 0]
    if (sample == np.floor(sample)).all() and sample.min() >= 0 and 1 <= sample.max() < 100:
        largest = int(np.nanmax(dataset.actions))
        yield _finding(
            "warning",
            "discrete-actions",
            f"the actions look like choices numbered from 0 to {largest}, and are read as sizes: if they are choices, "
            f"say --columns.choices {largest + 1} (in Python: data.numbered({largest + 1})), else "
            "--columns.choices 0",
            count=len(dataset),
        )


def _unused(look: Look) -> Iterator[Finding]:
    """Numbered actions of which the data show nothing."""
    never = np.flatnonzero(look.taken == 0)
    if not len(never) or len(never) == len(look.taken):
        return
    if len(never) == len(look.taken) - 1 and len(look.dataset) > 1:
        yield _finding(
            "warning",
            "dead-actions",
            f"only action {look.taken.argmax()} of {len(look.taken)} is ever taken: there is nothing to choose; check "
            "that the reader takes the right column",
            count=len(never),
        )
    else:
        yield _finding(
            "note",
            "unused-actions",
            f"{len(never)} of {len(look.taken)} numbered actions are never taken ({_listed(map(str, never))}): nothing "
            "can be learned of them",
            count=len(never),
        )


def _dead(look: Look) -> Iterator[Finding]:
    if len(look.dataset) < 2:
        return
    names = _names(look.dataset)
    low, high = look.ranges
    dead = np.flatnonzero(low == high)
    if len(dead):
        yield _finding(
            "warning",
            "dead-columns",
            f"{len(dead)} of {len(low)} observation columns never change ({_listed(names[i] for i in dead)}): leave "
            "them out, or check that the reader fills them",
            count=len(dead),
        )
    actions = look.dataset.actions
    if actions is not None and look.dataset.action_count is None:
        dead = np.flatnonzero(np.equal(*_ranges(actions)))
        if len(dead):
            yield _finding(
                "warning",
                "dead-actions",
                f"{len(dead)} of {actions.shape[1]} actions never change "
                f"({_listed(names[len(low) + i] for i in dead)}): leave them out, or check that the reader fills them",
                count=len(dead),
            )


def _scales(look: Look) -> Iterator[Finding]:
    size = np.maximum(*map(np.abs, look.ranges))
    large = np.flatnonzero(size > LARGE)
    if len(large):
        names = _names(look.dataset)
        yield _finding(
            "warning",
            "extreme-scale",
            f"observations reach {np.nanmax(size):.3g} ({_listed(names[i] for i in large)}): give them in other units, "
            "or train with standardised observations; a value that stands for 'missing' must go",
            count=len(large),
        )


def _jumps(look: Look) -> Iterator[Finding]:
    dataset, jumps = look.dataset, look.motion.jumps
    inside = np.flatnonzero(jumps & ~dataset.ends)
    if len(inside):
        yield _finding(
            "warning",
            "unmarked-resets",
            f"the state jumps inside episodes at {len(inside)} places or more, as if new episodes began unmarked: mark "
            "the last row of every episode in timeouts (recording stopped) or terminals (the task ended)",
            inside,
        )
    at_ends = np.flatnonzero(jumps[:-1] & dataset.ends[:-1])
    across = at_ends[(dataset.next_observations[at_ends] == dataset.observations[at_ends + 1]).all(axis=1)]
    if len(across):
        yield _finding(
            "warning",
            "next-state-of-another-episode",
            f"at the end of {len(across)} episodes or more, the next state is the first state of the next episode: "
            "leave next_observations out, or mark these rows 0 in next_valid",
            across,
        )


def _stillness(look: Look) -> Iterator[Finding]:
    still = np.flatnonzero(look.motion.still)
    share = len(still) / len(look.dataset)
    if share >= 0.5:
        yield _finding(
            "warning",
            "nothing-moves",
            f"the next state equals the state in {percent(share)} of the rows: check that next_observations are not a "
            "copy of observations, and that the recording is not mostly idle",
            still,
        )


def _endings(look: Look) -> Iterator[Finding]:
    dataset = look.dataset
    lengths, terminal = dataset.episode_lengths, dataset.terminals[dataset.ends]
    if len(dataset) > 1 and dataset.terminals.mean() > 0.5:
        yield _finding(
            "warning",
            "mostly-terminal",
            f"{percent(dataset.terminals.mean())} of the rows are terminal: if the file stores masks (1 where the "
            "task goes on), store 1 - mask as terminals",
            np.flatnonzero(dataset.terminals),
        )
        return
    again = np.flatnonzero((lengths[1:] == 1) & terminal[1:] & terminal[:-1]) + 1
    if len(again) >= max(5, 0.05 * len(lengths)):
        yield _finding(
            "note",
            "terminal-runs",
            f"{len(again)} episodes are a single terminal row after another terminal, as in a recording that went on "
            "at the goal: lengths, returns and shares of episodes count each; keep the first of a run to avoid it",
            dataset.episode_starts[again],
        )
    longest = int(lengths.max())
    at_limit = terminal & (lengths == longest)
    other = np.bincount(lengths[terminal & (lengths < longest)]).max(initial=0)
    if longest > 1 and at_limit.sum() >= max(5, 5 * other) and not _rewarded_apart(dataset, at_limit):
        yield _finding(
            "warning",
            "timeouts-as-terminals",
            f"{at_limit.sum()} of {len(lengths)} episodes are terminal after exactly {longest} rows: if a time limit "
            "ended them, mark them as timeouts, not terminals, or values will count nothing after that",
            np.flatnonzero(dataset.ends)[at_limit],
        )


def _rewarded_apart(dataset: Dataset, episodes: Flags) -> bool:
    """Whether those episodes' last rewards are above all rewards before: then a goal, not a clock, ended them."""
    if dataset.rewards is None:
        return False
    last = np.zeros(len(dataset), bool)
    last[np.flatnonzero(dataset.ends)[episodes]] = True
    return bool(dataset.rewards[last].min() > dataset.rewards[~last].max(initial=-np.inf))


def _unknown(look: Look) -> Iterator[Finding]:
    rows = np.flatnonzero(~look.dataset.next_valid)
    share = len(rows) / len(look.dataset)
    if share >= 0.01:
        yield _finding(
            "warning" if share >= 0.1 else "note",
            "unknown-next-states",
            f"{percent(share)} of the rows have no known next state and take no part where one is needed: store "
            "next_observations to use them",
            rows,
        )


CHEAP: tuple[Callable[[Look], Iterator[Finding]], ...] = (
    _reader,
    _rewards,
    _outside,
    _discrete,
    _unused,
    _dead,
    _scales,
    _jumps,
    _stillness,
    _endings,
    _unknown,
)


# -- the checks: thorough ones -------------------------------------------------------------------


def _sparse(look: Look) -> Iterator[Finding]:
    rewards = look.rewards
    if rewards is None or not len(rewards):
        return
    share = np.count_nonzero(rewards) / len(rewards)
    if 0 < share < 0.05:
        yield _finding(
            "note",
            "sparse-rewards",
            f"only {percent(share)} of the rewards are not 0: for a goal task, --rewards goal makes every step before "
            "the goal cost 1",
            np.flatnonzero(np.nan_to_num(look.dataset.require("rewards"))),
        )


def _saturated(look: Look) -> Iterator[Finding]:
    often = np.flatnonzero(look.saturation >= 0.2)
    if len(often):
        names = _names(look.dataset)[look.dataset.observation_size :]
        yield _finding(
            "note",
            "saturated-actions",
            f"actions are at a bound in up to {percent(look.saturation.max())} of the rows "
            f"({_listed(names[i] for i in often)}): a bang-bang controller, or actions clipped to bounds that are too "
            "narrow; if the latter, record them before clipping or correct the bounds",
            count=len(often),
        )


def _one_episode(look: Look) -> Iterator[Finding]:
    if len(look.dataset.episode_starts) == 1 < len(look.dataset) and not look.motion.jumps.any():
        yield _finding(
            "note",
            "one-episode",
            "all rows are one episode: if the recording holds several, mark their last rows in terminals or timeouts",
            count=1,
        )


THOROUGH: tuple[Callable[[Look], Iterator[Finding]], ...] = (_sparse, _saturated, _one_episode)


def not_finite(dataset: Dataset) -> Iterator[Finding]:
    names = {"observations": _names(dataset), "next_observations": _names(dataset)}
    names["actions"] = names["observations"][dataset.observation_size :]
    for column in ("observations", "next_observations", "actions", "rewards"):
        values = getattr(dataset, column)
        rows = bad_rows(values) if values is not None else np.zeros(0, np.int64)
        if len(rows):
            which = ""
            if column in names:
                bad = np.flatnonzero(~np.isfinite(values[rows]).all(axis=0))
                which = f" ({_listed(names[column][i] for i in bad)})"
            yield _finding(
                "error",
                "not-finite",
                f"{column} are NaN or infinite in {len(rows)} of {len(values)} rows{which}: remove or repair them",
                rows,
            )


def with_gaps(dataset: Dataset) -> Dataset:
    """The same data with NaN for every infinity, so that one test finds what is missing."""

    def gaps(values: np.ndarray | None) -> np.ndarray | None:
        if values is None or not len(bad_rows(values)):
            return values
        return np.where(np.isfinite(values), values, np.float32(np.nan))

    columns = ("observations", "next_observations", "actions", "rewards", "action_low", "action_high")
    changed: dict[str, Any] = {column: gaps(getattr(dataset, column)) for column in columns}
    return replace(dataset, **changed)


# -- columns and repeats -------------------------------------------------------------------------


def _names(dataset: Dataset) -> list[str]:
    """Names of the observation columns, then of the actions."""
    observations = dataset.observation_names or tuple(f"observation {i}" for i in range(dataset.observation_size))
    if dataset.action_count is not None:
        return [*observations, "action"]  # "action 0" is the first of those to choose from
    return [*observations, *(f"action {i}" for i in range(dataset.action_size or 0))]


def columns_of(dataset: Dataset) -> Iterator[Column]:
    seen: dict[bytes, str] = {}
    names = iter(_names(dataset))
    kinds: tuple[tuple[Literal["observation", "action", "reward"], np.ndarray | None], ...] = (
        ("observation", dataset.observations),
        ("action", dataset.actions),
        ("reward", None if dataset.rewards is None else dataset.rewards[:, None]),
    )
    for kind, table in kinds:
        for i in range(0 if table is None else table.shape[1]):
            assert table is not None
            # Adding 0 turns -0 into 0, which is the same number in other bits.
            values = table[:, i] + np.float32(0)
            name = "reward" if kind == "reward" else next(names)
            known = values[~np.isnan(values)]
            if not len(known):
                yield Column(name, kind, None, None, None, None, False, None)
                continue
            low, high = float(known.min()), float(known.max())
            dead = low == high and len(values) > 1
            twin = None if dead else seen.setdefault(hashlib.blake2b(values.data).digest(), name)
            twin = twin if twin != name else None
            if kind == "action" and dataset.action_count is not None:
                yield Column(name, kind, low, None, None, high, dead, twin, dataset.action_count)
                continue
            mean, std = float(known.mean(dtype=np.float64)), float(known.std(dtype=np.float64))
            yield Column(name, kind, low, mean, std, high, dead, twin)


def duplicates(columns: Sequence[Column]) -> Iterator[Finding]:
    twins = [f"{column.name} = {column.duplicate_of}" for column in columns if column.duplicate_of]
    if twins:
        yield _finding(
            "note",
            "duplicate-columns",
            f"columns hold the same numbers ({_listed(twins)}): leave one of each out, or check that the reader fills "
            "them",
            count=len(twins),
        )


def repeats_of(dataset: Dataset) -> np.ndarray:
    """Rows that hold exactly the transition of an earlier row, found by a 64-bit hash of each row."""
    hashes = np.full(len(dataset), 0x9E3779B97F4A7C15, np.uint64)
    for values in dataset.columns.values():
        table = values.reshape(len(values), -1)
        for i in range(table.shape[1]):
            words = (table[:, i] + np.float32(0)).view(np.uint32) if table.dtype == np.float32 else table[:, i]
            hashes ^= words
            hashes *= np.uint64(0xD6E8FEB86659FD93)
            hashes ^= hashes >> np.uint64(32)
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    return np.sort(order[1:][ordered[1:] == ordered[:-1]])


def repeated(rows: np.ndarray, of: int) -> Iterator[Finding]:
    if len(rows) >= 0.001 * of:
        yield _finding(
            "warning" if len(rows) >= 0.01 * of else "note",
            "repeated-transitions",
            f"{percent(len(rows) / of)} of the rows repeat an earlier transition exactly and count twice: if a file "
            "was read or merged twice, read it once",
            rows,
        )
