"""Programs that are kept between processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest

from waypost.training import compilation

PROGRAM = """
import jax
compiled, taken = [], []
def note(name, **_):
    for ending, names in (("cache_misses", compiled), ("cache_hits", taken)):
        names += [name] if name.endswith(ending) else []
jax.monitoring.register_event_listener(note)
import waypost
small = {f"{part}_hidden": (4,) for part in ("value", "guide", "executor")}
run = waypost.train("por", "t-maze", steps=4, batch_size=4, evaluation=waypost.Protocol(episodes=1), **small)
print(len(compiled), len(taken), run.policy.act([0.0, 0.0]).tolist())
"""


def started(cache: str, **more: str) -> tuple[int, int, str]:
    """A training in a process of its own: programs compiled, programs taken from the cache, and what it learned."""
    environment = {name: value for name, value in os.environ.items() if "CACHE" not in name}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        env={**environment, "WAYPOST_CACHE": cache, **more},
        check=True,
    )
    compiled, taken, learned = done.stdout.split(maxsplit=2)
    return int(compiled), int(taken), learned


def test_the_second_training_of_the_same_shape_compiles_nothing(tmp_path: Path) -> None:
    """Also where Python goes through sets in another order."""
    compiled, taken, learned = started(str(tmp_path), PYTHONHASHSEED="1")
    assert compiled > 0
    assert started(str(tmp_path), PYTHONHASHSEED="2") == (0, compiled + taken, learned)
    (folder,) = tmp_path.iterdir()
    assert folder.name.startswith("jax-")


def test_the_cache_can_be_switched_off_and_jaxs_own_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = compilation.keep_programs.__wrapped__
    monkeypatch.setenv("WAYPOST_CACHE", str(tmp_path / "ours"))
    assert jax.config.jax_compilation_cache_dir  # the tests' own
    assert keep() is None
    nothing_set = SimpleNamespace(jax_compilation_cache_dir=None, update=lambda *_: None)
    monkeypatch.setattr(compilation, "jax", SimpleNamespace(config=nothing_set, __version__="0"))
    folder = keep()
    assert folder is not None
    assert folder.parent == tmp_path / "ours"
    monkeypatch.setenv("WAYPOST_CACHE", "off")
    assert keep() is None
    monkeypatch.setenv("WAYPOST_CACHE", str(folder / "a-file" / "below"))
    (folder / "a-file").touch()
    assert keep() is None


def test_the_oldest_programs_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for age, name in enumerate(("new", "middle", "old")):
        file = tmp_path / name
        file.write_bytes(bytes(10))
        os.utime(file, (1000 - age, 1000 - age))
    monkeypatch.setattr(compilation, "LARGEST", 25)
    compilation._trim(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {"new", "middle"}
