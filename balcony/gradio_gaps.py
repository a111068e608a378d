"""Where Gradio has no public way to what the page needs: each gap with its reason, and in tests/ui/test_gradio_gaps.py
with the test that says when it can go. No other module uses a private name of Gradio or sets one of its attributes."""

import os
from types import SimpleNamespace
from typing import Any, cast

from balcony.system import temporary_folder

# Gradio reads them when it is imported: it sends nothing anywhere, and its queue keeps no statistics of 10,000 events.
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
# Gradio asks its own address when it starts, but not by way of the proxy that a company's network may name for all.
os.environ["NO_PROXY"] = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or "localhost"
os.environ["no_proxy"] = os.environ["NO_PROXY"] = f"{os.environ['NO_PROXY']},localhost,127.0.0.1,::1"
# On a shared server, Gradio's own /tmp/gradio belongs to the user who came first, and nobody else can upload a file.
os.environ.setdefault("GRADIO_TEMP_DIR", str(temporary_folder("gradio")))
os.environ.setdefault("GRADIO_ANALYTICS_CACHE_FREQUENCY", "1000000000")
os.environ.setdefault("GRADIO_ANALYTICS_MAX_EVENTS", "100")

# isort: split

import gradio as gr
from gradio.state_holder import SessionState, StateHolder

QUEUE_SECONDS = 0.05  # between two looks for queued work, which is that of programs; Gradio takes it on Windows

# Else `launch` gives up when its own page takes more than three seconds on a busy machine (gradio issue 9817).
NO_LOOK_AT_ITSELF = {"_frontend": False}

# Opens the tab of a question. Tabs have Gradio's own numbers, which only its `gradio_config` tells the page: up to
# 6.29, the tab that is open first fires no event if it has a name.
_NUMBER = "gradio_config.components.find(({ props }) => props.elem_id === `tab-${question.tab}`).id"
OPEN_TAB = f"(question) => ({{ selected: {_NUMBER}, __type__: 'update' }})"

# The document names its manifest by an address that is wrong where the app lies below a path of its host.
_MANIFEST = b'href="/manifest.json"', b'href="manifest.json"'


def poll_seldom(demo: gr.Blocks) -> None:
    """Gradio's queue looks for new work 1,000 times a second, which takes 7 % of a core from the training."""
    demo._queue.sleep_when_free = demo._queue.progress_update_sleep_when_free = QUEUE_SECONDS


def finish_document(document: bytes, links: str) -> bytes:
    """Gradio's document with a manifest that is found, and with links in its head: what `launch(head=...)` is given
    comes into the page by a script, when that has loaded (gradio issue 6426)."""
    return document.replace(*_MANIFEST, 1).replace(b"</head>", links.encode() + b"</head>", 1)


class Sessions(StateHolder):
    """Gradio's sessions without a copy of the settings of all components, which is for links to a state of the page and
    takes 49 ms on the event loop and 360 kB for each opened page."""

    @classmethod
    def serve(cls, app: Any, demo: gr.Blocks) -> None:
        """Let a served page have such sessions."""
        app.state_holder = cls()
        app.state_holder.set_blocks(demo)

    def __getitem__(self, session_id: str) -> SessionState:
        if session_id not in self.session_data:
            page = SimpleNamespace(default_config=self.blocks.default_config, blocks={})
            self.session_data[session_id] = SessionState(cast(gr.Blocks, page))
        return super().__getitem__(session_id)
