"""Errors, in words for the person who can fix them."""


class WaypostError(Exception):
    """A mistake the user can fix: the message names the file or field and what to do.

    The command line prints it on one line and exits with code 2, without a traceback.
    """


class DivergenceError(WaypostError):
    """Training met a non-finite metric; the last good checkpoint is kept."""


class DirectoryError(WaypostError):
    """A run directory cannot be used as asked: another process uses it, or it holds something else.

    It says nothing about the data or the algorithm, so a comparison stops here.
    """


class DamagedFile(WaypostError):
    """A file is damaged, or is not what its name says."""


class MissingPart(WaypostError):
    """The agent lacks a part that is needed here."""


class InterruptedRun(Exception):
    """Training was stopped (SIGINT or SIGTERM) or paused; everything up to `step` is saved."""

    def __init__(self, step: int):
        super().__init__(f"stopped at step {step}")
        self.step = step
