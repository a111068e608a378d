"""Probes take turns."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

# Probes run in the server's many threads; each would use every core, so they take turns.
_probing = threading.Semaphore(1)


@contextmanager
def probing() -> Iterator[None]:
    """The one place at the machine for a probe; waits its turn."""
    with _probing:
        yield
