"""What of its machine the page alone needs: the memory of a container, and a folder for temporary files."""

import contextlib
import functools
import os
import tempfile
from pathlib import Path

from bert_core.device import MEMORY_FRACTION
from bert_core.device import usable_memory as device_memory


def temporary_folder(name: str) -> Path:
    """The path of a folder for temporary files that no other user of this machine has; Windows has them per user."""
    return Path(tempfile.gettempdir(), f"{name}-{os.getuid()}" if hasattr(os, "getuid") else name)


@functools.cache
def container_limits(root: Path = Path("/")) -> list[int]:
    """The memory limits of the process's control groups and all groups above them, versions 1 and 2, on Linux."""
    with contextlib.suppress(OSError):
        limits = []
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            if controllers in ("", "memory"):
                base, file = ("", "memory.max") if not controllers else ("memory", "memory.limit_in_bytes")
                folder = root / "sys/fs/cgroup" / base
                for part in ("", *Path(group.strip("/")).parts):
                    folder /= part
                    with contextlib.suppress(OSError, ValueError):  # "max" is no number
                        limits.append(int((folder / file).read_text()))
        return limits
    return []


def usable_memory(device: str) -> int:
    """The bytes that the app may use: those of `device.usable_memory`, on the CPU also of the container's limit."""
    limits = [] if device.startswith("cuda") else [int(MEMORY_FRACTION * each) for each in container_limits()]
    return min([device_memory(device), *limits])
