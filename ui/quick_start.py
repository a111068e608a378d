"""Gradio, imported and built without the work at its start that nothing here uses; together, that is half of it."""

import contextlib
import functools
import inspect
import os
from collections.abc import Iterator
from typing import Any

import jinja2

# Set before gradio is imported: it sends nothing anywhere, and its queue keeps no statistics of 10,000 events.
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ.setdefault("GRADIO_ANALYTICS_CACHE_FREQUENCY", "1000000000")
os.environ.setdefault("GRADIO_ANALYTICS_MAX_EVENTS", "100")


@contextlib.contextmanager
def quick_classes() -> Iterator[None]:
    """Classes of components are defined without a file of type hints for each, and the documentation of an event is
    compiled once and not once for each class that has the event.

    Gradio writes no hints for a class without a file. Other modules that are imported meanwhile may ask for theirs.
    """
    getfile, template = inspect.getfile, jinja2.Template

    def without_components(thing: Any) -> str:
        if type(thing).__name__ == "ComponentMeta":
            raise OSError("A component needs no file of type hints.")
        return getfile(thing)

    inspect.getfile = without_components  # type: ignore[assignment]
    jinja2.Template = functools.cache(template)  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        inspect.getfile, jinja2.Template = getfile, template  # type: ignore[misc]


with quick_classes():
    import gradio


@contextlib.contextmanager
def without_apps() -> Iterator[None]:
    """No server while a page is built: Gradio makes one each time the queue is set and at the page's end, and `launch`
    makes the one that serves."""
    app = gradio.blocks.App
    create, app.create_app = app.create_app, lambda *_, **__: None
    try:
        yield
    finally:
        app.create_app = staticmethod(create)
