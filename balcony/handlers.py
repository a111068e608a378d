"""What all handlers share: options of quiet events, and how an error becomes a sentence on the page."""

import functools
import logging
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.blocks import Block

from bert_core.errors import OUT_OF_MEMORY, BertCoreError, InputError, one_line, reason_of

log = logging.getLogger("balcony")

SURPRISE = "An unexpected error occurred and was logged. Reload the page if it happens again."
MALFORMED = "The server cannot read what this page has sent; reload the page."
TOO_LARGE = "This is too large for this machine's memory; choose a shorter text or a smaller model."

OWN = "\u2068\u2069"  # Unicode's marks around words that have nothing to do with what stands around them

# Page events: answered at once, without a spinner, and not offered to programs. With each event, Gradio copies all that
# the parts of the page show on which there was ever progress, even if it was hidden: here on none.
QUIET = {"queue": False, "show_progress": "hidden", "show_progress_on": [], "api_visibility": "private"}
# Events that follow what a person enters. Gradio would drop one that comes while the one before is being answered; so
# it answers the last of them afterwards.
FOLLOWING = QUIET | {"trigger_mode": "always_last"}


def sentence_of(error: BaseException) -> str:
    """The message of a BertCoreError; for any other error, a fixed sentence and a line in the log."""
    if isinstance(error, BertCoreError):
        return str(error)
    if (reason := reason_of(error)) == OUT_OF_MEMORY:
        return TOO_LARGE
    log.error("unexpected error: %s", one_line(error))
    return reason or SURPRISE


def own(words: str) -> str:
    """A person's own words within a text of the page, marked so that the page does not translate them."""
    return f"{OWN[0]}{plain(words)}{OWN[1]}"


def plain(text: str) -> str:
    """The text without such marks."""
    return text.translate(dict.fromkeys(map(ord, OWN)))


def sent(event: gr.EventData, name: str, kind: type) -> Any:
    """What a view has sent with an event. Raises InputError where it lacks that or is of another type."""
    try:
        value = getattr(event, name)
    except (AttributeError, TypeError):  # a client may send no object
        value = None
    if not isinstance(value, kind):
        raise InputError(MALFORMED)
    return value


def cached_file(block: Block, name: str, write: Callable[[Path], object]) -> str:
    """Path of a new file in a component's cache, where old ones are deleted (delete_cache). write: called with a path
    of that name."""
    with tempfile.TemporaryDirectory(prefix="balcony-download-") as scratch:
        path = Path(scratch) / name
        write(path)
        return block.move_resource_to_block_cache(str(path)) or ""


def on_error(answer: Callable[[str], Any]) -> Callable[[Callable], Callable]:
    """Decorator of a handler: when it raises, `answer` makes its outputs from the error's sentence."""

    def decorate(handler: Callable) -> Callable:
        @functools.wraps(handler)
        def careful(*arguments: Any, **named: Any) -> Any:
            try:
                return handler(*arguments, **named)
            except BaseException as error:  # the page must answer in any case, also to a panic of a library in Rust
                return answer(sentence_of(error))

        return careful

    return decorate
