"""From the fields of a source to a Dataset, by the roles that `Columns` gives them.

A source is a mapping from field names to arrays of one length: the columns of a table, the arrays of an HDF5 or .npz
file. What `Columns` leaves open is found by the names people use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import numpy as np

from waypost.data import endings, missing, times, validation
from waypost.data.dataset import STORED_AS_INTEGERS, Dataset
from waypost.data.encoding import as_logged, as_words, codes, encoded
from waypost.data.expressions import Expression, parse
from waypost.data.missing import marked
from waypost.data.pipeline import Pipeline, Reading
from waypost.data.roles import USUAL, Columns
from waypost.data.table import Named, Reward, Table, absent, is_text, rewards
from waypost.data.validation import Choices
from waypost.errors import WaypostError

MOST_INFERRED = 1000
"""Integer actions that reach this are taken as continuous unless somebody says otherwise."""

unchecked = partial(Dataset.from_arrays, finite=False, copy=False)
"""A Dataset of arrays that nobody else uses; NaN and infinities are left for `checked` to find."""
AS_IT_IS = Pipeline()
REWARD = "the reward"
"""What a field is for that has no role but is needed to work out rewards."""
Fields = Mapping[str, Callable[[], Any]]
"""How to get the array of each field of a source."""


def build(
    source: Fields,
    columns: Columns,
    name: str,
    holds_integers: Callable[[str], bool] | None = None,
    *,
    pipeline: Pipeline = AS_IT_IS,
    reward: Reward | None = None,
    cells: Sequence[str] = (),
    dates: Sequence[str] = (),
    notes: Sequence[str] = (),
    **known: Any,
) -> Dataset:
    """A Dataset of a source's fields; NaN and infinities are left for `checked` to find.

    A last row of an episode that has a state but no action (all NaN) is where the episode arrived: it becomes the
    next state of the row before. `holds_integers` tells this of a field whose array does not: NumPy's integers know no
    empty cells. `reward` is what the pipeline's expression stands for, or a function. `cells` are
    columns of a table with empty cells, of which a few are usual, `dates` those with time stamps. `known` are arguments
    of `Dataset.from_arrays` that need no choosing.
    """
    reward = parse(pipeline.reward) if reward is None and pipeline.reward is not None else reward
    chosen, guessed = choose(list(source), columns if reward is None else replace(columns, rewards=None), name)
    if dates and "time" not in chosen:
        guessed.append(f"{dates[0]!r} holds time stamps: --columns.time {dates[0]} finds gaps and copies")
    if reward is not None:
        chosen.pop("rewards", None)
    _check_named([*source, *columns.discrete], pipeline, name)
    table, emptied = _gathered(source, chosen, name, pipeline, reward, columns.discrete)
    if "next_valid" in known:
        flags = validation.flags(name, "next_valid", known.pop("next_valid"), len(table))
        table.marks["next_valid"] = flags
    table = _in_order(table.noting(*notes, *guessed), chosen)
    table = times.tidy(table, pipeline, chosen.get("rewards", ()))
    kept = {field: missing.FEW if field in cells or field in emptied else "error" for field in table.columns}
    kept = {field: usual for field, usual in kept.items() if field not in _unfilled(chosen)}
    table = missing.filled(table, pipeline, kept, chosen["observations"])
    roles, names = _roles(table, chosen, pipeline, columns.discrete)
    if reward is not None:
        following = np.arange(len(table)) + ~table.ends
        logged = {each: as_logged(v) if each in columns.discrete else v for each, v in table.columns.items()}
        roles["rewards"] = rewards(reward, Named(name, logged, following), len(table))
    integers = "actions" in roles and roles["actions"].dtype.kind in "iub"
    if holds_integers is not None:
        integers = all(map(holds_integers, chosen.get("actions", ())))
    rows, notes = len(table), list(table.notes)
    if rows and "next_observations" not in roles:
        final = table.marks["final"]
        if final.any():
            roles = endings.merge_final_states(roles, final, name)
        else:
            roles, left_out = endings.without_runs(roles)
            if left_out:
                notes.append(f"{left_out} rows left out that began where the task was already over (runs of terminals)")
    dataset = unchecked(**roles, **known, **names, notes=tuple(notes), name=name)
    dataset = replace(dataset, reading=Reading(columns, pipeline))
    choices = tuple(words for field in chosen.get("actions", ()) for words in _choices(table, field, pipeline))
    if any(choices):
        alone = len(choices) == 1 and not columns.discrete
        return dataset.with_action_count(max(2, len(choices[0]))) if alone else dataset.with_action_choices(choices)
    return infer_discrete(dataset, integers) if columns.choices is None else dataset


def _unfilled(chosen: dict[str, list[str]]) -> set[str]:
    """Fields of which an empty cell is no missing value of the state."""
    return {field for role in ("terminals", "timeouts", "episode", "time") for field in chosen.get(role, ())}


def _gathered(
    source: Fields,
    chosen: dict[str, list[str]],
    name: str,
    pipeline: Pipeline,
    reward: Reward | None,
    discrete: Sequence[str],
) -> tuple[Table, set[str]]:
    """The fields that are needed, as they are; and those in which a value means 'missing'."""
    # What was asked for the choices of actions says nothing of other texts.
    asked = [entry for entry in pipeline.categories if entry.rpartition("=")[0] not in discrete]
    used = {field: role for role, fields in chosen.items() for field in fields}
    if reward is not None:
        more = _mentioned(source, reward, name) if isinstance(reward, Expression) else source
        used |= {field: REWARD for field in more if field not in used}
    arrays: dict[str, np.ndarray] = {}
    emptied: set[str] = set()
    for field, role in used.items():
        values = np.asarray(source[field]())
        if role == REWARD and not isinstance(reward, Expression):
            # A function may ask for any column; what is none is not for it.
            if values.shape[:1] != arrays[chosen["observations"][0]].shape[:1]:
                continue
        elif values.ndim == 0:
            raise WaypostError(f"{name}: {field!r} holds one value, not one per row")
        if role in ("episode", "time") and is_text(values):
            values = np.array(["" if value is None else str(value) for value in values], object)
        elif role not in ("episode", "time", REWARD):
            _numbers_or_text(name, field, role, values, bool(asked) or field in discrete)
        known = marked(field, values, pipeline)
        emptied |= {field} if known is not values else set()
        arrays[field] = as_words(field, known, pipeline)
    lengths = {role: sorted({len(arrays[field]) for field in fields}) for role, fields in chosen.items()}
    for role, found in lengths.items():
        if len(found) > 1:
            raise WaypostError(f"{name}: the fields of {role} have {' and '.join(map(str, found))} rows")
    rows = lengths["observations"][0]
    for field, values in arrays.items():
        validation.same_rows(name, used[field], values, rows)
    return Table(name, arrays, np.zeros(rows, bool)), emptied


def _check_named(available: list[str], pipeline: Pipeline, name: str) -> None:
    """Raise if an option of the pipeline names a column that is not there: it would do nothing."""
    options = {
        "missing_values": pipeline.missing_values,
        "missing": pipeline.missing,
        "categories": pipeline.categories,
    }
    for option, entries in options.items():
        for column in filter(None, (entry.rpartition("=")[0] for entry in entries)):
            if column not in available and not _matching(column, available):
                raise WaypostError(
                    f"{name}: --{option.replace('_', '-')} names {column!r}, and there is no such column; it has "
                    f"{_listed(available)}"
                )


def _listed(available: list[str]) -> str:
    names = [validation.printable(field[:80]) for field in available[:20]]
    return (", ".join(names) or "nothing") + (", ..." if len(available) > 20 else "")


def _mentioned(source: Fields, reward: Expression, name: str) -> list[str]:
    """The fields an expression is about."""
    found = []
    for word in reward.names:
        field = word if word in source else word.removeprefix("next_")
        if field not in source:
            needs = f"which the reward {reward.text!r} needs"
            raise WaypostError(f"{name}: has no column {field!r}, {needs}; it has {_listed(list(source))}")
        found.append(field)
    return found


def _numbers_or_text(name: str, field: str, role: str, values: np.ndarray, asked: bool) -> None:
    if values.dtype.kind not in "fiub":
        encodes = role in ("observations", "actions", "next_observations") and is_text(values)
        if not encodes or not asked:
            found = "text" if values.dtype.kind in "USO" else values.dtype
            strange = _strange(values) if is_text(values) and values.ndim == 1 else []
            if strange:
                word = validation.printable(str(values[strange[0]])[:40])
                raise WaypostError(
                    f"{name}: {field!r} holds text in {len(strange)} of {len(values)} rows (row {strange[0] + 1}: "
                    f"{word!r}), for {role} numbers are needed; if it means 'missing': --missing-values {word!r}"
                )
            way_out = "; --categories one-hot or ordinal makes numbers of it" if encodes else ""
            way_out = f"; --columns.discrete {field} takes it as a choice" if role == "actions" and encodes else way_out
            raise WaypostError(f"{name}: {field!r} holds {found}, for {role} numbers are needed{way_out}")
    if values.ndim > 2:
        raise WaypostError(f"{name}: {field!r} has shape {values.shape}; flatten each row to a vector")


def _strange(values: np.ndarray) -> list[int]:
    """The rows of a column that are no numbers, where most are; empty for a column of words."""
    told = np.flatnonzero(~absent(values))
    strange = [int(row) for row in told if not _is_number(values[row])]
    return strange if len(strange) < len(told) / 2 else []


def _is_number(word: Any) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _in_order(table: Table, chosen: dict[str, list[str]]) -> Table:
    """The rows by episode and time, with marks where an episode ends, and where only its last state is."""
    rows = len(table)
    episode, time = (table.columns[chosen[role][0]] if role in chosen else None for role in ("episode", "time"))
    order = _order(episode, time, rows)
    if order is not None:
        table = table.rows(order)
        words = f", then by {chosen['time'][0]}" if "time" in chosen else ""
        table = table.noting(f"rows put in order: by episode{words}")
        episode, time = (None if values is None else values[order] for values in (episode, time))
    for role in ("terminals", "timeouts"):
        if role in chosen:
            values = _side_by_side([table.columns[field] for field in chosen[role]])
            table.marks[role] = validation.flags(table.name, role, values, rows)
    if episode is not None:
        table = replace(table, breaks=np.append(episode[1:] != episode[:-1], True)[:rows])
    empty = [absent(table.columns[field], every=True) for field in chosen.get("actions", ())]
    nothing = np.logical_and.reduce(empty) if empty else np.zeros(rows, bool)
    table.marks["final"] = nothing & table.ends & ~table.starts
    clock = None if time is None else times.seconds(time)
    if time is not None and clock is None:
        table = table.noting(f"{chosen['time'][0]!r} holds texts that are no dates: they only put rows in order")
    return replace(table, time=clock)


def _roles(
    table: Table, chosen: dict[str, list[str]], pipeline: Pipeline, discrete: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arrays of each role, and the names of the columns of states and actions."""
    roles: dict[str, Any] = {}
    names: dict[str, Any] = {}
    for role, fields in chosen.items():
        if role in ("observations", "next_observations"):
            known_as = chosen["observations"] if len(fields) == len(chosen["observations"]) else fields
            found = encoded(table, fields, pipeline, known_as)
        elif role == "actions":
            alone = len(fields) == 1 and not discrete
            found = [(field, _action(table, field, pipeline, alone)) for field in fields]
        elif role == "rewards":
            found = [(field, table.columns[field]) for field in fields]
        else:
            continue
        roles[role] = _side_by_side([values for _, values in found])
        # A field of several columns says nothing about the name of each.
        if role in ("observations", "actions") and all(values.ndim == 1 for _, values in found):
            names[f"{role.removesuffix('s')}_names"] = tuple(name for name, _ in found)
    roles |= {name: flags for name, flags in table.marks.items() if name != "final"}
    if "episode" in chosen or table.breaks.any():
        roles["timeouts"] = roles.get("timeouts", False) | table.breaks
    return roles, names


def _action(table: Table, field: str, pipeline: Pipeline, alone: bool) -> np.ndarray:
    """An action as numbers; a text is one of several discrete actions: its place, or the number that it is."""
    values = table.columns[field]
    if not is_text(values):
        return values
    places, words = codes(table.name, field, values, pipeline)
    numbers = validation.numbers_of(words)[np.nan_to_num(places).astype(np.int64)]
    return places if alone else np.where(np.isnan(places), np.nan, numbers)


def _choices(table: Table, field: str, pipeline: Pipeline) -> Choices:
    """The texts that each column of an action is chosen from, none for a number."""
    values = table.columns[field]
    if is_text(values):
        return (codes(table.name, field, values[:0], pipeline)[1],)
    return ((),) * (values.shape[1] if values.ndim > 1 else 1)


def _side_by_side(parts: list[np.ndarray]) -> np.ndarray:
    """The fields of a role as the rows of one array."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([part if part.ndim == 2 else part[:, None] for part in parts], axis=1)


def infer_discrete(dataset: Dataset, integers: bool) -> Dataset:
    """The data with actions taken as discrete where they are stored as integers or truth values.

    That is how discrete actions are stored everywhere, in a single column, and continuous ones hardly anywhere.
    """
    actions = dataset.actions
    if not integers or actions is None or actions.shape[1] != 1 or dataset.action_count is not None:
        return dataset
    lowest, largest = np.fmin.reduce(actions[:, 0]), np.fmax.reduce(actions[:, 0])
    if lowest >= 0 and largest < MOST_INFERRED:
        return dataset.with_action_count(max(2, int(largest) + 1), declared=False)
    if lowest >= 0:
        taken = f"up to {largest:.0f}: taken as continuous; if they are discrete, say --columns.choices N"
        return replace(dataset, notes=(*dataset.notes, f"{STORED_AS_INTEGERS} {taken}"))
    return dataset


def choose(available: list[str], columns: Columns, name: str) -> tuple[dict[str, list[str]], list[str]]:
    """The fields of each role that has any, and what had to be guessed."""
    has = _listed(available)
    wanted = {role: [asked] if isinstance(asked := getattr(columns, role) or (), str) else [*asked] for role in USUAL}
    chosen: dict[str, list[str]] = {}
    for role in USUAL:
        asked = getattr(columns, role) or ()
        # A pattern takes no field that another role names.
        others = {field for other, fields in wanted.items() if other != role for field in fields}
        free = [field for field in available if field not in others]
        for pattern in wanted[role]:
            found = [pattern] if pattern in available else _matching(pattern, free)
            if not found:
                raise WaypostError(f"{name}: has no field {pattern!r} for {role}; it has {has}")
            chosen[role] = list(dict.fromkeys([*chosen.get(role, []), *found]))
        if isinstance(asked, str) and len(chosen[role]) > 1:
            raise WaypostError(
                f"{name}: {role} needs one field, {asked!r} gives {len(chosen[role])}: {', '.join(chosen[role][:5])}"
            )
    notes: list[str] = []
    for role in USUAL:
        taken = {field for names in chosen.values() for field in names}
        free = [field for field in available if field not in taken]
        found = next(filter(None, (_matching(pattern, free) for pattern in USUAL[role].split())), [])
        if role not in chosen and found:
            chosen[role] = found
            if "done" in found[0]:
                note = "taken as the end of the task; if it marks time limits, say --columns.timeouts"
                notes.append(f"{found[0]!r} {note}")
    if "observations" not in chosen:
        raise WaypostError(
            f"{name}: no field looks like observations; it has {has}. "
            "Name them: --columns.observations A B ... (in Python: columns=Columns(observations=(...)))"
        )
    return chosen, notes


def _matching(pattern: str, available: list[str]) -> list[str]:
    return [field for field in available if fnmatchcase(field, pattern)]


def _order(episode: np.ndarray | None, time: np.ndarray | None, rows: int) -> np.ndarray | None:
    """How to arrange the rows so that episodes are together and in order of time; None if they are already."""
    order = np.arange(rows)
    if time is not None:
        order = order[np.argsort(time, kind="stable")]
    if episode is not None:
        _, first, inverse = np.unique(episode, return_index=True, return_inverse=True)
        order = order[np.argsort(first[inverse][order], kind="stable")]
    return None if (order[1:] > order[:-1]).all() else order
