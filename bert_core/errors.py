"""Errors whose messages a person reads: one sentence with what happened, the limit and what to do."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any


class BertCoreError(Exception):
    """Base of all errors whose message is meant for a person."""


class ConfigError(BertCoreError):
    """A setting, a recipe or a size cannot be used."""


class CorpusError(BertCoreError):
    """A model cannot be trained on this text."""


class InputError(BertCoreError):
    """A probe cannot use this sentence."""


class CheckpointError(BertCoreError):
    """A model cannot be opened, saved or downloaded."""


class RunError(BertCoreError):
    """A training run cannot start, continue or do what was asked."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed, on the CPU or on a device; PyTorch reports the former as a RuntimeError."""
    is_torch = isinstance(error, RuntimeError) and ("allocate memory" in str(error) or "out of memory" in str(error))
    return isinstance(error, MemoryError) or is_torch


def one_line(error: BaseException) -> str:
    """An error for the log: its type and where it was raised, without its message, which may hold a person's text."""
    frames = [f"{Path(code.co_filename).name}:{line}" for code, line in _places(error)]
    return f"{type(error).__name__} at {' < '.join(frames[:-6:-1])}"


def _places(error: BaseException) -> Iterator[tuple[CodeType, int]]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame.f_code, trace.tb_lineno
        trace = trace.tb_next


def first_three(items: Iterable[str]) -> str:
    """The first three items of a list and the number of the others: "a, b, c and 2 more"."""
    items = list(items)
    more = f" and {len(items) - 3:,} more" if len(items) > 3 else ""
    return ", ".join(items[:3]) + more


def quoted(value: Any) -> str:
    """A value from an untrusted file: quoted, escaped and cut after about 100 characters."""
    return repr(value[:100] if isinstance(value, str) else value)[:110]


def megabytes(count: int) -> str:
    """A number of bytes in MB, or in kB if it is small."""
    return f"{count / 2**20:,.0f} MB" if count >= 2**20 else f"{count / 2**10:,.0f} kB"
