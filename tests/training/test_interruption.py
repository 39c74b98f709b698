"""Signals that ask a training to stop."""

from __future__ import annotations

import signal

import pytest

from waypost.training.interruption import signals


def test_sigterm_may_come_twice_but_a_second_interrupt_stops_at_once() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with signals() as asked:
        assert not asked()
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert asked()
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with signals() as asked:
            signal.raise_signal(signal.SIGINT)
            assert asked()
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, usual)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
