"""Files, as far as systems differ: each function has a fallback, which its description says."""

import contextlib
import errno
import os
import sys
import time
from pathlib import Path

SYSTEM = sys.platform
OPEN_SECONDS = 2.0  # that a file which another program has open is waited for


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
