"""Two buttons that give what a view shows as a JSON or a CSV file."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr

from ui.handlers import QUIET, on_error, warn

KINDS = ("json", "csv")


@dataclass(frozen=True)
class Downloads:
    """The buttons by kind of file, and the hidden link through which a browser downloads."""

    buttons: dict[str, gr.Button]
    link: gr.DownloadButton


def download_buttons(what: str, *, elem_id: str) -> Downloads:
    """Lay out a button for each kind of file."""
    with gr.Row():
        buttons = {
            kind: gr.Button(f"{what} as {kind.upper()}", size="sm", elem_id=f"{elem_id}-{kind}", min_width=160)
            for kind in KINDS
        }
    # The browser starts a download from a link that exists; the file does not before it is asked for.
    return Downloads(buttons, gr.DownloadButton("File", visible="hidden", elem_id=f"{elem_id}-file"))


def offer(downloads: Downloads, name: str, inputs: list[Any], write: Callable[..., str]) -> None:
    """Connect the buttons: `write(kind, *values of the inputs)` gives the content of the file `name.kind`."""
    link = downloads.link
    click = f"() => document.querySelector('#{link.elem_id} a, #{link.elem_id}').click()"

    def handler(kind: str) -> Callable[..., str | None]:
        # After an error the link has no file, so that the press does not give an older one.
        @on_error(lambda sentence: warn(sentence) and None)
        def give(*values: Any) -> str:
            with tempfile.TemporaryDirectory(prefix="balcony-download-") as scratch:
                path = Path(scratch) / f"{name}.{kind}"
                path.write_text(write(kind, *values), encoding="utf-8", newline="")
                # Files in the component's cache are deleted when they are old (delete_cache).
                return link.move_resource_to_block_cache(str(path))

        return give

    for kind, button in downloads.buttons.items():
        button.click(handler(kind), inputs, link, **QUIET).success(None, None, None, js=click)
