"""Data too large for the device, learned from window by window.

The rows are divided into blocks of whole episodes. A window is some of the blocks, drawn at random; the windows of an
epoch hold every block once. While the device learns on one window a thread prepares the next, so there are never more
than two in memory. Which rows are in a window depends only on the data and the window's number, so a resumed training
meets the same rows on any machine.
"""

from __future__ import annotations

import math
import mmap
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from waypost.data.dataset import Dataset
from waypost.data.in_file import copied, files_of
from waypost.errors import WaypostError
from waypost.types import Flags

Arrays = dict[str, np.ndarray]

WINDOW_ROWS = 1 << 20
WINDOW_BYTES = 1 << 29
"""Where rows are so wide that WINDOW_ROWS of them would need more, a window has fewer."""
WINDOW_BLOCKS = 32
"""Blocks in a window."""
SAMPLE_ROWS = 1 << 19
PIECE_ROWS = 1 << 13
"""A sample is made of pieces of about this length, from all over the data."""
UPDATES_UNIT = 1000
"""A window serves a multiple of this many updates, so that chunks of updates end with it: each length is compiled."""


class Window(NamedTuple):
    """Arrays to draw batches from; only their first `rows` entries count."""

    columns: Arrays
    rows: int


def sample(dataset: Dataset, rows: int = SAMPLE_ROWS, piece: int = PIECE_ROWS) -> Dataset:
    """About so many rows from all over the data, in whole episodes where these are not too long; all rows, if few."""
    width = sum(values.nbytes for values in dataset.columns.values()) // len(dataset)
    rows = max(1, min(rows, WINDOW_BYTES // width))
    if len(dataset) <= rows:
        return dataset
    cuts = divide(dataset.ends, min(piece, rows))
    pieces = len(cuts) - 1
    chosen = np.linspace(0, pieces - 1, max(1, round(rows / len(dataset) * pieces))).round().astype(np.int64)
    parts = [_block(dataset, cuts[i], cuts[i + 1]) for i in chosen]
    columns: dict[str, Any] = {name: np.concatenate([part.columns[name] for part in parts]) for name in dataset.columns}
    return replace(dataset, **columns)


def divide(ends: Flags, rows: int) -> NDArray[np.int64]:
    """Where to cut the data into blocks of about so many rows: evenly, moved back to where an episode begins.

    An episode that begins more than half a block before that is cut in two.
    """
    return evenly(ends, math.ceil(len(ends) / rows))


def evenly(ends: Flags, blocks: int) -> NDArray[np.int64]:
    """Where to cut the data into so many blocks, as `divide` does."""
    even = np.arange(blocks + 1) * len(ends) // blocks
    after_end = np.concatenate([[0], np.flatnonzero(ends) + 1])
    episode = after_end[np.searchsorted(after_end, even, side="right") - 1]
    return np.where(even - episode < len(ends) / blocks / 2, episode, even)


def _block(dataset: Dataset, first: int, last: int) -> Dataset:
    """Some rows of the data, taken into memory; the last of them ends an episode."""
    columns: dict[str, Any] = {name: copied(values[first:last]) for name, values in dataset.columns.items()}
    columns["ends"][-1] = True
    return replace(dataset, **columns)


class Stream:
    """Windows of prepared arrays, as `Learner` takes them."""

    def __init__(
        self,
        dataset: Dataset,
        prepare: Callable[[Dataset], Arrays],
        like: Arrays,
        batch_size: int,
        *,
        seed: int = 0,
        block_rows: int | None = None,
        window_rows: int | None = None,
        updates: int | None = None,
    ):
        """`prepare` makes arrays of a block, at most one entry per row; `like` are those of a sample."""
        self.dataset, self.prepare, self.seed = dataset, prepare, seed
        width = sum(math.prod(column.shape[1:]) * column.dtype.itemsize for column in like.values())
        window_rows = window_rows or max(1, min(WINDOW_ROWS, WINDOW_BYTES // width))
        self.cuts = divide(dataset.ends, block_rows or max(1, window_rows // WINDOW_BLOCKS))
        sizes = np.diff(self.cuts)
        self.windows = min(math.ceil(len(dataset) / window_rows), len(sizes))
        """How many make up an epoch."""
        most = math.ceil(len(sizes) / self.windows)
        self.capacity = int(np.sort(sizes)[-most:].sum())
        """Rows of the largest possible window; all windows have this length, so that nothing is compiled twice."""
        self.shapes = {name: ((self.capacity, *column.shape[1:]), column.dtype) for name, column in like.items()}
        """Shape and type of each column of a window."""
        passes = len(dataset) / self.windows / batch_size
        self.updates = updates or max(1, round(passes / UPDATES_UNIT)) * UPDATES_UNIT
        """Updates a window serves: about as many as it takes to see it once."""
        self._thread: ThreadPoolExecutor | None = None
        self._pending: tuple[int, Future[Window]] | None = None
        self._cancelled = threading.Event()

    def index(self, step: int) -> int:
        """The window of a step."""
        return 0 if self.windows == 1 else step // self.updates

    def left(self, step: int) -> int:
        """Steps from there to the next window."""
        return 2**31 if self.windows == 1 else self.updates - step % self.updates

    def blocks(self, index: int) -> list[int]:
        """The blocks of a window, in the order they lie in the data."""
        epoch, place = divmod(index, self.windows)
        order = np.random.default_rng((self.seed, epoch)).permutation(len(self.cuts) - 1)
        return sorted(np.array_split(order, self.windows)[place].tolist())

    def take(self, index: int) -> Window:
        """The window, as soon as it is ready; what went wrong in the thread is raised here."""
        if self._pending is None or self._pending[0] != index:
            self._cancel()
            return self._window(index)
        window = self._pending[1].result()
        self._pending = None
        return window

    def begin(self, index: int) -> None:
        """Let the thread prepare this window; call it when the one before is on the device."""
        self._cancel()
        if self._thread is None:
            # One for all windows: a new thread for each would not give back the memory of the one before.
            self._thread = ThreadPoolExecutor(1, "window")
        self._pending = index, self._thread.submit(self._window, index)

    def close(self) -> None:
        """Let the thread end after the block it is preparing."""
        self._cancel()
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None

    def _cancel(self) -> None:
        if self._pending is not None:
            self._cancelled.set()
            wait([self._pending[1]])
            self._cancelled.clear()
            self._pending = None

    def _window(self, index: int) -> Window:
        columns = {name: zeros(shape, dtype) for name, (shape, dtype) in self.shapes.items()}
        rows = 0
        for block in self.blocks(index):
            if self._cancelled.is_set():
                break
            first, last = self.cuts[block], self.cuts[block + 1]
            prepared = self.prepare(_block(self.dataset, first, last))
            found = len(next(iter(prepared.values())))
            if found > last - first:
                raise WaypostError(
                    f"{self.dataset.name}: this algorithm makes {found} entries of {last - first} rows, "
                    "which cannot be streamed; use --stream never"
                )
            for name, column in columns.items():
                column[rows : rows + found] = prepared[name]
            rows += found
        # Only now: a change while it was read counts, one after that does not.
        for file in set().union(*map(files_of, self.dataset.columns.values())):
            file.check()
        if not rows and not self._cancelled.is_set():
            raise WaypostError(f"{self.dataset.name}: nothing to learn from in rows {first} to {last}")
        return Window(columns, rows)


def zeros(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Zeros in pages of their own.

    XLA can use them on a CPU as they are, without a copy for each device, and they go back to the system as soon as
    nobody needs them; memory from the common heap stays there, and more of it with every window.
    """
    pages = mmap.mmap(-1, max(1, math.prod(shape) * dtype.itemsize), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(pages, dtype, math.prod(shape)).reshape(shape)
