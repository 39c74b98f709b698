"""Every format, and every trap of the field's conventions."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium as gym
import h5py
import minari
import numpy as np
import pandas as pd
import pytest
from minari.data_collector import EpisodeBuffer
from minari.dataset.minari_storage import MinariStorage
from samples import walk

import waypost
from waypost.data.dataset import Dataset
from waypost.data.sources import D4RL, recorded_task
from waypost.training.plan import plan

FORMATS = [".npz", ".hdf5", ".parquet", ""]


def steps(lengths: list[int], size: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """States of several walks one after the other, and where each ends; resets are far from where walks arrive."""
    rng = np.random.default_rng(seed)
    walks = [100 * k + np.cumsum(rng.normal(size=(n, size)), axis=0) for k, n in enumerate(lengths)]
    return np.concatenate(walks).astype(np.float32), np.cumsum(lengths) - 1


def at(rows: int, where: Any) -> np.ndarray:
    flags = np.zeros(rows, bool)
    flags[where] = True
    return flags


def variants() -> dict[str, Dataset]:
    """What a file must be able to bring back."""
    maze = waypost.load("t-maze")
    maze = maze.keep(np.arange(len(maze)) < 300)
    states, ends = steps([5, 1, 7, 3])
    rng = np.random.default_rng(1)
    rows = len(states)
    own: dict[str, Any] = {"actions": rng.normal(size=(rows, 2)), "rewards": rng.normal(size=rows)}
    following = np.append(states[1:], states[-1:], axis=0)
    nearly = following * (1 + 1e-7 * rng.choice([-1, 1], following.shape)).astype(np.float32)
    return {
        "built in": maze,
        "action-free": maze.without_actions(),
        "reward-free": maze.without_rewards(),
        "states only": maze.without_rewards().without_actions(),
        "unknown next states": Dataset.from_arrays(states, timeouts=at(rows, ends), **own),
        "terminals with unknown next states": Dataset.from_arrays(states, terminals=at(rows, ends), **own),
        "nearly the following state": Dataset.from_arrays(states, nearly, timeouts=at(rows, ends), **own),
        "one row": Dataset.from_arrays(states[:1], actions=own["actions"][:1], rewards=own["rewards"][:1]),
        "named": Dataset.from_arrays(states, timeouts=at(rows, ends), observation_names=("x", "ÿ, b", "c.d"), **own),
        "discrete actions": discrete(),
    }


def discrete(count: int = 7) -> Dataset:
    """Discrete actions of which the last is never taken."""
    states, ends = steps([5, 1, 7, 3])
    rng = np.random.default_rng(2)
    return Dataset.from_arrays(
        states,
        actions=rng.integers(0, count - 1, len(states)),
        rewards=rng.normal(size=len(states)),
        timeouts=at(len(states), ends),
        action_count=count,
    )


VARIANTS = variants()


def assert_same(back: Dataset, data: Dataset) -> None:
    assert back.columns.keys() == data.columns.keys()
    for name in data.columns:
        values, other = getattr(data, name), getattr(back, name)
        assert other.dtype == values.dtype
        assert other.tobytes() == values.tobytes(), name
    for name in ("action_low", "action_high"):
        bound, other = getattr(data, name), getattr(back, name)
        assert (bound is None and other is None) or bound.tobytes() == other.tobytes()
    assert back.task == data.task
    assert back.observation_names == data.observation_names
    assert (back.action_count, back.action_kind_declared) == (data.action_count, data.action_count is not None)
    assert back.fingerprint() == data.fingerprint()


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("suffix", FORMATS)
def test_every_format_brings_everything_back(variant: str, suffix: str, tmp_path: Path) -> None:
    """Bit for bit, so whatever is converted from one to another comes back too."""
    data = VARIANTS[variant]
    waypost.save(data, tmp_path / f"a{suffix}")
    assert_same(waypost.load(tmp_path / f"a{suffix}"), data)


@pytest.mark.parametrize("variant", VARIANTS)
def test_converting_through_all_formats_changes_nothing(variant: str, tmp_path: Path) -> None:
    waypost.save(VARIANTS[variant], tmp_path / "a.npz")
    for source, out in pairwise(("a.npz", "b", "c.parquet", "d.hdf5", "e.npz")):
        waypost.convert(tmp_path / source, tmp_path / out)
    assert_same(waypost.load(tmp_path / "e.npz"), VARIANTS[variant])


@pytest.mark.parametrize("suffix", FORMATS)
def test_what_a_file_says_of_discrete_actions_can_be_overruled(suffix: str, tmp_path: Path) -> None:
    waypost.save(discrete(), tmp_path / f"a{suffix}")
    assert waypost.load(tmp_path / f"a{suffix}", waypost.Columns(choices=9)).action_count == 9
    data = waypost.load(tmp_path / f"a{suffix}", waypost.Columns(choices=0))
    assert data.action_count is None
    assert (data.action_low[0], data.action_high[0]) == (data.actions.min(), data.actions.max())
    with pytest.raises(waypost.WaypostError, match="2 discrete actions are whole numbers from 0 to 1"):
        waypost.load(tmp_path / f"a{suffix}", waypost.Columns(choices=2))


@pytest.mark.parametrize("suffix", [".npz", ".hdf5", ".parquet"])
def test_choosing_other_roles_leaves_actions_discrete(suffix: str, tmp_path: Path) -> None:
    waypost.save(discrete(), tmp_path / f"a{suffix}")
    assert waypost.load(tmp_path / f"a{suffix}", waypost.Columns(timeouts="next_valid")).action_count == 7
    # Another column in the place of the actions has nothing to do with what the file says of these.
    other = waypost.load(tmp_path / f"a{suffix}", waypost.Columns(actions=("rewards",)))
    assert other.action_count is None


@pytest.mark.parametrize("suffix", FORMATS)
def test_the_task_is_known_without_reading_the_rows(suffix: str, tmp_path: Path) -> None:
    waypost.save(walk().named("walk", "t-maze"), tmp_path / f"a{suffix}")
    assert recorded_task(tmp_path / f"a{suffix}") == "t-maze"
    assert plan("bc", tmp_path / f"a{suffix}").task == "t-maze"


@pytest.mark.parametrize("suffix", FORMATS)
def test_nothing_is_overwritten_and_nothing_left_half_written(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = walk()
    waypost.save(data, tmp_path / f"a{suffix}")
    with pytest.raises(waypost.WaypostError, match="already exists"):
        waypost.save(data, tmp_path / f"a{suffix}")
    if suffix:
        waypost.save(data.without_actions(), tmp_path / f"a{suffix}", overwrite=True)
        assert waypost.load(tmp_path / f"a{suffix}").actions is None
    before = sorted(tmp_path.rglob("*"))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left") as error:
        waypost.save(data, tmp_path / f"b{suffix}")
    assert error.value.filename == str(tmp_path / f"b{suffix}")
    assert sorted(tmp_path.rglob("*")) == before


# -- what is not installed -------------------------------------------------------------------------------

NEEDS = {
    "log.hdf5": ("h5py", "HDF5", "hdf5"),
    "log.h5": ("h5py", "HDF5", "hdf5"),
    "log.parquet": ("pyarrow", "Parquet", "tables"),
    "log.csv": ("pyarrow", "CSV", "tables"),
    "log-v0": ("minari", "Minari", "minari"),
}


@pytest.mark.parametrize("name", NEEDS)
def test_a_missing_package_is_named_with_its_extra(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package, title, extra = NEEDS[name]
    path, way_out = tmp_path / name, f"needs {package}; pip install 'waypost[{extra}]'"
    if name == "log.csv":
        path.write_text("obs_0\n1\n2\n")
    else:
        waypost.save(VARIANTS["one row"], path)
    monkeypatch.setitem(sys.modules, package, None)
    for read in (waypost.load, recorded_task):
        with pytest.raises(waypost.WaypostError) as error:
            read(path)
        assert str(error.value) == f"{path}: reading {title} {way_out}"
    if name != "log.csv":
        with pytest.raises(waypost.WaypostError) as error:
            waypost.save(VARIANTS["one row"], tmp_path / f"other-{name}")
        assert str(error.value) == f"{tmp_path / f'other-{name}'}: writing {title} {way_out}"
    waypost.save(VARIANTS["one row"], tmp_path / "log.npz")
    assert len(waypost.load(tmp_path / "log.npz")) == 1


def test_a_name_and_a_table_need_packages_too(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame({"obs_0": [1.0, 2.0]})
    for package in ("minari", "pyarrow"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        waypost.WaypostError, match=r"^some/set-v0: reading Minari needs minari; .*'waypost\[minari\]'$"
    ):
        waypost.load("some/set-v0")
    with pytest.raises(waypost.WaypostError, match=r"^reading a table needs pyarrow; pip install 'waypost\[tables\]'$"):
        waypost.load(frame)


def test_importing_data_imports_no_optional_package() -> None:
    """Seen without the package around it, whose `__init__` knows the environments."""
    code = """if True:
        import sys, types
        package = types.ModuleType("waypost")
        package.__path__ = [sys.argv[1]]
        sys.modules["waypost"] = package
        import waypost.data.convert, waypost.data.inspection, waypost.data.large, waypost.data.rewards
        import waypost.data.stream
        print([name for name in ("minari", "pyarrow", "h5py", "gymnasium", "jax") if name in sys.modules])
    """
    folder = str(Path(waypost.__file__).parent)
    printed = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=True).stdout
    assert printed == "[]\n"


# -- D4RL ------------------------------------------------------------------------------------------------


def d4rl(path: Path, lengths: list[int], **columns: Any) -> tuple[np.ndarray, np.ndarray]:
    states, ends = steps(lengths)
    rows = len(states)
    rng = np.random.default_rng(2)
    arrays = {
        "observations": states,
        "actions": rng.uniform(-1, 1, (rows, 2)).astype(np.float32),
        "rewards": np.arange(rows, dtype=np.float32),
        "terminals": np.zeros(rows, bool),
        "timeouts": np.zeros(rows, bool),
        "infos/qpos": states,
        **columns,
    }
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            if values is not None:
                file.create_dataset(name, data=values, compression="gzip" if np.ndim(values) else None)
    return states, ends


def test_d4rl_the_reset_after_an_end_is_no_next_state(tmp_path: Path) -> None:
    lengths = [4, 6, 5]
    _, ends = d4rl(tmp_path / "a.hdf5", lengths, terminals=at(15, 3), timeouts=at(15, [9, 14]))
    data = waypost.load(tmp_path / "a.hdf5")
    assert data.episode_lengths.tolist() == lengths
    assert np.flatnonzero(data.terminals).tolist() == [3]
    assert np.flatnonzero(data.timeouts).tolist() == [9, 14]
    assert np.flatnonzero(~data.next_valid).tolist() == ends.tolist()
    # A step inside a walk is small; the way to the next walk's start is far.
    assert np.abs(data.next_observations - data.observations).max() < 10
    # No row is lost: the step that timed out still shows which action was taken.
    assert data.rewards.tolist() == list(range(15))


def test_d4rl_episodes_are_not_counted_off(tmp_path: Path) -> None:
    """Readers that drop timeouts and count to the horizon cut in the wrong places; only the marks count here."""
    d4rl(tmp_path / "a.hdf5", [10, 3, 10, 7], terminals=at(30, [12, 29]), timeouts=at(30, [9, 22]))
    assert waypost.load(tmp_path / "a.hdf5").episode_lengths.tolist() == [10, 3, 10, 7]


def test_d4rl_unmarked_timeouts_show_in_the_next_states(tmp_path: Path) -> None:
    """medium-replay: an episode ends without a mark, and the stored next state is not the following row's state."""
    states, ends = steps([4, 6, 5])
    following = np.append(states[1:], states[-1:], axis=0)
    following[ends] = states[ends] + 0.5
    d4rl(tmp_path / "a.hdf5", [4, 6, 5], next_observations=following, timeouts=at(15, 9))
    data = waypost.load(tmp_path / "a.hdf5")
    assert data.episode_lengths.tolist() == [4, 6, 5]
    assert not data.terminals.any()
    assert data.next_valid.all()
    assert data.next_observations[3].tolist() == following[3].tolist()
    assert "1 unmarked" in " ".join(data.notes)


def test_d4rl_antmaze_has_runs_of_terminals(tmp_path: Path) -> None:
    """The ant stands in the goal for a while: one arrival, not one episode per step."""
    run = at(16, [5, 6, 7, 15])
    states, _ = d4rl(tmp_path / "a.hdf5", [12, 4], terminals=run, timeouts=at(16, 11), rewards=run.astype(np.float32))
    data = waypost.load(tmp_path / "a.hdf5")
    assert data.episode_lengths.tolist() == [6, 4, 4]
    assert data.episode_returns.tolist() == [1, 0, 1]
    # The arrival's next state is real, for the recording went on; the rows that began in the goal are gone.
    assert data.next_valid[5]
    assert data.next_observations[5].tolist() == states[6].tolist()
    assert data.observations[6].tolist() == states[8].tolist()
    assert "2 rows left out" in " ".join(data.notes)


def test_d4rl_one_step_episodes_are_no_run(tmp_path: Path) -> None:
    """Where every row is far from the next, terminals in a row are episodes of their own."""
    d4rl(tmp_path / "a.hdf5", [1, 1, 1, 5], terminals=at(8, [0, 1, 2, 7]))
    assert waypost.load(tmp_path / "a.hdf5").episode_lengths.tolist() == [1, 1, 1, 5]


def test_d4rl_maze2d_marks_goals_as_timeouts(tmp_path: Path) -> None:
    """The ball rolls on to the next goal: the state after a 'timeout' did follow."""
    states, _ = d4rl(tmp_path / "maze2d-umaze-sparse-v1.hdf5", [12], timeouts=at(12, [4, 8]))
    data = waypost.load(tmp_path / "maze2d-umaze-sparse-v1.hdf5")
    assert data.episode_lengths.tolist() == [5, 4, 3]
    assert np.flatnonzero(~data.next_valid).tolist() == [11]
    assert data.next_observations[4].tolist() == states[5].tolist()


def test_h5py_shows_the_same(tmp_path: Path) -> None:
    data = waypost.load("t-maze")
    waypost.save(data, tmp_path / "a.hdf5")
    with h5py.File(tmp_path / "a.hdf5") as file:
        assert np.array_equal(file["observations"][()], data.observations)
        assert np.array_equal(file["timeouts"][()], data.timeouts)
        assert np.array_equal(file["terminals"][()], data.terminals)
        assert file["terminals"].dtype == bool


def test_d4rl_names_are_files_the_user_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAYPOST_DATA", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with pytest.raises(
        waypost.WaypostError, match=r"hopper_medium_replay-v2\.hdf5 into .*home/\.d4rl/datasets or .*WAYPOST_DATA"
    ):
        waypost.load("hopper-medium-replay-v2")
    d4rl(tmp_path / "hopper_medium_replay-v2.hdf5", [4])
    data = waypost.load("hopper-medium-replay-v2")
    assert data.name == "hopper-medium-replay-v2"
    assert len(data) == 4
    (tmp_path / "home/.d4rl/datasets").mkdir(parents=True)
    monkeypatch.delenv("WAYPOST_DATA")
    d4rl(tmp_path / "home/.d4rl/datasets" / D4RL["antmaze-large-diverse-v2"], [5])
    assert len(waypost.load("antmaze-large-diverse-v2")) == 5


# -- OGBench ---------------------------------------------------------------------------------------------


def test_ogbench_terminals_end_trajectories_and_hold_where_they_arrived(tmp_path: Path) -> None:
    states, ends = steps([5, 4])
    np.savez(
        tmp_path / "maze-v0.npz",
        observations=states,
        actions=np.zeros((9, 2), np.float32),
        terminals=at(9, ends).astype(np.float32),
        qpos=states,
    )
    data = waypost.load(tmp_path / "maze-v0.npz")
    assert data.episode_lengths.tolist() == [4, 3]
    assert not data.terminals.any()
    assert data.next_valid.all()
    assert data.next_observations[3].tolist() == states[4].tolist()
    assert data.observations[4].tolist() == states[5].tolist()
    assert data.rewards is None


def test_ogbench_masks_say_where_the_task_ended(tmp_path: Path) -> None:
    states, ends = steps([5, 4])
    following = states + 0.25
    following[:-1][~at(9, ends)[:-1]] = states[1:][~at(9, ends)[:-1]]
    np.savez(
        tmp_path / "maze-v0.npz",
        observations=states,
        next_observations=following,
        actions=np.zeros((9, 2), np.float32),
        rewards=-np.ones(9),
        terminals=at(9, ends).astype(np.float32),
        masks=1.0 - at(9, [2, 8]),
    )
    data = waypost.load(tmp_path / "maze-v0.npz")
    assert np.flatnonzero(data.terminals).tolist() == [2, 8]
    assert np.flatnonzero(data.timeouts).tolist() == [4]
    assert data.next_valid.all()


# -- Minari ----------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "store"))
    return tmp_path / "store"


def test_minari_reads_what_we_write(store: Path) -> None:
    data = walk(120)
    waypost.save(data, store / "log-v0")
    theirs = minari.load_dataset("log-v0")
    assert theirs.total_episodes == len(data.episode_starts)
    assert theirs.total_steps == len(data)
    for episode, first, length in zip(theirs, data.episode_starts, data.episode_lengths, strict=True):
        rows = slice(first, first + length)
        assert len(episode) == length
        assert np.array_equal(episode.observations[:-1], data.observations[rows])
        assert np.array_equal(episode.observations[1:], data.next_observations[rows])
        assert np.array_equal(episode.actions, data.actions[rows])
        assert np.array_equal(episode.rewards, data.rewards[rows])
        assert np.array_equal(episode.terminations, data.terminals[rows])
        assert np.array_equal(episode.truncations, data.timeouts[rows])
    assert waypost.load("log-v0").fingerprint() == data.fingerprint()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("data_format", ["hdf5", "arrow", "parquet"])
def test_a_set_of_minaris_collector_is_read_and_trains_directly(store: Path, data_format: str) -> None:
    env = minari.DataCollector(gym.make("waypost/TMaze-v0"), data_format=data_format)
    env.action_space.seed(0)
    for seed, length in ((0, 100), (1, 30), (2, 100)):
        env.reset(seed=seed)
        for _ in range(length):
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                break
    theirs = env.create_dataset("maze/random-v0")
    env.close()
    data = waypost.load("maze/random-v0")
    assert data.task == recorded_task("maze/random-v0") == "waypost/TMaze-v0"
    assert data.episode_lengths.tolist() == [len(episode) for episode in theirs]
    assert len(data) == theirs.total_steps
    # T + 1 states: the last one of an episode is a next state too.
    assert data.next_valid.all()
    for episode, first in zip(theirs, data.episode_starts, strict=True):
        assert np.array_equal(data.observations[first : first + len(episode)], episode.observations[:-1])
        assert np.array_equal(data.next_observations[first + len(episode) - 1], episode.observations[-1])
    assert data.action_low.tolist() == env.action_space.low.tolist()
    run = waypost.train("bc", "maze/random-v0", steps=5, hidden=(4,))
    assert run.result["per_seed"][0]["episode_length"] > 0


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("data_format", ["hdf5", "arrow", "parquet"])
def test_minaris_discrete_actions_are_discrete(store: Path, data_format: str) -> None:
    env = minari.DataCollector(gym.make("CartPole-v1"), data_format=data_format)
    env.action_space.seed(0)
    taken = []
    for seed in (0, 1):
        env.reset(seed=seed)
        done = False
        while not done:
            taken.append(env.action_space.sample())
            _, _, terminated, truncated, _ = env.step(taken[-1])
            done = terminated or truncated
    env.create_dataset("pole/random-v0")
    env.close()
    data = waypost.load("pole/random-v0")
    assert (data.action_count, data.action_kind_declared, data.task) == (2, True, "CartPole-v1")
    assert data.actions[:, 0].tolist() == taken
    assert not data.notes
    run = waypost.train("bc", "pole/random-v0", steps=5, hidden=(4,))
    assert run.result["per_seed"][0]["episode_length"] >= 8


def test_minari_finds_discrete_actions_of_ours_in_their_place(store: Path) -> None:
    waypost.save(discrete(), store / "log-v0")
    theirs = minari.load_dataset("log-v0")
    assert theirs.action_space == gym.spaces.Discrete(7)
    actions = np.concatenate([episode.actions for episode in theirs])
    assert actions.dtype == np.int64
    assert actions.tolist() == discrete().actions[:, 0].tolist()


def numbers_from(start: int, actions: list[int]) -> dict[str, Any]:
    count = len(actions)
    return {
        "observations": np.arange(count + 1.0)[:, None],
        "actions": np.array(actions) + start,
        "rewards": np.zeros(count),
        "terminations": np.zeros(count, bool),
        "truncations": np.arange(count) == count - 1,
        "infos": {},
    }


def test_minaris_discrete_actions_may_begin_elsewhere(tmp_path: Path) -> None:
    space, actions = gym.spaces.Box(-np.inf, np.inf, (1,)), gym.spaces.Discrete(4, start=-3)
    write_minari(tmp_path / "a-v0", "Somewhere-v0", space, [numbers_from(-3, [0, 2, 1])], actions)
    data = waypost.load(tmp_path / "a-v0")
    assert data.actions[:, 0].tolist() == [0, 2, 1]
    assert data.action_count == 4
    assert data.notes == ("discrete actions are 0 and up here, -3 and up in the file and its environment",)


def test_minari_actions_that_cannot_be_learned_are_refused(tmp_path: Path) -> None:
    space = gym.spaces.Box(-np.inf, np.inf, (1,))
    episode = numbers_from(0, [0, 1, 1]) | {"actions": np.zeros((3, 2), np.int64)}
    write_minari(tmp_path / "a-v0", "Somewhere-v0", space, [episode], gym.spaces.MultiDiscrete([2, 3]))
    with pytest.raises(waypost.WaypostError, match=r"actions are MultiDiscrete.*; a Box of numbers or Discrete"):
        waypost.load(tmp_path / "a-v0")
    write_minari(tmp_path / "b-v0", "Somewhere-v0", space, [numbers_from(1, [0, 1, 1])], gym.spaces.Discrete(2))
    with pytest.raises(waypost.WaypostError, match="action 2 in row 1; 2 discrete actions are whole numbers"):
        waypost.load(tmp_path / "b-v0")


def write_minari(
    folder: Path,
    env_id: str,
    space: gym.Space,
    episodes: list[dict[str, Any]],
    actions: gym.Space | None = None,
) -> None:
    storage = MinariStorage.new(
        _made(folder / "data"),
        observation_space=space,
        action_space=actions or gym.spaces.Box(-1, 1, (8,), np.float32),
    )
    storage.update_episodes([EpisodeBuffer(**episode) for episode in episodes])
    file = folder / "data" / "metadata.json"
    record = json.loads(file.read_text())
    record |= {"dataset_id": "x-v0", "env_spec": json.dumps({"id": env_id, "kwargs": {"maze_map": [[1]]}})}
    file.write_text(json.dumps(record))


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def maze_space(size: int) -> gym.spaces.Dict:
    """Declared in an order that is not the alphabet's."""
    box = gym.spaces.Box
    parts = {"observation": size, "achieved_goal": 2, "desired_goal": 2}
    return gym.spaces.Dict([(key, box(-np.inf, np.inf, (n,), np.float64)) for key, n in parts.items()])


def maze_episode(path: np.ndarray, goal: tuple[float, float], size: int) -> dict[str, Any]:
    count = len(path)
    reached = np.linalg.norm(path - goal, axis=1) <= 0.45
    return {
        "observations": {
            "observation": np.arange(count * size, dtype=float).reshape(count, size),
            "achieved_goal": path,
            "desired_goal": np.tile(goal, (count, 1)),
        },
        "actions": np.zeros((count - 1, 8), np.float32),
        "rewards": reached[1:].astype(float),
        "terminations": np.zeros(count - 1, bool),
        "truncations": np.arange(count - 1) == count - 2,
        "infos": {},
    }


def test_minari_antmaze_goes_on_after_success(tmp_path: Path) -> None:
    """Never terminated, goal not reset, reward adding up: the task ends where the goal is reached, once."""
    path = np.stack([np.array([0, 1, 2, 3, 3.1, 3.2, 4, 5, 6.0]), np.zeros(9)], axis=1)
    episode = maze_episode(path, (3.0, 0.0), 27)
    assert episode["rewards"].sum() == 3
    write_minari(tmp_path / "umaze-v1", "AntMaze_UMaze-v4", maze_space(27), [episode])
    data = waypost.load(tmp_path / "umaze-v1")
    assert data.episode_lengths.tolist() == [3, 2]
    assert data.episode_returns.tolist() == [1, 0]
    assert np.flatnonzero(data.terminals).tolist() == [2]
    assert data.timeouts.tolist() == [False, False, False, False, True]
    # D4RL's 29 numbers: x, y, then the 27 of the ant.
    assert data.observation_size == 29
    assert data.observations[:, 0].tolist() == [0, 1, 2, 4, 5]
    assert data.observations[1, 2:].tolist() == list(range(27, 54))
    assert data.observation_names[:3] == ("achieved_goal.0", "achieved_goal.1", "observation.0")
    assert data.task is None
    assert "3 rows" in data.notes[0]


def test_minari_antmaze_v5_has_contact_forces(tmp_path: Path) -> None:
    path = np.zeros((5, 2))
    write_minari(tmp_path / "a-v1", "AntMaze_UMaze-v5", maze_space(105), [maze_episode(path, (3.0, 0.0), 105)])
    data = waypost.load(tmp_path / "a-v1")
    assert data.observation_size == 107
    assert "105" in " ".join(data.notes)


def test_minari_pointmaze_keeps_the_goal_in_the_state(tmp_path: Path) -> None:
    path = np.stack([np.arange(5.0), np.zeros(5)], axis=1)
    write_minari(tmp_path / "a-v1", "PointMaze_UMaze-v3", maze_space(4), [maze_episode(path, (2.0, 0.0), 4)])
    data = waypost.load(tmp_path / "a-v1")
    assert data.observation_names[-2:] == ("desired_goal.0", "desired_goal.1")
    assert data.observation_size == 6
    assert np.flatnonzero(data.terminals).tolist() == [1]


def test_minari_dicts_are_flattened_as_declared_or_as_asked(tmp_path: Path) -> None:
    episode = maze_episode(np.stack([np.arange(5.0), np.zeros(5)], axis=1), (2.0, 0.0), 4)
    write_minari(tmp_path / "a-v0", "Somewhere-v0", maze_space(4), [episode, episode])
    data = waypost.load(tmp_path / "a-v0")
    assert data.observation_names == (
        *(f"observation.{i}" for i in range(4)),
        "achieved_goal.0",
        "achieved_goal.1",
        "desired_goal.0",
        "desired_goal.1",
    )
    assert not data.terminals.any()
    assert data.episode_lengths.tolist() == [4, 4]
    chosen = waypost.load(tmp_path / "a-v0", waypost.Columns(observations=("desired_goal", "achieved_goal")))
    assert chosen.observations[1].tolist() == [2, 0, 1, 0]
    with pytest.raises(waypost.WaypostError, match="no observation 'position'; it has observation, achieved_goal"):
        waypost.load(tmp_path / "a-v0", waypost.Columns(observations=("position",)))


def test_minari_discrete_and_nested_states(tmp_path: Path) -> None:
    spaces = gym.spaces
    space = spaces.Tuple([spaces.Discrete(3, start=1), spaces.Dict({"b": spaces.MultiBinary(2)})])
    episode = {
        "observations": (np.array([1, 3, 2]), {"b": np.array([[0, 1], [1, 1], [0, 0]])}),
        "actions": np.zeros((2, 8), np.float32),
        "rewards": np.zeros(2),
        "terminations": np.array([False, True]),
        "truncations": np.zeros(2, bool),
        "infos": {},
    }
    write_minari(tmp_path / "a-v0", "Somewhere-v0", space, [episode])
    data = waypost.load(tmp_path / "a-v0")
    assert data.observations.tolist() == [[1, 0, 0, 0, 1], [0, 0, 1, 1, 1]]
    assert data.next_observations[1].tolist() == [0, 1, 0, 0, 0]
    assert data.terminals.tolist() == [False, True]


def test_a_minari_name_that_is_nowhere(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def offline(name: str) -> None:
        asked.append(name)
        raise OSError("no route to host")

    monkeypatch.setattr(minari, "download_dataset", offline)
    with pytest.raises(waypost.WaypostError, match=r"D4RL/antmaze/umaze-v1: not a file.*no route to host"):
        waypost.load("D4RL/antmaze/umaze-v1")
    assert asked == ["D4RL/antmaze/umaze-v1"]


def test_a_minari_name_is_downloaded_by_minaris_client(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = waypost.load("t-maze")
    monkeypatch.setattr(minari, "download_dataset", lambda name: waypost.save(data, store / name))
    assert waypost.load("some/maze-v3").fingerprint() == data.fingerprint()
