"""Which fields of a source play which role. Nothing slow is imported: the command line reads it before all else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from waypost.errors import WaypostError
from waypost.schema import conform_fields

if TYPE_CHECKING:
    from waypost.data.dataset import Dataset

MOST_CHOICES = 10**6


@dataclass(frozen=True)
class Columns:
    """Which fields of a source play which role: columns of a table, arrays of a file, keys of a Minari set.

    Roles that are left out are found by the names people use (`obs`, `action_0`, `reward`, `terminated`, ...).
    """

    observations: tuple[str, ...] = ()
    """Fields that make up the state, in this order; `imu_*` stands for all that begin so."""
    actions: tuple[str, ...] = ()
    """Fields that make up the action."""
    rewards: str | None = None
    """The reward of each row."""
    next_observations: tuple[str, ...] = ()
    """Fields that make up the next state; by default the following row's state."""
    terminals: str | None = None
    """1 where the task ended: reached, fallen, broken. Not where recording merely stopped."""
    timeouts: str | None = None
    """1 where recording stopped although the task had not ended."""
    episode: str | None = None
    """A number or name that is the same in all rows of an episode."""
    time: str | None = None
    """Rows of an episode are put in this order; by default they are taken as they come."""
    choices: int | None = None
    """How many discrete actions there are, stored as 0 to N - 1; 0: actions are continuous; by default inferred."""
    discrete: tuple[str, ...] = ()
    """Actions, by name, that are a choice of one of several texts or numbers; the others are continuous."""

    def __post_init__(self) -> None:
        conform_fields(self)
        if self.choices is not None and self.choices > MOST_CHOICES:
            raise WaypostError(f"columns.choices must be {MOST_CHOICES} or less, got {self.choices}")
        if self.choices is not None and self.discrete:
            raise WaypostError("columns.choices is about a single action; columns.discrete alone says it of each")

    def __bool__(self) -> bool:
        return self.choices is not None or bool(self.discrete) or self.roles

    @property
    def roles(self) -> bool:
        """Whether any field is given a role."""
        return any(getattr(self, role) for role in USUAL)

    def declared(self, dataset: Dataset) -> Dataset:
        """The data with actions discrete or continuous as `choices` or `discrete` says, if they say anything."""
        if self.discrete:
            return dataset.with_discrete_actions(self.discrete)
        return dataset if self.choices is None else dataset.with_action_count(self.choices)


USUAL = {
    "observations": "observations observation observation.state obs state states "
    "observations.* observation.* observation_* obs_* state_*",
    "actions": "actions action actions.* action.* action_*",
    "rewards": "rewards reward next.reward",
    "next_observations": "next_observations next_observation next_obs next_state next_states "
    "next_observations.* next_observation.* next_observation_* next_obs_* next_state_*",
    "terminals": "terminals terminal terminated terminations done dones next.done",
    "timeouts": "timeouts timeout truncated truncations",
    "episode": "episode episode_id episode_index episodes",
    "time": "",
}
"""Names by which a role is found, best first; where it has no field of its own, its columns are found by a prefix."""
