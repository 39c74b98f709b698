"""People's own logs: which column plays which role."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import waypost
from waypost import Columns, WaypostError
from waypost.data.convert import convert

LOG = """stamp,trip,x,y,gyro_1,gyro_0,push,turn,gain,fell
3,b,0.3,3.0,13,23,0.1,0.2,1,0
4,b,0.4,4.0,14,24,0.3,0.4,2,1
0,a,0.0,0.0,10,20,0.5,0.6,3,0
1,a,0.1,1.0,11,21,0.7,0.8,4,0
2,a,0.2,2.0,12,22,0.9,1.0,5,0
"""
MAPPING = Columns(
    observations=("y", "gyro_*"),
    actions=("push", "turn"),
    rewards="gain",
    terminals="fell",
    episode="trip",
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "log.csv").write_text(LOG)
    return tmp_path / "log.csv"


def test_a_mapping_names_orders_and_ends(log: Path) -> None:
    data = waypost.load(log, MAPPING)
    assert data.observations.tolist() == [[3, 13, 23], [4, 14, 24], [0, 10, 20], [1, 11, 21], [2, 12, 22]]
    assert data.observation_names == ("y", "gyro_1", "gyro_0")
    assert data.rewards.tolist() == [1, 2, 3, 4, 5]
    assert data.terminals.tolist() == [False, True, False, False, False]
    assert data.timeouts.tolist() == [False, False, False, False, True]
    assert data.next_valid.tolist() == [True, False, True, True, False]
    assert data.next_observations[0].tolist() == [4, 14, 24]
    assert data.action_low.tolist() == pytest.approx([0.1, 0.2])
    assert not data.notes


def test_rows_are_put_in_order_of_time_within_episodes(log: Path, tmp_path: Path) -> None:
    lines = LOG.splitlines()
    shuffled = [lines[0], *(lines[1 + i] for i in (4, 0, 2, 1, 3))]
    (tmp_path / "shuffled.csv").write_text("\n".join(shuffled) + "\n")
    data = waypost.load(tmp_path / "shuffled.csv", Columns(observations=("y",), episode="trip", time="stamp"))
    # The episode that comes first in the file comes first in the data.
    assert data.observations[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert data.episode_lengths.tolist() == [3, 2]
    assert "by stamp" in data.notes[0]
    mixed = waypost.load(tmp_path / "shuffled.csv", Columns(observations=("y",), episode="trip"))
    assert mixed.episode_lengths.tolist() == [3, 2]
    assert mixed.observations[:, 0].tolist() == [2, 0, 1, 3, 4]


def test_time_alone_makes_one_episode(log: Path) -> None:
    data = waypost.load(log, Columns(observations=("y",), time="stamp"))
    assert data.observations[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert data.episode_lengths.tolist() == [5]


def test_dates_are_an_order(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("when,x\n2026-01-02 10:00:00,2\n2026-01-01 10:00:00,1\n")
    assert waypost.load(tmp_path / "log.csv", Columns(observations=("x",), time="when")).observations.tolist() == [
        [1],
        [2],
    ]


@pytest.mark.parametrize("kind", ["csv", "parquet", "pandas", "pyarrow", "mapping"])
def test_every_kind_of_table_gives_the_same(kind: str, log: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(log)
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "log.parquet")
    source = {
        "csv": log,
        "parquet": str(tmp_path / "log.parquet"),
        "pandas": frame,
        "pyarrow": pa.Table.from_pandas(frame),
        "mapping": {name: frame[name].to_numpy() for name in frame},
    }[kind]
    assert waypost.load(source, MAPPING).fingerprint() == waypost.load(log, MAPPING).fingerprint()


def test_usual_names_need_no_mapping() -> None:
    """As robots' logs are published: lists as columns, an index per episode."""
    table = pa.table(
        {
            "observation.state": [[0.0, 1.0], [1.0, 2.0], [5.0, 6.0]],
            "action": pa.array([[0.5], [0.25], [0.125]], pa.list_(pa.float32(), 1)),
            "next.reward": [0.0, 1.0, 2.0],
            "next.done": [False, True, True],
            "episode_index": [0, 0, 1],
        }
    )
    data = waypost.load(table)
    assert data.observations.tolist() == [[0, 1], [1, 2], [5, 6]]
    assert data.actions[:, 0].tolist() == [0.5, 0.25, 0.125]
    assert data.rewards.tolist() == [0, 1, 2]
    assert data.terminals.tolist() == [False, True, True]
    assert "'next.done' taken as the end of the task" in data.notes[0]
    said = waypost.load(table, Columns(timeouts="next.done"))
    assert not said.terminals.any()
    assert said.episode_lengths.tolist() == [2, 1]
    assert not said.notes


def test_numbered_columns_need_no_mapping() -> None:
    table = pa.table({"obs_0": [1, 2], "obs_1": [3, 4], "action_0": [0, 1], "reward": [1, 1], "truncated": [0, 1]})
    data = waypost.load(table)
    assert data.observations.tolist() == [[1, 3], [2, 4]]
    assert data.actions.tolist() == [[0], [1]]
    assert data.timeouts.tolist() == [False, True]


def test_a_last_row_without_an_action_is_where_the_episode_arrived() -> None:
    frame = pd.DataFrame(
        {
            "obs_0": [0.0, 1, 2, 10, 11],
            "action_0": [0.5, 0.6, None, 0.7, None],
            "reward": [1.0, 2, None, 3, None],
            "episode": [0, 0, 0, 1, 1],
            "terminal": [0, 0, 1, 0, 0],
        }
    )
    data = waypost.load(frame)
    assert data.observations[:, 0].tolist() == [0, 1, 10]
    assert data.next_observations[:, 0].tolist() == [1, 2, 11]
    assert data.next_valid.all()
    assert data.terminals.tolist() == [False, True, False]
    assert data.timeouts.tolist() == [False, False, True]
    assert data.rewards.tolist() == [1, 2, 3]


def test_a_missing_action_elsewhere_is_a_mistake() -> None:
    frame = pd.DataFrame({"obs_0": [0.0, 1, 2], "action_0": [0.5, None, 0.25], "episode": [0, 0, 0]})
    with pytest.raises(WaypostError, match=r"actions are NaN or infinite in 1 of 3 rows \(1\)"):
        waypost.load(frame)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"obs": [[1, 2], [3]]}, "different lengths"),
        ({"obs": [[1, 2], None]}, "no value in 1 rows"),
        ({"obs": [[[1, 2]], [[3, 4]]]}, "lists of lists"),
        ({"obs": ["left", "right"]}, "'obs' holds text"),
    ],
)
def test_columns_that_are_no_numbers(table: dict[str, object], message: str) -> None:
    with pytest.raises(WaypostError, match=message):
        waypost.load(pa.table(table))


def test_what_cannot_be_read_is_said() -> None:
    with pytest.raises(WaypostError, match="from a int"):
        waypost.load(3)
    with pytest.raises(WaypostError, match="fields of observations have 2 and 3 rows"):
        waypost.load({"a": np.zeros(2), "b": np.zeros(3)}, Columns(observations=("a", "b")))
    with pytest.raises(WaypostError, match="actions have 3 rows, observations 2"):
        waypost.load({"observations": np.zeros(2), "actions": np.zeros(3)})


def test_arrays_can_be_put_together_from_several(tmp_path: Path) -> None:
    np.savez(tmp_path / "log.npz", pose=np.zeros((4, 2)), speed=np.ones(4), u=np.arange(4.0))
    data = waypost.load(tmp_path / "log.npz", Columns(observations=("speed", "pose"), actions=("u",)))
    assert data.observations[0].tolist() == [1, 0, 0]
    assert data.actions[:, 0].tolist() == [0, 1, 2, 3]


def test_folders_and_mixtures(log: Path, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    for name in ("b", "a"):
        (folder / f"{name}.csv").write_text(LOG.replace("0.1", "0.11") if name == "a" else LOG)
    (folder / "notes.txt").write_text("not data")
    both = waypost.load(folder, MAPPING)
    assert len(both) == 10
    assert both.actions[0, 0] == pytest.approx(0.11)
    assert both.episode_lengths.tolist() == [2, 3, 2, 3]
    mixture = waypost.load(f"{folder / 'a.csv'}+{folder / 'b.csv'}", MAPPING)
    assert mixture.fingerprint() == both.fingerprint()
    assert mixture.name == f"{folder / 'a.csv'}+{folder / 'b.csv'}"
    plus = tmp_path / "a+b.csv"
    plus.write_text(LOG)
    assert len(waypost.load(plus, MAPPING)) == 5


def test_an_array_file_may_say_by_number_which_rows_belong_together(tmp_path: Path) -> None:
    """Also beside terminals, and by any of the usual names: no pair straddles two episodes."""
    arrays = {"observations": np.arange(6.0), "actions": np.ones(6), "terminals": np.arange(6) == 5}
    np.savez(tmp_path / "numbered.npz", episode_id=np.array([0, 0, 1, 1, 1, 1]), **arrays)
    np.savez(tmp_path / "marked.npz", truncated=np.arange(6) == 1, **arrays)
    for name in ("numbered", "marked"):
        data = waypost.load(tmp_path / f"{name}.npz")
        assert data.episode_lengths.tolist() == [2, 4]
        assert data.next_valid.tolist() == [True, False, True, True, True, False]


def test_runs_of_terminals_are_one_arrival_in_tables_too() -> None:
    table = {"obs_0": np.arange(8.0), "terminal": np.isin(np.arange(8), (3, 4, 5)), "reward": np.ones(8)}
    data = waypost.load(table)
    assert data.episode_lengths.tolist() == [4, 2]
    assert data.observations[:, 0].tolist() == [0, 1, 2, 3, 6, 7]
    assert data.next_observations[3, 0] == 4
    assert "2 rows left out" in data.notes[0]


def test_a_file_may_say_that_a_next_state_is_unknown(tmp_path: Path) -> None:
    np.savez(tmp_path / "log.npz", observations=np.arange(5.0), next_valid=np.arange(5) != 2)
    data = waypost.load(tmp_path / "log.npz")
    assert data.next_valid.tolist() == [True, True, False, True, False]
    assert data.episode_lengths.tolist() == [3, 2]


# -- discrete actions ------------------------------------------------------------------------------------

CHOICES = "obs_0,action,episode\n0.5,2,a\n1.5,0,a\n2.5,2,a\n7.5,0,b\n8.5,1,b\n"


@pytest.mark.parametrize("kind", ["csv", "parquet", "pandas", "pyarrow", "mapping", "npz", "lists"])
def test_a_column_stored_as_integers_holds_discrete_actions(kind: str, tmp_path: Path) -> None:
    """That is what every library writes."""
    (tmp_path / "log.csv").write_text(CHOICES)
    frame = pd.read_csv(tmp_path / "log.csv")
    table = pa.Table.from_pandas(frame)
    pq.write_table(table, tmp_path / "log.parquet")
    arrays = {"observations": frame["obs_0"].to_numpy(), "actions": frame["action"].to_numpy(np.uint8)[:, None]}
    np.savez(tmp_path / "log.npz", **arrays, timeouts=np.isin(np.arange(5), (2, 4)))
    source = {
        "csv": tmp_path / "log.csv",
        "parquet": tmp_path / "log.parquet",
        "pandas": frame,
        "pyarrow": table,
        "mapping": {name: frame[name].to_numpy() for name in frame},
        "npz": tmp_path / "log.npz",
        "lists": table.set_column(1, "action", pa.array([[2], [0], [2], [0], [1]])),
    }[kind]
    data = waypost.load(source)
    assert (data.action_count, data.action_kind_declared) == (3, False)
    assert data.actions[:, 0].tolist() == [2, 0, 2, 0, 1]
    assert len(data.notes) == 1
    assert (
        "stored as integers: taken as 3 discrete actions; if they are continuous, say --columns.choices 0"
        in data.notes[0]
    )
    said = waypost.load(source, Columns(choices=4))
    assert (said.action_count, said.action_kind_declared, said.notes) == (4, True, ())
    continuous = waypost.load(source, Columns(choices=0))
    assert (continuous.action_count, continuous.action_kind_declared, continuous.notes) == (None, True, ())
    with pytest.raises(WaypostError, match="action 2 in row 0; 2 discrete actions are whole numbers from 0 to 1"):
        waypost.load(source, Columns(choices=2))


@pytest.mark.parametrize(
    ("actions", "count"),
    [
        (np.array([0.0, 2, 1]), None),
        (np.array([0, -1, 1]), None),
        (np.array([[0, 1], [1, 1], [2, 0]]), None),
        (np.array([True, False, True]), 2),
        (np.array([0, 0, 0]), 2),
        (np.array([0, 998, 999]), 1000),
        (np.array([0, 998, 1000]), None),
    ],
    ids=["floats", "negative", "two columns", "truth values", "one action only", "many", "too many"],
)
def test_what_is_taken_as_discrete(actions: np.ndarray, count: int | None) -> None:
    data = waypost.load({"observations": np.arange(3.0), "actions": actions})
    assert data.action_count == count
    assert len(data.notes) == (count is not None or actions.max() >= 1000)


def test_too_many_to_be_discrete_is_said_and_can_be_overruled() -> None:
    table = {"observations": np.arange(3.0), "actions": np.array([0, 5000, 70])}
    assert "stored as integers up to 5000: taken as continuous; if they are discrete" in waypost.load(table).notes[0]
    assert waypost.load(table, Columns(choices=5001)).action_count == 5001


def test_floats_can_be_declared_discrete() -> None:
    table = {"observations": np.arange(3.0), "actions": np.array([0.0, 2, 1])}
    assert waypost.load(table, Columns(choices=3)).action_count == 3
    with pytest.raises(WaypostError, match="arrays: has no actions"):
        waypost.load({"observations": np.arange(3.0)}, Columns(choices=3))


def test_empty_cells_where_an_episode_arrived_leave_the_others_integers(tmp_path: Path) -> None:
    """NumPy has no empty integer, so what the file holds must be asked of the table."""
    (tmp_path / "log.csv").write_text("obs_0,action,episode\n0.5,2,a\n1.5,0,a\n2.5,,a\n7.5,1,b\n8.5,,b\n")
    data = waypost.load(tmp_path / "log.csv")
    assert data.actions[:, 0].tolist() == [2, 0, 1]
    assert data.action_count == 3
    (tmp_path / "log.csv").write_text("obs_0,action,episode\n0.5,2.0,a\n1.5,0.0,a\n2.5,,a\n")
    assert waypost.load(tmp_path / "log.csv").action_count is None


def test_the_files_of_a_folder_need_not_all_show_every_action(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for name, actions in (("a", (0, 1)), ("b", (0, 0)), ("c", (3, 1))):
        rows = "".join(f"{row}.5,{action}\n" for row, action in enumerate(actions))
        (logs / f"{name}.csv").write_text(f"obs_0,action\n{rows}")
    data = waypost.load(logs)
    assert data.action_count == 4
    assert "4 discrete actions" in data.notes[0]
    assert convert(logs, tmp_path / "out" / "all.npz") == 6
    assert waypost.load(tmp_path / "out" / "all.npz").action_count == 4
    assert waypost.load(logs, Columns(choices=5)).action_count == 5
    # A setpoint of 0.5 in one file says what the others hold.
    (logs / "b.csv").write_text("obs_0,action\n1.5,0.5\n")
    data = waypost.load(logs)
    assert (data.action_count, data.notes) == (None, ())
    assert (data.action_low.tolist(), data.action_high.tolist()) == ([0], [3])


def test_asking_for_choices_alone_leaves_the_roles_open() -> None:
    assert not Columns()
    assert Columns(choices=0)
    assert Columns(choices=3)
    assert not Columns(choices=3).roles
    assert Columns(actions=("a",)).roles
    data = waypost.load({"obs": np.arange(4.0), "action": np.arange(4.0)}, Columns(choices=4))
    assert (data.action_count, data.action_kind_declared) == (4, True)


def test_a_pattern_takes_no_field_that_another_role_names(log: Path) -> None:
    data = waypost.load(log, Columns(observations=("*",), actions=("push", "turn"), rewards="gain", episode="trip"))
    assert data.observation_names == ("stamp", "x", "y", "gyro_1", "gyro_0", "fell")


def test_a_reward_is_an_expression_in_python_too(log: Path) -> None:
    data = waypost.load(log, MAPPING, reward="2 * y + 1")
    assert data.rewards.tolist() == [7, 9, 1, 3, 5]
    assert data.reading is not None
    assert data.reading.pipeline.reward == "2 * y + 1"


def test_what_a_log_lacks_is_said_with_a_way_out(log: Path) -> None:
    with pytest.raises(WaypostError, match=r'has no rewards, .*--columns.rewards, or .*: --reward "'):
        waypost.train("iql", log, columns=Columns(observations=("x", "y"), actions=("push",)), steps=1)
