"""Unfinished runs on the disk, so that they go on, bit for bit, after the server has restarted.

A folder per visitor, named by a digest of the token, which is a credential; in it a folder per run as `Run.save` writes
it, its text, and what the visitor's list says of it.
"""

import dataclasses
import hashlib
import json
import logging
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bert_core.data.corpus import Corpus
from bert_core.errors import BertCoreError, RunError, one_line
from bert_core.runs.run import ACTIVE, Run
from bert_core.tasks.examples import TaskData, TaskParts
from bert_core.tasks.tables import Columns
from bert_core.tasks.task import Example

KEEP_SECONDS = 30.0  # between two looks for what has changed
CLOSE_SECONDS = 2.5  # for saving when the server ends
LARGEST_TEXT = 2**24  # characters; a run on a longer text is not kept
FREE_DISK = 2**30
_WRITTEN_HERE = re.compile(r"[0-9a-f]{64}/\.?[0-9a-f]{32}(\..*)?")  # visitor and run

_log = logging.getLogger(__name__)


def digest(token: str) -> str:
    """The name of a visitor's folder."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


@dataclass(frozen=True)
class KeptRun:
    """A run on the disk. visitor: digest of the token. variant: in the visitor's list. corpus: its text or task."""

    visitor: str
    run_id: str
    folder: Path
    corpus: Corpus | TaskParts
    variant: str
    is_paused: bool


class KeptRuns:
    """The unfinished runs in a folder, saved again while they train until `close`.

    runs: called for all of them, as (digest of the visitor's token, run, variant). Raises RunError for a folder that
    cannot be written.
    """

    def __init__(self, folder: Path, runs: Callable[[], Iterator[tuple[str, Run, str]]]) -> None:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):  # permissions alone do not tell: a disk may be read-only
                pass
        except OSError as error:
            raise RunError(f"Runs cannot be kept in {folder} ({error.strerror}); choose another folder.") from None
        self._folder, self._runs = folder, runs
        self._saved: dict[Path, tuple[int, bool]] = {}  # the step of each folder, and whether its run is paused
        self._saving = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="keep", daemon=True)

    def found(self) -> Iterator[KeptRun]:
        """The runs on the disk; one that cannot be read is logged and left there. Halves of runs are removed."""
        for path in self._entries():
            if path.name.startswith(".") or not path.with_suffix(".json").exists():
                shutil.rmtree(path, ignore_errors=True)
                if path.is_file():
                    path.unlink()
        for path in sorted(path for path in self._entries() if path.suffix == ".json"):
            try:
                facts, text = (json.loads(file.read_text("utf-8")) for file in (path, path.with_suffix(".text")))
                yield KeptRun(path.parent.name, path.stem, path.with_suffix(""), corpus=_read(text), **facts)
            except (ValueError, KeyError, TypeError, OSError) as error:
                _log.error("a kept run cannot be read: %s", one_line(error))

    def _entries(self) -> list[Path]:
        """What this program has written; all else in the folder is a person's own and stays as it is."""
        found = (path for path in self._folder.glob("*/*") if not path.parent.is_symlink())
        return [path for path in found if _WRITTEN_HERE.fullmatch(path.relative_to(self._folder).as_posix())]

    def begin(self) -> None:
        """Save from now on."""
        self._thread.start()

    def save_all(self, until: float = float("inf")) -> None:
        """Save what has changed and remove what has ended. until: a time of `time.monotonic` to begin the last one."""
        with self._saving:
            kept = set()
            for visitor, run, variant in self._runs():
                folder = self._folder / visitor / run.id
                if run.status in ACTIVE and time.monotonic() < until:
                    try:
                        self._save(folder, run, variant)
                    except (BertCoreError, OSError) as error:  # not prepared yet, or a full disk: the older one stays
                        _log.warning("a run was not kept: %s", one_line(error))
                if run.status in ACTIVE:
                    kept.add(folder)
            if not self._closing.is_set():  # which also ends runs
                for folder in self._saved.keys() - kept:
                    self._remove(folder)

    def close(self) -> None:
        """Save a last time; takes about CLOSE_SECONDS at most, unless a write hangs."""
        self._closing.set()
        last = threading.Thread(target=self.save_all, args=[time.monotonic() + CLOSE_SECONDS], daemon=True)
        last.start()
        last.join(CLOSE_SECONDS)

    def _work(self) -> None:
        while not self._closing.wait(KEEP_SECONDS):
            try:
                self.save_all()
            except Exception as error:  # the next look may succeed
                _log.error("keeping runs: %s", one_line(error))

    def _save(self, folder: Path, run: Run, variant: str) -> None:
        is_paused, corpus = run.status == "paused", run.job.source if run.job else None
        state = run.steps_done, is_paused
        if corpus is None or run.training is None or self._saved.get(folder) == state:
            return
        if not 0 < corpus.nbytes <= LARGEST_TEXT or shutil.disk_usage(self._folder).free < FREE_DISK:
            return
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        if folder not in self._saved:
            replace_file(folder.with_suffix(".text"), _written(corpus))
        run.save(folder)
        replace_file(folder.with_suffix(".json"), {"variant": variant, "is_paused": is_paused})
        self._saved[folder] = state

    def _remove(self, folder: Path) -> None:
        self._saved.pop(folder, None)
        for suffix in (".json", ".text"):
            folder.with_suffix(suffix).unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)

    def adopt(self, kept: KeptRun) -> None:
        """A kept run goes on: its folder is replaced, and removed when it ends."""
        self._saved[kept.folder] = (-1, False)


def _written(corpus: Corpus | TaskParts) -> dict[str, Any]:
    """A text or a task as JSON data."""
    if isinstance(corpus, TaskParts):
        return dataclasses.asdict(corpus)
    return {"name": corpus.name, "documents": corpus.documents, "labels": corpus.labels}


def _read(text: dict[str, Any]) -> Corpus | TaskParts:
    """What `_written` was given."""
    if "documents" not in text:
        return TaskParts(**{name: part and _task_data(_frozen(part)) for name, part in text.items()})
    return Corpus(text["documents"], text["name"], (), text["labels"])


def _task_data(part: dict[str, Any]) -> TaskData:
    examples = [Example(**each) for each in part["examples"]]
    columns = Columns(**part["columns"]) if part["columns"] else None
    return TaskData(**{**part, "examples": examples, "columns": columns})


def _frozen(value: Any) -> Any:
    """JSON data with tuples in place of lists."""
    if isinstance(value, dict):
        return {key: _frozen(each) for key, each in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def replace_file(path: Path, content: Any) -> None:
    """Write JSON into a file that nobody else can read and that is never half written."""
    new = path.with_suffix(".new")
    new.touch(mode=0o600)
    new.write_text(json.dumps(content), encoding="utf-8")
    os.replace(new, path)
