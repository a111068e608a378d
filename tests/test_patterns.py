"""Regular expressions read foreign texts, and the interpreter waits for them: none may take worse than linear time."""

import importlib
import itertools
import pkgutil
import re
import time

import pytest

import balcony.app
import bert_core
from balcony.server.files import file_name
from balcony.train.settings import with_labels
from bert_core.storage.hub import is_hub_name

_LENGTH = 1000  # characters; a cubic pattern takes seconds for them and a linear one about 0.05 ms
_SECONDS = 0.5


def _patterns() -> dict[str, re.Pattern[str]]:
    """All patterns that a module of the program holds."""
    found = {}
    for package in (bert_core, balcony):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                for name, value in vars(importlib.import_module(module.name)).items():
                    if isinstance(value, re.Pattern):
                        found[f"{module.name}.{name}"] = value
    return found


PATTERNS = _patterns()


def _hard_texts(pattern: str) -> list[str]:
    """One or two characters of the pattern, repeated, and an end at which it fails."""
    characters = sorted(set(pattern) - set("\\()[]{}|^$+?:<!,0123456789"))[:9] or ["a"]
    units = [*characters, *map("".join, itertools.permutations(characters, 2))]
    return [(unit * _LENGTH)[:_LENGTH] + "\x00 x" for unit in units]


@pytest.mark.parametrize("name", PATTERNS)
def test_no_pattern_of_a_module_backtracks(name: str) -> None:
    pattern = PATTERNS[name]
    for text in _hard_texts(pattern.pattern):
        start = time.thread_time()
        pattern.fullmatch(text)
        pattern.sub("", text)
        assert time.thread_time() - start < _SECONDS, repr(text[:20])


@pytest.mark.parametrize("function", [with_labels, file_name, is_hub_name])
def test_no_pattern_of_a_function_backtracks(function) -> None:
    for unit in ("a", "a_", "_", "a ", " is ", "-", ".", "a/", "--"):
        start = time.thread_time()
        function((unit * _LENGTH)[:_LENGTH] + "\n")
        assert time.thread_time() - start < _SECONDS, unit


def test_the_patterns_are_found() -> None:
    assert len(PATTERNS) > 10
