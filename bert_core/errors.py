"""What can go wrong, as one tree.

BertCoreError
├── ConfigError       a setting, a recipe or a size that cannot be used
├── CorpusError       a text that cannot be trained on
├── InputError        a sentence that a probe cannot answer for
├── CheckpointError   a folder or file that is not a model we can open
└── RunError          a command that a training run cannot follow

The message of each is one plain sentence for the person at the page: what happened, the limit, what to do.
"""

from collections.abc import Iterable
from typing import Any


class BertCoreError(Exception):
    """Base of every error that is meant to be shown to a person."""


class ConfigError(BertCoreError):
    """A setting, a recipe or a size that cannot be used."""


class CorpusError(BertCoreError):
    """A text that cannot be trained on."""


class InputError(BertCoreError):
    """A sentence that a probe cannot answer for."""


class CheckpointError(BertCoreError):
    """A folder or file that is not a model we can open."""


class RunError(BertCoreError):
    """A command that a training run cannot follow."""


def first_three(items: Iterable[str]) -> str:
    """The first three of a list, and how many more there are.

    >>> first_three("abcde")
    'a, b, c and 2 more'
    """
    items = list(items)
    more = f" and {len(items) - 3:,} more" if len(items) > 3 else ""
    return ", ".join(items[:3]) + more


def shown(value: Any) -> str:
    """A foreign value for a message: quoted, escaped and cut at 100 characters."""
    return repr(value[:100] if isinstance(value, str) else value)[:110]


def megabytes(count: int) -> str:
    """A number of bytes for a message, in MB or kB."""
    return f"{count / 2**20:,.0f} MB" if count >= 2**20 else f"{count / 2**10:,.0f} kB"
