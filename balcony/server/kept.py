"""The runs of visitors in a folder, from where they can be continued after the server has restarted.

A folder per visitor, named by a digest of the token, which is a credential; in it a folder per run as `Run.save` writes
it, with its text and what the visitor's list says of it.
"""

import hashlib
import json
import logging
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from balcony.server.workspace import Workspace
from bert_core.data.corpus import Corpus
from bert_core.errors import BertCoreError, RunError, one_line
from bert_core.runs.run import ENDED, Run
from bert_core.runs.service import TrainingService
from bert_core.tasks.examples import TaskParts

LOOK_SECONDS = 1.0  # between two looks for what has ended or was removed
KEEP_SECONDS = 30.0  # between two saves of a run that trains
CLOSE_SECONDS = 2.5  # for saving when the server ends
FREE_DISK = 2**30
INTERRUPTED = "It was interrupted; it can go on from here. The models of its earlier steps are lost."
_TEXT, _LISTED = "text.json", "listed.json"  # in a run's folder
_SOURCE: TypeAdapter[Corpus | TaskParts] = TypeAdapter(Corpus | TaskParts)

_log = logging.getLogger(__name__)


def digest(token: str) -> str:
    """The name of a visitor's folder."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


class KeptRuns:
    """A folder into which the runs of visitors are saved until `close`.

    visitors: called for those who are here, by the digests of their tokens; the runs that one of them removes leave the
    folder, too. Raises RunError for a folder that cannot be written.
    """

    def __init__(self, folder: Path, visitors: Callable[[], Mapping[str, Workspace]]) -> None:
        self._folder, self._visitors = folder, visitors
        self._saved: dict[Path, tuple[object, float]] = {}  # by the folder of the run: in which state, and when
        self._closing = threading.Event()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            raise RunError(f"Runs cannot be kept in {folder} ({error.strerror}); choose another folder.") from None
        self._thread = threading.Thread(target=self._work, name="keep", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Save a last time; takes about CLOSE_SECONDS at most."""
        self._closing.set()
        self._thread.join(CLOSE_SECONDS)

    def has(self, visitor: str) -> bool:
        """Whether the folder has runs of a visitor."""
        return (self._folder / visitor).is_dir()

    def list_again(self, visitor: str, space: Workspace, service: TrainingService) -> None:
        """Give a visitor who comes back the saved runs, stopped where they had not finished. One that cannot be read is
        logged, and stays in the folder."""
        for path in sorted((self._folder / visitor).glob(f"*/{_TEXT}"), key=lambda path: path.stat().st_mtime_ns):
            folder = path.parent
            try:
                listed = json.loads((folder / _LISTED).read_text("utf-8"))
                source = _SOURCE.validate_python(_frozen(json.loads(path.read_text("utf-8"))))
                why = listed["reason"] or INTERRUPTED
                run = service.resume(folder, source, owner=space.owner, stopped=why)
                run.id = folder.name  # by which its page knows it
                space.add_run(run, listed["variant"])
                space.rename(run.id, listed["name"])
            except (BertCoreError, OSError, ValueError, LookupError, TypeError) as error:
                _log.error("the run in %s cannot be read: %s", folder, one_line(error))
            else:
                self._saved[folder] = None, 0.0

    def _work(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._closing.wait(LOOK_SECONDS)
            try:
                self._look(is_last)
            except Exception as error:  # the next look may succeed
                _log.error("keeping runs: %s", one_line(error))

    def _look(self, is_last: bool) -> None:
        """Save what is due, and remove what visitors have removed."""
        spaces = self._visitors()
        for visitor, space in spaces.items():
            for run in space.runs.values():
                self._save(self._folder / visitor / run.id, space, run, is_last)
        # Of a visitor who has left, the folder stays.
        self._saved = {folder: saved for folder, saved in self._saved.items() if folder.parent.name in spaces}
        for folder in [*self._saved]:
            if folder.name not in spaces[folder.parent.name].runs:
                del self._saved[folder]
                shutil.rmtree(folder, ignore_errors=True)

    def _save(self, folder: Path, space: Workspace, run: Run, is_last: bool) -> None:
        """Save a run that has changed: while it trains, every KEEP_SECONDS."""
        is_ended, name, now = run.status in ENDED, space.names.get(run.id, ""), time.monotonic()
        state, (before, when) = (run.steps_done, is_ended, name), self._saved.get(folder, (None, -KEEP_SECONDS))
        if run.training is None or state == before or not (is_ended or is_last or now - when >= KEEP_SECONDS):
            return
        self._saved[folder] = state, now
        try:
            if shutil.disk_usage(self._folder).free < FREE_DISK:
                raise OSError("the disk is full")
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not (folder / _TEXT).exists():
                _replace(folder / _TEXT, _SOURCE.dump_json(run.training.job.source))
            run.save(folder)
            listed = {"variant": space.entries[run.id].variant, "name": name, "reason": run.reason if is_ended else ""}
            _replace(folder / _LISTED, json.dumps(listed).encode())
        except (BertCoreError, OSError, LookupError) as error:  # what was saved before stays
            _log.warning("a run was not saved in %s: %s", folder, one_line(error))


def _frozen(value: Any) -> Any:
    """JSON data with tuples in place of lists, as labels of examples have them."""
    if isinstance(value, dict):
        return {key: _frozen(each) for key, each in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _replace(path: Path, content: bytes) -> None:
    """Write a file that nobody else can read and that is never half written."""
    new = path.with_suffix(".new")
    new.touch(mode=0o600)
    new.write_bytes(content)
    os.replace(new, path)
