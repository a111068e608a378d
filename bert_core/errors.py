"""Errors whose messages a person reads: one sentence with what happened, the limit and what to do."""

import errno
import functools
import inspect
import math
import os
import traceback
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin


class BertCoreError(Exception):
    """Base of all errors whose message is meant for a person."""


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


OUT_OF_MEMORY = "The machine ran out of memory; choose a smaller model, smaller batches or a shorter text."
GPU_LOST = "The GPU has failed; stop this program and start it again."


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed, on the CPU or on a device; PyTorch reports the former as a RuntimeError."""
    signs = ("allocate memory", "out of memory", "STATUS_ALLOC_FAILED")  # the last one of CUDA's libraries
    is_torch = isinstance(error, RuntimeError) and any(map(str(error).__contains__, signs))
    return isinstance(error, MemoryError) or is_torch


def reason_of(error: BaseException) -> str:
    """What to say of an error that is no fault of the program: OUT_OF_MEMORY, GPU_LOST or, of any other, ""."""
    if is_out_of_memory(error):
        return OUT_OF_MEMORY
    # After most errors of CUDA, every later call in the same process fails too.
    signs = ("CUDA error", "CUDA driver error", "STATUS_EXECUTION_FAILED")
    return GPU_LOST if isinstance(error, RuntimeError) and any(map(str(error).__contains__, signs)) else ""


def one_line(error: BaseException) -> str:
    """An error for the log: its type and where it was raised, without its message, which may hold a person's text."""
    places = traceback.walk_tb(error.__traceback__)
    frames = [f"{Path(frame.f_code.co_filename).name}:{line}" for frame, line in places]
    return f"{type(error).__name__} at {' < '.join(frames[:-6:-1])}"


def first_three(items: Iterable[str]) -> str:
    """The first three items of a list and the number of the others: "a, b, c and 2 more"."""
    items = list(items)
    more = f" and {len(items) - 3:,} more" if len(items) > 3 else ""
    return ", ".join(items[:3]) + more


def percent(fraction: float) -> str:
    """A measured fraction in per cent, rounded as the page's scripts do (assets/js/parts/numbers.js): half a per cent
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


_Function = TypeVar("_Function", bound=Callable)
_NAMES = {str: "a text", bytes: "bytes", int: "a whole number", float: "a number", bool: "True or False"}
_NAMES |= {NoneType: "None", Path: "the path of a file or a folder", os.PathLike: "a path"}
# What makes the objects that a person may confuse with a path or a text.
_MADE_BY = {"Checkpoint": "load_checkpoint", "Corpus": "read_corpus", "Recipe": "load_recipe", "TaskData": "load_task"}
_MADE_BY |= {"AttentionMaps": "attention", "Tokenizer": "train_tokenizer"}


# Of the recipes alone, until their fields are pydantic's.
def checked(function: _Function, error: type[BertCoreError] = InputError) -> _Function:
    """Decorator of a class of settings: an argument that is not of the type in the signature raises ConfigError."""
    if isinstance(function, type):
        function.__init__ = checked(function.__init__, ConfigError)  # type: ignore[misc]
        return function
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*arguments: object, **named: object) -> object:
        for name, value in signature.bind(*arguments, **named).arguments.items():
            parameter = signature.parameters[name]
            for each in value if parameter.kind is parameter.VAR_POSITIONAL else [value]:
                if not _fits(each, parameter.annotation):
                    is_short = each is None or isinstance(each, str | bytes | int | float | os.PathLike)
                    shown = quoted(each) if is_short else f"of the type {type(each).__name__}"
                    raise error(f"{name} is {shown}; it must be {_described(parameter.annotation)}.")
        return function(*arguments, **named)

    return call  # type: ignore[return-value]


def _fits(value: object, kind: Any) -> bool:
    """Whether a value is of the kind that an annotation names. A protocol, Any and no annotation allow any value."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if Path in parts and isinstance(value, str):
            return _is_path(value)
        return any(_fits(value, part) for part in parts)
    if origin is Literal:
        return value in parts
    if origin in (Sequence, Iterable) and isinstance(value, Sequence):  # nobody means the characters of a text
        return not isinstance(value, str | bytes) and all(_fits(each, parts[0]) for each in value)
    if kind in (int, float):
        return isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
    try:
        is_known = isinstance(value, origin or kind)
    except TypeError:
        return True
    return kind is inspect.Parameter.empty or (is_known and (not isinstance(value, os.PathLike) or _is_path(value)))


def _is_path(value: str | os.PathLike) -> bool:
    """Whether a file or a folder can have this path."""
    try:
        os.lstat(value)
    except ValueError:  # a character that no path has
        return False
    except OSError as error:
        return bool(os.fspath(value)) and error.errno != errno.ENAMETOOLONG
    return True


def _described(kind: Any) -> str:
    """What a value must be, in words."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        kinds = [part for part in parts if not (part is str and Path in parts)]
        return " or ".join(dict.fromkeys(map(_described, kinds)))
    if origin is Literal:
        return f"one of: {', '.join(parts)}"
    if origin in (Sequence, Iterable):
        return f"a list, each item {_described(parts[0])}"
    name = getattr(origin or kind, "__name__", str(kind))
    maker = f", as {_MADE_BY[name]} returns it" if name in _MADE_BY else ""
    return _NAMES.get(kind, f"{'an' if name[0] in 'AEIOU' else 'a'} {name}") + maker
