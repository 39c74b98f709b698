"""Cores, memory, devices and folders."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

from waypost.doctor.checks import Check, Level
from waypost.doctor.machine import LITTLE, devices, folder, memory, places, unused_gpus


def test_the_machine_is_described() -> None:
    found = {check.what: check for check in devices()}
    assert {"cores", "memory", "device 0", "JAX_PLATFORMS", "XLA_FLAGS"} <= found.keys()
    assert "cpu" in found["device 0"].found
    assert found["JAX_PLATFORMS"].found == os.environ["JAX_PLATFORMS"]


@pytest.mark.parametrize(("free", "level"), [(LITTLE - 1, "warning"), (LITTLE, "ok"), (1 << 62, "note")])
def test_little_memory_is_said(free: int, level: Level) -> None:
    assert memory(free).level == level


def test_a_gpu_that_is_not_used_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert unused_gpus({"cpu"}, tmp_path) == []
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/version").touch()
    assert unused_gpus({"cpu", "gpu"}, tmp_path) == []
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    [found] = unused_gpus({"cpu"}, tmp_path)
    assert "NVIDIA" in found.found
    assert "docs.jax.dev" in found.advice
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert unused_gpus({"cpu"}, tmp_path)[0].advice == "JAX_PLATFORMS keeps JAX on the CPU"


def test_a_folder_is_measured_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "file").write_bytes(bytes(1_500_000))
    assert f"{tmp_path}: 1.5 MB used, " in folder("data", tmp_path, "warning", "").found
    assert "used" not in folder("runs", tmp_path, "warning", "", count=False).found
    assert folder("data", tmp_path / "new" / "one", "warning", "").level == "ok"
    assert [each.name for each in tmp_path.iterdir()] == ["in"]


def test_a_folder_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = folder("data", tmp_path / "file", "warning", "name another")
    assert found == Check("data", f"{tmp_path / 'file'}: Not a directory", "warning", "name another")


@pytest.fixture
def no_cache_of_jax() -> Iterator[None]:
    """As a user has it: JAX itself keeps nothing."""
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    yield
    jax.config.update("jax_compilation_cache_dir", before)


@pytest.mark.usefixtures("no_cache_of_jax")
def test_the_folders_are_those_that_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAYPOST_DATA", str(tmp_path / "data"))
    for cache, words in ((str(tmp_path / "cache"), str(tmp_path / "cache" / "jax-")), ("off", "not kept")):
        monkeypatch.setenv("WAYPOST_CACHE", cache)
        found = {check.what: check.found for check in places()}
        assert found["data"].startswith(str(tmp_path / "data"))
        assert words in found["compiled programs"]
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_was_set_for_jax_is_named() -> None:
    found = {check.what: check.found for check in places()}
    assert found["compiled programs"] == f"{jax.config.jax_compilation_cache_dir}, as set for JAX itself"
