"""How tests compile, and what they share."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from waypost.resources import cpu_name

# Two CPU devices even on one core, so that lanes of seeds lie on different ones. XLA's older way to write fused loops
# compiles an update in a third of the time, and a program that is not split for many cores in a fifth less.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_force_host_platform_device_count=2 --xla_cpu_use_fusion_emitters=false "
    "--xla_cpu_parallel_codegen_split_count=1",
)
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Many tests, and the processes they start, compile the same small programs; other clones of the project do, too.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path("~/.cache/waypost/tests-zstd").expanduser() / cpu_name()))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES", "none")
# Most tests, and those processes, compile more than they run.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "true")

import jax
from samples import walk

import waypost.recording  # noqa: F401 (data made here are known by name)
from waypost.data.dataset import Dataset

FIRST = ("test_lessons", "test_every", "test_disk", "test_waypoint", "test_por", "test_learning", "test_cli")
"""The files that take longest, so that none of them is what all workers wait for in the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: FIRST.index(item.path.stem) if item.path.stem in FIRST else len(FIRST))


# Tracing makes many small objects that live for long: looking for garbage among them so often finds none.
gc.set_threshold(100_000, 50, 100)


@pytest.fixture
def dataset() -> Dataset:
    return walk()


@pytest.fixture(autouse=True)
def usual_optimisations_for_learning(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests that learn for long compile their updates as users do."""
    if request.node.get_closest_marker("learns") is None:
        yield
        return
    from waypost.training import loop

    usual = loop._compiler_options
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "_compiler_options", lambda: {**(usual() or {}), "xla_cpu_use_fusion_emitters": True})
        jax.config.update("jax_disable_most_optimizations", False)
        loop._programs.cache_clear()
        yield
    jax.config.update("jax_disable_most_optimizations", True)
    loop._programs.cache_clear()


@pytest.fixture(autouse=True, scope="module")
def programs_that_stay() -> Iterator[None]:
    """What a file has compiled stays for the others, and is not searched for garbage again and again."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_window_under_way() -> Iterator[None]:
    """Streams that a test leaves open are gone before the next one counts threads."""
    yield
    left = [thread for thread in threading.enumerate() if thread.name.startswith("window")]
    if left:
        gc.collect()
    for thread in left:
        thread.join(5)
