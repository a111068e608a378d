"""Replacing a folder of files that belong together, so that a kill or a full disk never leaves a mixture."""

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
def replaced(folder: Path, *, last: str, members: Collection[str]) -> Iterator[Path]:
    """Give a temporary folder to write into, and put its files in the place of `folder` at the end of the block.

    folder: an absolute path. last: the file without which the folder is not complete; it must be written in the
    block. members: names of files that belong together with those written and go when they are replaced. Files of
    other names in the folder stay, as do its subfolders.

    At every moment the folder is as before or complete and new, and everything is synced before the change. On Linux
    an existing set is exchanged for the new one in one system call. Where the file system cannot do that, there is a
    moment between two renames in which the old folder stands under another name: `put_back` mends a kill there.
    If the block raises, nothing has changed. Raises OSError.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    put_back(folder)
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


def put_back(folder: Path) -> None:
    """Undo the first of two renames after which the process was killed."""
    if not folder.exists() and _retired(folder).exists():
        os.rename(_retired(folder), folder)


def _link_others(old: Path, new: Path, members: Collection[str]) -> None:
    """Link into `new` what stands in `old` and is not replaced; a program that is writing such a file goes on."""
    replaced_names = {path.name for path in new.iterdir()} | set(members)

    def link(source: str, target: str) -> None:
        try:
            os.link(source, target)
        except OSError:  # a file system without hard links
            shutil.copy2(source, target)

    def ignore(directory: str, _names: list[str]) -> set[str]:
        return replaced_names if Path(directory) == old else set()

    shutil.copytree(old, new, symlinks=True, dirs_exist_ok=True, copy_function=link, ignore=ignore)


def _exchange(new: Path, folder: Path) -> None:
    """Let two folders change places; afterwards `new` holds the old files or is gone."""
    if _exchange_at_once(new, folder):
        return
    shutil.rmtree(_retired(folder), ignore_errors=True)
    os.rename(folder, _retired(folder))
    os.rename(new, folder)
    shutil.rmtree(_retired(folder), ignore_errors=True)


def _exchange_at_once(new: Path, folder: Path) -> bool:
    """Linux's renameat2 with RENAME_EXCHANGE; False where the system or the file system lacks it."""
    current_folder, exchange = -100, 2
    try:
        renameat2 = ctypes.CDLL(None).renameat2
    except (AttributeError, TypeError, OSError):
        return False
    return renameat2(current_folder, os.fsencode(new), current_folder, os.fsencode(folder), exchange) == 0


def _remove_leftovers(folder: Path) -> None:
    """Delete what a killed writer left beside the folder; a younger one may belong to a writer at work."""
    for path in folder.parent.glob(f".{glob.escape(folder.name)}.*.new"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


def _retired(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


def _sync(path: Path) -> None:
    if os.name == "nt" and path.is_dir():  # Windows cannot sync a folder
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
