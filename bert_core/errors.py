"""What can go wrong, as one tree.

BertCoreError
├── ConfigError       a setting, a recipe or a size that cannot be used
├── CorpusError       a text that cannot be trained on
├── InputError        a sentence that a probe cannot answer for
├── CheckpointError   a folder or file that is not a model we can open
└── RunError          a command that a training run cannot follow

The message of each is one plain sentence for the person at the page: what happened, the limit, what to do.
"""


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
