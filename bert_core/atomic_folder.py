"""Replaces the files of a folder together; a kill or a full disk never leaves a mixture of old and new."""

import contextlib
import glob
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bert_core.machine import copy_rights, replace, sync

_STALE_SECONDS = 3600


@contextlib.contextmanager
def replacing(folder: Path, *, last: str, is_member: Callable[[str], bool]) -> Iterator[Path]:
    """Yield a temporary folder to write into; at the end of the block its files become those of `folder`.

    folder: an absolute path. last: the file that makes the folder complete; the block must write it. is_member: whether
    an old file with this name belongs to the replaced ones. All other files and subfolders stay.

    Files are synced to the disk first. Then the old folder is renamed to a backup, the new one takes its place, and
    what stays moves there from the backup; after a kill in between, `restore_backup` continues. An error in the block
    changes nothing. Raises OSError.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    restore_backup(folder, is_member)
    # Temporary folders of killed processes; a recent one may still be in use.
    for path in folder.parent.glob(f".{glob.escape(folder.name)}.*.new"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
    new, backup = Path(tempfile.mkdtemp(".new", f".{folder.name}.", folder.parent)), _backup(folder)
    try:
        yield new
        written = sorted(new.iterdir(), key=lambda path: path.name == last)
        if os.path.ismount(folder):
            raise OSError("a mounted folder cannot be replaced; choose a folder inside it")
        for path in [*written, new]:
            sync(path)
        with contextlib.ExitStack() as undo:
            if (folder / last).exists():
                copy_rights(folder, new)
                stay = [path.name for path in folder.iterdir() if not is_member(path.name)]
                _rename(folder, backup, undo)
                _rename(new, folder, undo)
                moves = [(backup / name, folder / name) for name in stay if not (folder / name).exists()]
            else:
                folder.mkdir(exist_ok=True)
                moves = [(path, folder / path.name) for path in written]
            for path, target in moves:
                _rename(path, target, undo)
                sync(folder)
            sync(folder.parent)
            undo.pop_all()
        shutil.rmtree(backup, ignore_errors=True)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def check_writable(folder: Path) -> None:
    """Raise OSError unless files can be made in a folder or, where there is none yet, it can be made itself."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    with tempfile.TemporaryFile(dir=folder):  # permissions alone do not tell: a disk may be read-only
        pass


def restore_backup(folder: Path, is_member: Callable[[str], bool]) -> None:
    """End what a kill has interrupted: without a new folder, the old one returns; else what stays moves there."""
    backup = _backup(folder)
    if backup.exists() and not folder.exists():
        replace(backup, folder)
    elif backup.exists():
        for path in backup.iterdir():
            if not is_member(path.name) and not (folder / path.name).exists():
                replace(path, folder / path.name)
        shutil.rmtree(backup, ignore_errors=True)


def _backup(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


def _rename(path: Path, target: Path, undo: contextlib.ExitStack) -> None:
    replace(path, target)
    undo.callback(replace, target, path)
