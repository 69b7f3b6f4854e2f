"""
Everything perfzero raises on purpose.

    PerfzeroError
    ├── UsageError              exit 2    the command line contradicts itself
    ├── SourceError             exit 3    nothing can be measured here
    │   ├── NoGpu                         no NVIDIA GPU or no driver
    │   ├── NoLibrary                     no usable libcupti / libnvidia-ml
    │   ├── NotSupported                  this GPU or driver lacks what a source needs
    │   ├── NotPermitted                  the driver keeps the counters from this user
    │   └── DeviceBusy          exit 5    another tool holds the counters
    ├── InputError              exit 4    a file or folder cannot be read
    │   ├── NoRecording                   nothing there, or no recording
    │   └── BrokenRecording               there, but not to be trusted
    ├── UnlikeMachines          exit 11   recordings that must not be compared
    └── OutputError             exit 1    the results cannot be written

A message says what happened, why, and what to type next. Foreign errors (ctypes codes,
pynvml, Arrow, OSError) are turned into one of these at the border where they arise.
"""

from __future__ import annotations


class PerfzeroError(Exception):
    """Base of all. `exit_code` is what the command line returns for it."""

    exit_code = 1

    @property
    def sentence(self) -> str:
        """What it says: a sentence of `perfzero.words`, where it is one, that knows its key."""
        return self.args[0] if self.args and isinstance(self.args[0], str) else str(self)


class UsageError(PerfzeroError):
    """The command line asks for things that exclude each other."""

    exit_code = 2


class SourceError(PerfzeroError):
    """A source of samples cannot be opened, or stopped delivering."""

    exit_code = 3


class NoGpu(SourceError):
    """There is no NVIDIA GPU here, or no driver that answers."""


class NoLibrary(SourceError):
    """The library a source needs is not installed, or too old."""


class NotSupported(SourceError):
    """This GPU or driver lacks what a source needs, whoever asks."""


class NotPermitted(SourceError):
    """The driver reserves the performance counters for administrators."""


class DeviceBusy(SourceError):
    """Another process holds the performance counters of this GPU."""

    exit_code = 5


class InputError(PerfzeroError):
    """A file or folder named by the user cannot be used."""

    exit_code = 4


class NoRecording(InputError):
    """The named folder does not exist or holds no recording."""


class BrokenRecording(InputError):
    """The recording exists but cannot be trusted: malformed, truncated beyond use, hostile."""


class UnlikeMachines(PerfzeroError):
    """Recordings were made on machines so unlike that a difference need not be the program's."""

    exit_code = 11


class OutputError(PerfzeroError):
    """The results exist but cannot be written: a full disk, no permission."""
