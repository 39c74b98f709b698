"""Those who watch a training."""

from __future__ import annotations

from inspect import getmembers, isfunction

import pytest

from waypost.training.callbacks import Callback, Callbacks, in_turn

EVENTS = [name for name, _ in getmembers(Callback, isfunction) if not name.startswith("wants")]


@pytest.mark.parametrize("event", EVENTS)
def test_several_callbacks_are_told_the_same_in_their_order(event: str) -> None:
    told: list[tuple[str, tuple[object, ...]]] = []

    class Listener(Callback):
        def __init__(self, name: str):
            setattr(self, event, lambda *news: told.append((name, news)))

    getattr(Callbacks(Listener("first"), Listener("second")), event)(1, "two")
    assert told == [("first", (1, "two")), ("second", (1, "two"))]


def test_one_of_several_is_enough_to_stop() -> None:
    class Full(Callback):
        def wants_stop(self) -> str:
            return "enough"

    assert Callbacks(Callback(), Full(), Callback()).wants_stop() == "enough"
    assert Callbacks(Callback(), Full()).may_stop
    assert Callbacks(Callback(), Callback()).wants_stop() == ""
    assert not Callbacks(Callback(), Callback()).may_stop


def test_one_of_several_is_enough_to_pause() -> None:
    class Tired(Callback):
        def wants_pause(self, step: int) -> bool:
            return step >= 3

    assert not Callbacks(Callback(), Tired()).wants_pause(2)
    assert Callbacks(Callback(), Tired()).wants_pause(3)


def test_what_is_done_one_after_the_other_says_how_long_the_rest_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is only read, which says nothing; the second takes five minutes, the third one."""
    now = 0.0
    notes: list[str] = []

    class Listen(Callback):
        def note(self, text: str) -> None:
            notes.append(text)

    monkeypatch.setattr("waypost.training.callbacks.time.monotonic", lambda: now)
    for seconds in in_turn((1.0, 300.0, 60.0, 300.0), "training", Listen()):
        now += seconds
    assert notes == [
        "training 1 of 4",
        "training 2 of 4",
        "training 3 of 4, about 10 min to go",
        "training 4 of 4, about 3 min to go",
    ]
