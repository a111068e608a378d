"""Balcony without an installation: python app.py takes the same arguments as the command `balcony`.

`demo` is the page, where Gradio's tools look for it.
"""

import functools
import sys
import threading
from typing import Any

from balcony.__main__ import main


@functools.cache
def _page() -> Any:
    # Imported here, so that the waiting page need not wait for torch.
    from balcony.app import build
    from bert_core.runs.service import TrainingService

    return build(TrainingService())


def __getattr__(name: str) -> Any:
    """Build `demo` when it is asked for."""
    if name == "demo":
        return _page()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# Gradio's tools run this file again in a thread of their own, and then ask for `demo`.
if __name__ == "__main__" and threading.current_thread() is threading.main_thread():
    sys.exit(main())
