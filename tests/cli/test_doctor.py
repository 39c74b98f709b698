"""`waypost doctor` in the terminal, for programs, and where NumPy is broken."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from waypost.cli import doctor, main
from waypost.doctor.checks import Check, Checkup

WELL = Checkup({"packages": [Check("numpy", "2.1"), Check("wandb", "missing", "note", "pip install wandb")]})
ILL = Checkup({**WELL.sections, "devices": [Check("memory", "0.1 GB", "error", "close other programs")]})
WITHOUT_NUMPY = "import sys; sys.modules['numpy'] = None; import waypost.cli as c; c.main(['doctor', '--json'])"


def ended(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(["doctor", *arguments])
    return int(stop.value.code or 0), *capfd.readouterr()


def test_no_problems(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(doctor, "examine", lambda self_test, tell: asked.append(self_test) or WELL)
    code, out, _ = ended(capfd)
    assert code == 0
    assert out.splitlines()[-1] == "no problems found"
    assert "pip install wandb" in out
    code, out, _ = ended(capfd, "--json", "--no-self-test")
    assert (code, json.loads(out)) == (0, WELL.to_json())
    assert asked == [True, False]


def test_a_problem_is_the_last_line_and_exit_code_2(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "examine", lambda self_test, tell: ILL)
    code, out, err = ended(capfd)
    assert code == 2
    assert "no problems found" not in out
    assert err.splitlines()[-1] == "waypost: error: memory: 0.1 GB; close other programs"
    code, out, _ = ended(capfd, "--json")
    assert (code, json.loads(out)["ok"]) == (2, False)


def test_a_broken_installation_is_examined() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_NUMPY], capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    sections = json.loads(done.stdout)["sections"]
    assert "numpy" in [check["what"] for check in sections["packages"] if check["level"] == "error"]
    assert sections["self-test"][0]["level"] == "error"
    assert done.stderr.splitlines()[-1].startswith("waypost: error: ")
    assert "Traceback" not in done.stderr
