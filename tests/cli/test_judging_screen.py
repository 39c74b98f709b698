"""What the terminal shows of a judgement, and of a run that had no simulator."""

from __future__ import annotations

import numpy as np
import pytest

from waypost.cli.judging import show_judgement, show_losses, show_run
from waypost.console.screen import Screen, screen
from waypost.studies.judge.judgement import Judged, Judgement, difference, estimate
from waypost.training.plan import plan
from waypost.training.runs import Run

MEMBERS = np.array([1.0, 1.1, 0.9, 1.05, 0.95])


def test_the_verdict_is_the_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    data = Judged("data", None, value=estimate(MEMBERS), gain=difference(MEMBERS, MEMBERS), members=MEMBERS, rank=1)
    gone = Judged("gone seed 0", "iql", "gone", 0, note="its actions are unlike any")
    show_judgement(Judgement("log", 9, 90, 0.99, 3.0, 2.5, (data, gone), (1,), 0.0), screen)
    shown = capsys.readouterr().err
    assert "cannot tell" in shown
    assert "gone seed 0: its actions are unlike any" in shown
    assert " ".join(shown.split()).endswith("Keep what recorded the data.")
    assert "mean return is 3, 2.5 discounted" in " ".join(shown.split())


def test_a_run_without_a_simulator_shows_its_losses(capsys: pytest.CaptureFixture[str]) -> None:
    planned = plan("bc", "log.npz", env="none", hold_out=0.1)
    rows = [
        {"step": 1, "seed": 0, "policy_loss": 9.0, "held_out_policy_loss": 8.0},
        {"step": 2, "seed": 0, "policy_loss": 1.25, "held_out_policy_loss": 2.5},
    ]
    show_losses(Run(planned, {"seconds": 1.0}, [], rows, []), screen)
    shown = " ".join(capsys.readouterr().err.split())
    assert "held out policy loss" in shown
    assert "1.25" in shown
    assert "2.5" in shown
    assert "9" not in shown
    assert "waypost judge RUN" in shown
    assert "--data" not in shown


def test_a_narrow_terminal_breaks_no_word(capsys: pytest.CaptureFixture[str]) -> None:
    members = -100.0 * MEMBERS
    data = Judged("data", None, value=estimate(members), gain=difference(members, members), members=members, rank=2)
    better = members + 20.0
    one = Judged("tank seed 0", "iql", "tank", 0, estimate(better), difference(better, members), members=better, rank=1)
    judgement = Judgement("log", 9, 90, 0.99, 3.0, 2.5, (one, data), (1,), 0.0)
    for width, whole in ((80, False), (140, True)):
        to = Screen()
        to.width = width
        show_judgement(judgement, to)
        shown = capsys.readouterr().out
        assert "\u2026" not in shown
        assert ("doubly robust" in " ".join(shown.split())) == whole
        assert "tank seed 0" in shown


def test_a_stopped_run_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    planned = plan("bc", "log.npz", env="none")
    stopped = {"step": 40, "reason": "held_out_policy_loss was best at step 20, 0.5; 2 rows without a better one"}
    show_run(Run(planned, {"seconds": 1.0, "stopped": stopped}, [], [], []), screen)
    shown = " ".join(capsys.readouterr().err.split())
    assert "stopped at step 40: held_out_policy_loss was best at step 20" in shown
    assert "\u2503 seed" not in shown
