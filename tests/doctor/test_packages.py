"""Versions and extras, also where something is missing, too old or broken."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version

import pytest

from waypost.doctor import packages as looked
from waypost.doctor.checks import Check
from waypost.doctor.packages import HIDDEN, extras, needs, packages, system

REQUIRED = ["numpy>=2.0", "tables>=1 ; extra == 'tables'", "waypost[tables] ; extra == 'more'", "b ; extra == 'more'"]


class About:
    """The metadata of a package with two extras, one of which holds the other."""

    def get_all(self, name: str, usual: list[str]) -> list[str]:
        return {"Requires-Dist": REQUIRED, "Provides-Extra": ["tables", "more", "dev"]}.get(name, usual)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Which versions of which packages are there; tests change it."""
    found = {"numpy": "2.1", "tables": "1.5", "b": "1", "jaxlib": "1"}

    def known(name: str) -> str:
        if name not in found:
            raise PackageNotFoundError(name)
        return found[name]

    monkeypatch.setattr(looked, "metadata", lambda name: About())
    monkeypatch.setattr(looked, "version", known)
    return found


def test_what_runs_is_said() -> None:
    assert version("waypost") in system()[0].found
    assert sys.executable in system()[1].found


def test_this_installation_is_well() -> None:
    found = {check.what: check.level for check in packages()}
    assert {"jax", "jaxlib", "numpy", "equinox", "tyro", "markdown-it-py"} <= found.keys()
    assert set(found.values()) == {"ok"}
    shown = {check.what for check in extras()}
    assert {"hdf5", "minari", "mujoco", "onnx", "serve", "tables", "wandb"} <= shown
    assert not HIDDEN & shown


def test_an_extra_holds_what_it_names(installed: dict[str, str]) -> None:
    assert [each.name for each in needs("")] == ["numpy"]
    assert [each.name for each in needs("more")] == ["tables", "b"]
    assert extras() == [Check("more", "tables 1.5, b 1"), Check("tables", "tables 1.5")]


def test_what_is_missing_or_old_is_said(installed: dict[str, str]) -> None:
    installed |= {"numpy": "1.26", "tables": "0.9"}
    del installed["b"]
    assert packages()[0] == Check("numpy", "1.26, >=2.0 is needed", "error", "pip install --upgrade 'numpy>=2.0'")
    more, tables = extras()
    assert (more.found, more.level) == ("tables 0.9, >=1 is needed, b missing", "warning")
    assert tables.advice == "pip install --upgrade 'waypost[tables]'"
    del installed["numpy"], installed["tables"]
    assert packages()[0].found == "missing"
    assert extras()[1].level == "note"


def test_a_package_that_cannot_be_imported_is_a_problem(
    installed: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    found = packages()[0]
    assert found.level == "error"
    assert "2.1, cannot be imported: ModuleNotFoundError" in found.found
