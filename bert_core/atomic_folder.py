"""Replaces the files of a folder together; a kill or a full disk never leaves a mixture of old and new."""

import contextlib
import ctypes
import glob
import os
import secrets
import shutil
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
        for path in [*new.iterdir(), new]:
            _sync(path)
        if os.path.ismount(folder):
            raise OSError("a mounted folder cannot be replaced; choose a folder inside it")
        if (folder / last).exists():
            _link_others(folder, new, members)
            _exchange(new, folder)
        else:
            folder.mkdir(exist_ok=True)
            for path in sorted(new.iterdir(), key=lambda path: path.name == last):
                os.replace(path, folder / path.name)
                _sync(folder)
        _sync(folder.parent)
    finally:
        shutil.rmtree(new, ignore_errors=True)


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


def _link_others(old: Path, new: Path, members: Collection[str]) -> None:
    """Link every file of `old` that stays into `new`, so that a program that is writing to it can continue."""
    dropped = {path.name for path in new.iterdir()} | set(members)

    def link(source: str, target: str) -> None:
        try:
            os.link(source, target)
        except OSError:  # a file system without hard links
            shutil.copy2(source, target)

    def ignore(directory: str, _names: list[str]) -> set[str]:
        return dropped if Path(directory) == old else set()

    shutil.copytree(old, new, symlinks=True, dirs_exist_ok=True, copy_function=link, ignore=ignore)


def _exchange(new: Path, folder: Path) -> None:
    """Swap two folders; afterwards `new` holds the old files or does not exist."""
    if _exchange_at_once(new, folder):
        return
    shutil.rmtree(_backup(folder), ignore_errors=True)
    os.rename(folder, _backup(folder))
    os.rename(new, folder)
    shutil.rmtree(_backup(folder), ignore_errors=True)


def _exchange_at_once(new: Path, folder: Path) -> bool:
    """Swap two folders by Linux's renameat2; False where the system or the file system lacks it."""
    AT_FDCWD, RENAME_EXCHANGE = -100, 2
    try:
        renameat2 = ctypes.CDLL(None).renameat2
    except (AttributeError, TypeError, OSError):
        return False
    return renameat2(AT_FDCWD, os.fsencode(new), AT_FDCWD, os.fsencode(folder), RENAME_EXCHANGE) == 0


def _sync(path: Path) -> None:
    if os.name == "nt" and path.is_dir():  # Windows cannot sync a folder
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
