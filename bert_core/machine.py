"""What systems do in different ways: the only module that calls what Windows or macOS lack.

Each function has a fallback, which is said in its description where a person would notice it.
"""

import contextlib
import ctypes
import errno
import functools
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SYSTEM = sys.platform
NICENESS = 10  # of a thread that gives way, beside the process's own: Linux counts from 0 to 19
OPEN_SECONDS = 2.0  # that a file which another program has open is waited for
_trimmed = time.monotonic()  # when free memory was last given back


# --- Files ------------------------------------------------------------------------------------------------------------


def replace(path: Path, target: Path) -> None:
    """Rename a file or a folder, and replace a file of that name. Raises OSError.

    Windows renames nothing that another program has open, such as a virus scanner for a moment: there it is tried again
    for OPEN_SECONDS, and the error says so.
    """
    began = time.monotonic()
    while True:
        try:
            return os.replace(path, target)
        except PermissionError as error:
            if SYSTEM != "win32":
                raise
            if time.monotonic() - began > OPEN_SECONDS:
                reason = f"another program may have a file there open, {OPEN_SECONDS:g} s long; close it and try again"
                raise PermissionError(error.errno, reason, str(target)) from None
        time.sleep(0.05)


def sync(path: Path) -> None:
    """Write a file's content, or a folder's list of files, to the disk. Where a system syncs no folders, nothing is
    lost by that but the guarantee that a rename survives a power cut. Raises OSError."""
    is_folder = path.is_dir()
    try:
        # Windows syncs no file that is open only for reading, and opens no folder.
        descriptor = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if not (is_folder and error.errno in (errno.EACCES, errno.EBADF, errno.EINVAL)):  # it syncs no folders
            raise


def share(path: Path) -> None:
    """Let other users read a file that a library has made private, where the file system knows users."""
    with contextlib.suppress(OSError):
        path.chmod(0o644)


def copy_rights(source: Path, target: Path) -> None:
    """Give a file or a folder the rights of another, where the file system has any."""
    with contextlib.suppress(OSError):
        shutil.copystat(source, target)


def temporary_folder(name: str) -> Path:
    """The path of a folder for temporary files that no other user of this machine has; Windows has them per user."""
    return Path(tempfile.gettempdir(), f"{name}-{os.getuid()}" if hasattr(os, "getuid") else name)


# --- Processor and memory ---------------------------------------------------------------------------------------------


def processor_cores() -> int:
    """The number of CPU cores that this process may use; of the machine, where that is unknown."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def give_way() -> None:
    """Let other threads go before the calling one, and before those that it starts, on the same core. Only Linux has
    such priorities; elsewhere, and where a sandbox forbids it, all threads are equal."""
    if SYSTEM == "linux":
        with contextlib.suppress(OSError):  # 0 is the calling thread
            os.setpriority(os.PRIO_PROCESS, 0, min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS))


def give_back_memory(seconds: float = 0.0) -> None:
    """Ask glibc, on Linux, to return free memory to the system, unless it has done so in the last `seconds`.

    Batches need blocks of many sizes, which leave holes in its heap: with each step of a medium-sized model, it would
    grow by a megabyte or two. Other systems decide themselves.
    """
    global _trimmed
    if time.monotonic() - _trimmed >= seconds:
        _trimmed = time.monotonic()
        if SYSTEM == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
            trim(0)


def memory_bytes() -> int:
    """The memory of the machine or, if it is less, of the container."""
    return min([_host_memory(), *_container_limits()])


def _host_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        kilobytes = ctypes.c_ulonglong(4 * 2**20)  # where even that call is missing: a small machine's
        with contextlib.suppress(AttributeError, OSError):
            ctypes.windll.kernel32.GetPhysicallyInstalledSystemMemory(ctypes.byref(kilobytes))  # type: ignore[attr-defined]
        return 2**10 * kilobytes.value


@functools.cache  # every preview of a text asks
def _container_limits(root: Path = Path("/")) -> list[int]:
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


# --- The terminal -----------------------------------------------------------------------------------------------------


def write_utf8() -> None:
    """Write UTF-8 on standard output and error also where they are redirected and the system prefers another encoding,
    as Windows does. What no text may hold, half of a character, is written as JSON and Python write it: \\ud83d."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a notebook's has no encoding
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def is_closed_pipe(error: OSError) -> bool:
    """Whether the reader of the output, such as `head`, has closed it. Windows calls that an invalid argument."""
    is_named = error.filename is not None
    return isinstance(error, BrokenPipeError) or (SYSTEM == "win32" and error.errno == errno.EINVAL and not is_named)


@contextlib.contextmanager
def ended_by(handler: Callable[..., Any]) -> Iterator[dict[int, Any]]:
    """Call `handler` for what asks a program to end: Ctrl-C, SIGTERM and, on Windows, Ctrl-Break and a closed window.
    Yields the handlers so far, by signal: none outside the main thread, which alone hears of signals."""
    names = ("SIGINT", "SIGTERM", "SIGBREAK")
    before = {}
    with contextlib.suppress(ValueError):
        for number in [getattr(signal, name) for name in names if hasattr(signal, name)]:
            before[number] = signal.signal(number, handler)
    try:
        yield before
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
