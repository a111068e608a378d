"""Replaces the files of a folder together; a kill or a full disk never leaves a mixture of old and new."""

import contextlib
import ctypes
import errno
import glob
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Collection, Iterator
from pathlib import Path

_STALE_SECONDS = 3600


@contextlib.contextmanager
def replacing(folder: Path, *, last: str, members: Collection[str]) -> Iterator[Path]:
    """Yield a temporary folder to write into; at the end of the block its files become those of `folder`.

    folder: an absolute path. last: the file that makes the folder complete; the block must write it. members: names of
    old files to remove, because they belong to the replaced ones. All other files and subfolders stay.

    Files are synced to the disk first. On Linux one system call then exchanges the old folder for the new one. Where
    the file system cannot do that, two renames follow each other; between them only a backup exists, which
    `restore_backup` renames back. If the block raises, nothing changes. Raises OSError.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    restore_backup(folder)
    _remove_leftovers(folder)
    new = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.new")
    new.mkdir()
    try:
        yield new
        written = sorted(new.iterdir(), key=lambda path: path.name == last)
        if os.path.ismount(folder):
            raise OSError("a mounted folder cannot be replaced; choose a folder inside it")
        is_complete = (folder / last).exists()
        if is_complete:
            _link_others(folder, new, {path.name for path in written} | set(members))
        for path in [*written, new]:
            _sync(path)
        with contextlib.ExitStack() as undo:
            if is_complete:
                _exchange(new, folder, undo)
            else:
                folder.mkdir(exist_ok=True)
                for path in written:
                    _rename(path, folder / path.name, undo)
                    _sync(folder)
            _sync(folder.parent)
            undo.pop_all()
        if is_complete:
            shutil.rmtree(_backup(folder), ignore_errors=True)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def check_replaceable(folder: Path) -> None:
    """Raise OSError where `replacing` could not write this folder, so that nobody trains for it in vain."""
    check_writable(folder.parent)
    if folder.exists():
        check_writable(folder)


def check_writable(folder: Path) -> None:
    """Raise OSError unless files can be made in a folder or, where there is none yet, it can be made itself."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    with tempfile.TemporaryFile(dir=folder):  # permissions alone do not tell: a disk may be read-only
        pass


def restore_backup(folder: Path) -> None:
    """Undo the first of the two renames of `_exchange` if a kill prevented the second."""
    if not folder.exists() and _backup(folder).exists():
        os.rename(_backup(folder), folder)


def _backup(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


def _remove_leftovers(folder: Path) -> None:
    """Delete the old temporary folders of killed processes; a recent one may still be in use."""
    for path in folder.parent.glob(f".{glob.escape(folder.name)}.*.new"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


def _link_others(old: Path, new: Path, dropped: Collection[str] = ()) -> None:
    """Link every file of `old` that stays into `new`, so that a program that is writing to it can continue."""
    for path in old.iterdir():
        target = new / path.name
        if path.name in dropped:
            continue
        if path.is_symlink():
            target.symlink_to(os.readlink(path))
        elif path.is_dir():
            target.mkdir()
            _link_others(path, target)
        else:
            try:
                os.link(path, target)
            except OSError:  # a file system without hard links
                shutil.copy2(path, target)
    shutil.copystat(old, new)


def _exchange(new: Path, folder: Path, undo: contextlib.ExitStack) -> None:
    """Swap two folders; afterwards the old files are in `new` or in the backup. undo: gets what swaps them back."""
    if _exchange_at_once(new, folder):
        undo.callback(_exchange_at_once, new, folder)
        return
    shutil.rmtree(_backup(folder), ignore_errors=True)
    _rename(folder, _backup(folder), undo)
    _rename(new, folder, undo)


def _rename(path: Path, target: Path, undo: contextlib.ExitStack) -> None:
    os.replace(path, target)
    undo.callback(os.replace, target, path)


def _exchange_at_once(new: Path, folder: Path) -> bool:
    """Swap two folders by Linux's renameat2; False where the system or the file system lacks it."""
    AT_FDCWD, RENAME_EXCHANGE = -100, 2
    try:
        renameat2 = ctypes.CDLL(None).renameat2
    except (AttributeError, TypeError, OSError):
        return False
    return renameat2(AT_FDCWD, os.fsencode(new), AT_FDCWD, os.fsencode(folder), RENAME_EXCHANGE) == 0


def _sync(path: Path) -> None:
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
