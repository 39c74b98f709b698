"""Work shared out to processes of our own: plain children that speak through pipes.

Not `multiprocessing`: its children either copy a process in which JAX has started threads, which may hang, or run the
caller's script again, which needs a guard people forget. These import the one module they need, and end when their
pipe is closed: with the parent, however it ends.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import islice
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from waypost.errors import WaypostError

Request = dict[str, Any]
Arrays = dict[str, np.ndarray]
Work = Callable[..., Arrays]
Mapper = Callable[[Iterator[Request]], Iterator[tuple[Request, Arrays]]]


@contextmanager
def sharing(function: str, count: int) -> Iterator[Mapper]:
    """Something that gives requests back in their order, each with what `function`, "module:name", made of it.

    Requests are keyword arguments and are taken from their iterator only when a worker is about to be free, so
    the iterator may decide what is next by what has come back. One worker is this process itself. What a worker was
    doing when it died is done again by a new one, once.
    """
    if count == 1:
        work = _find(function)
        yield lambda requests: ((request, work(**request)) for request in requests)
        return
    children = [_Child(function) for _ in range(count)]
    idle: queue.SimpleQueue[_Child] = queue.SimpleQueue()
    for child in children:
        idle.put(child)

    def ask(request: Request) -> tuple[Request, Arrays]:
        child = idle.get()
        try:
            return request, child.ask(request)
        except _Died:
            with deciding:
                if ended:
                    raise
                child.end()
                child.begin()
            return request, child.ask(request)
        finally:
            idle.put(child)

    def in_order(requests: Iterator[Request]) -> Iterator[tuple[Request, Arrays]]:
        waiting = deque(executor.submit(ask, request) for request in islice(requests, 2 * count))
        while waiting:
            yield waiting.popleft().result()
            waiting.extend(executor.submit(ask, request) for request in islice(requests, 1))

    executor, deciding, ended = ThreadPoolExecutor(count), threading.Lock(), False
    try:
        yield in_order
    finally:
        # Children first: a thread waiting for an answer then finds the pipe closed.
        with deciding:
            ended = True
            for child in children:
                child.end()
        executor.shutdown(cancel_futures=True)


def _find(function: str) -> Work:
    module, _, name = function.partition(":")
    return getattr(import_module(module), name)


class _Died(WaypostError):
    """A worker process is gone."""


class _Child:
    """A process that does one request after another."""

    def __init__(self, function: str) -> None:
        self.function = function
        self.begin()

    def begin(self) -> None:
        """Start the process."""
        # The same modules as here, wherever they were found; nothing is drawn, so no display is looked for.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "MUJOCO_GL": "disable"}
        program = f"from {__name__} import serve; serve({self.function!r})"
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )

    def ask(self, request: Request) -> Arrays:
        """The answer to a request; its mistakes are raised here."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
            head = json.loads(self.process.stdout.readline())
            content = self.process.stdout.read(head["bytes"])
        except (OSError, ValueError):
            raise _Died(
                "a worker process ended unexpectedly, twice, possibly out of memory; try again with workers = 1"
            ) from None
        if "mistake" in head:
            raise WaypostError(head["mistake"])
        return load(content)

    def end(self) -> None:
        """Stop it, whatever it is doing."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with suppress(OSError):  # of what could not be sent any more
                pipe.close()


def serve(function: str) -> None:
    """A child's life: answer requests until there are no more."""
    # Ctrl-C reaches the whole group; the parent decides what becomes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(BrokenPipeError), os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # what a library prints must not come between the answers
        work = _find(function)
        for line in sys.stdin.buffer:
            head: dict[str, Any] = {}
            try:
                content = save(work(**json.loads(line)))
            except WaypostError as error:
                content, head = b"", {"mistake": str(error)}
            answers.write(json.dumps({**head, "bytes": len(content)}).encode() + b"\n" + content)
            answers.flush()
