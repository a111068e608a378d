"""Errors whose messages a person reads: one sentence with what happened, the limit and what to do."""

import contextlib
import math
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path


class BertCoreError(Exception):
    """Base of all errors whose message is meant for a person. notes: what is to be said before it, see `noting`."""

    @property
    def notes(self) -> list[str]:
        return list(getattr(self, "__notes__", ()))


class ConfigError(BertCoreError):
    """A setting, a recipe or a size cannot be used."""


class CorpusError(BertCoreError):
    """A model cannot be trained on this text."""


class InputError(BertCoreError):
    """A function cannot use this sentence or another of its arguments."""


class CheckpointError(BertCoreError):
    """A model cannot be opened, saved or downloaded."""


class RunError(BertCoreError):
    """A training run cannot start, continue or do what was asked."""


@contextlib.contextmanager
def noting(notes: Iterable[str]) -> Iterator[None]:
    """Give these notes to a BertCoreError of the block, which may follow from what they say."""
    try:
        yield
    except BertCoreError as error:
        for note in [each for each in notes if each not in error.notes]:
            error.add_note(note)
        raise


OUT_OF_MEMORY = "The machine ran out of memory; choose a smaller model, smaller batches or a shorter text."
GPU_LOST = "The GPU has failed; stop this program and start it again."


# What PyTorch and CUDA's libraries write in such errors. After the latter, every later call in the process fails too.
_SIGNS = {
    OUT_OF_MEMORY: ("allocate memory", "out of memory", "STATUS_ALLOC_FAILED"),
    GPU_LOST: ("CUDA error", "CUDA driver error", "STATUS_EXECUTION_FAILED"),
}


def reason_of(error: BaseException) -> str:
    """What to say of an error that is no fault of the program: OUT_OF_MEMORY, GPU_LOST or, of any other, ""."""
    if isinstance(error, MemoryError):
        return OUT_OF_MEMORY
    said = str(error) if isinstance(error, RuntimeError) else ""
    return next((reason for reason, signs in _SIGNS.items() if any(sign in said for sign in signs)), "")


def one_line(error: BaseException) -> str:
    """An error for the log: its type and where it was raised, without its message, which may hold a person's text."""
    places = traceback.walk_tb(error.__traceback__)
    frames = [f"{Path(frame.f_code.co_filename).name}:{line}" for frame, line in places]
    return f"{type(error).__name__} at {' < '.join(frames[:-6:-1])}"


def first_three(items: Iterable[str]) -> str:
    """The first three items of a list and the number of the others: "a, b, c and 2 more"."""
    first = list(items)
    return ", ".join(first[:3]) + f" and {len(first) - 3:,} more" * (len(first) > 3)


def percent(fraction: float) -> str:
    """A measured fraction in per cent, rounded as the page's scripts do (balcony/parts/numbers.js): half a per cent
    goes up, and what is neither 0 nor 1 is neither 0% nor 100%."""
    value = 100 * fraction
    return "<1%" if 0 < value < 1 else ">99%" if 99 < value < 100 else f"{math.floor(value + 0.5)}%"


def quoted(value: object) -> str:
    """A value from an untrusted file: quoted, escaped and cut after about 100 characters."""
    return repr(value[:100] if isinstance(value, str | bytes) else value)[:110]


def megabytes(count: int) -> str:
    """A number of bytes in MB, or in kB if it is small."""
    return f"{count / 2**20:,.0f} MB" if count >= 2**20 else f"{count / 2**10:,.0f} kB"


def ignore(*_: object) -> None:
    """Do nothing: the default of who wants to hear of progress."""
