"""What all handlers share: options of quiet events, and how an error becomes a sentence on the page."""

import functools
import html
import logging
from collections.abc import Callable
from typing import Any

import gradio as gr

from bert_core.errors import BertCoreError

log = logging.getLogger("balcony")

SURPRISE = "An unexpected error occurred and was logged. Reload the page if it happens again."

# Page events: answered at once, without a spinner, and not offered to programs.
QUIET = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}


def sentence_of(error: Exception) -> str:
    """The message of a BertCoreError; for any other error, a fixed sentence and a log entry."""
    if isinstance(error, BertCoreError):
        return str(error)
    log.error("unexpected error", exc_info=error)
    return SURPRISE


def warn(sentence: str) -> Any:
    """Show a sentence as a passing message and change nothing on the page."""
    gr.Warning(html.escape(sentence))
    return gr.skip()


def on_error(answer: Callable[[str], Any]) -> Callable[[Callable], Callable]:
    """Decorator of a handler: when it raises, `answer` makes its outputs from the error's sentence."""

    def decorate(handler: Callable) -> Callable:
        @functools.wraps(handler)
        def careful(*arguments: Any, **named: Any) -> Any:
            try:
                return handler(*arguments, **named)
            except Exception as error:  # the page must answer in any case; the error is logged
                return answer(sentence_of(error))

        return careful

    return decorate
