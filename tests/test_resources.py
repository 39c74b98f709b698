"""What there is: memory of the machine, the control group and the process, and optional packages."""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import pytest

import waypost.resources as memory
from waypost.errors import WaypostError
from waypost.resources import available_memory, cpu_name, device_memory, enough_memory, require


def test_a_missing_package_is_named_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert require("json.decoder", "all", "this").JSONDecoder
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(WaypostError) as error:
        require("pyarrow.parquet", "tables", "log.parquet: reading Parquet")
    assert str(error.value) == "log.parquet: reading Parquet needs pyarrow; pip install 'waypost[tables]'"


def test_there_is_memory() -> None:
    assert 1 << 20 < available_memory() < 1 << 50


def test_the_limits_of_control_groups_count(tmp_path: Path) -> None:
    def put(name: str, text: str) -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    assert memory._control_groups(tmp_path) == []
    put("proc/self/cgroup", "0::/outer/inner\n")
    put("sys/fs/cgroup/outer/inner/memory.max", "max\n")
    put("sys/fs/cgroup/outer/inner/memory.current", "10\n")
    put("sys/fs/cgroup/outer/memory.max", "1000\n")
    put("sys/fs/cgroup/outer/memory.current", "400\n")
    put("sys/fs/cgroup/outer/memory.stat", "anon 300\nactive_file 30\ninactive_file 70\n")
    assert memory._control_groups(tmp_path) == [700]
    put("proc/self/cgroup", "4:memory:/not/seen/here\n3:cpu:/\n")
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "500\n")
    put("sys/fs/cgroup/memory/memory.usage_in_bytes", "100\n")
    assert memory._control_groups(tmp_path) == [400]


@pytest.mark.parametrize("kind", [resource.RLIMIT_DATA, resource.RLIMIT_AS])
def test_the_limits_of_the_process_count(kind: int, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {kind: (1 << 40, 1 << 40)}
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    monkeypatch.setattr(resource, "getrlimit", lambda asked: limits.get(asked, unlimited))
    [room] = memory._process()
    assert 1 << 39 < room < 1 << 40, "what is used already counts"
    limits[kind] = (1 << 20, 1 << 20)
    assert available_memory() == 0


def test_a_device_says_what_it_has() -> None:
    def device(statistics: dict[str, int] | None) -> Any:
        return SimpleNamespace(memory_stats=lambda: statistics)

    assert device_memory(device(None)) is None
    assert device_memory(device({"bytes_in_use": 5})) is None
    assert device_memory(device({"bytes_limit": 100, "bytes_in_use": 5})) == 95


def test_running_out_is_said_in_one_line() -> None:
    for error in (MemoryError(), jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")):
        with pytest.raises(WaypostError, match=r"big: does not fit in memory; .*waypost convert"), enough_memory("big"):
            raise error
    with pytest.raises(jax.errors.JaxRuntimeError), enough_memory("big"):
        raise jax.errors.JaxRuntimeError("INTERNAL: something else")


def test_a_type_of_processor_has_a_short_name_of_its_own() -> None:
    assert len(cpu_name()) == 8
    assert cpu_name() == cpu_name()


@pytest.mark.parametrize(("limit", "found"), [("1", 1), ("0", 1), ("many", None), ("", None), ("99999", None)])
def test_the_number_of_cores_can_be_limited(limit: str, found: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(memory.CORES, raising=False)
    usual = memory.cores()
    monkeypatch.setenv(memory.CORES, limit)
    assert memory.cores() == (found or usual)
