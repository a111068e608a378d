"""Files that a person downloads or uploads: names that every system takes, and models as zips."""

import contextlib
import io
import os
import re
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from bert_core.config import LOCAL, Limits
from bert_core.errors import CheckpointError, megabytes, quoted
from bert_core.storage.checkpoint import MODEL_FILES, Checkpoint, save_checkpoint
from bert_core.storage.weights import CONFIG, has_weights
from bert_core.tasks.prediction import layout_of, task_of
from bert_core.tasks.question_answering import QuestionAnswering

MOST_BYTES, MOST_BYTES_OF_PARTS = 100, 200  # of a file's name; most systems refuse more than 255
# Devices of Windows, which no file can be named after, whatever its ending.
_DEVICES = re.compile(r"^(con|prn|aux|nul|(com|lpt)[\d¹²³])(?=\.|$)", re.IGNORECASE)

MAX_ARCHIVE_BYTES = 2**30  # of the files in a zip together
MAX_ZIP_ENTRIES = 1000
MAX_ZIP_LIST_BYTES = 2**20  # a thousand entries with long names take a quarter
_CARD = """# {name}

A BERT of the class `{kind}`. After `pip install torch transformers`, in the folder that has this folder:

```python
{lines}
```

Balcony opens the zip under Models.
"""
_FILL_MASK = """from transformers import pipeline

fill_mask = pipeline("fill-mask", "{folder}")
for guess in fill_mask(f"hello {{fill_mask.tokenizer.mask_token}} are you"):
    print(guess["token_str"], guess["score"])"""
_OTHER_LAYER = """from transformers import AutoTokenizer, {kind}

tokenizer, model = AutoTokenizer.from_pretrained("{folder}"), {kind}.from_pretrained("{folder}")
tokens = tokenizer(["a text"], ["another text"], return_tensors="pt")
print(model(**{tokens}))"""
_CONTEXT_FIRST = """
It learned with the context first, then the question. The pipeline of transformers puts the question first, which this
model has not learned: give its tokenizer the context, then the question.
"""
_MAX_RATIO = 16  # of their bytes to those that may be uploaded; weights do not become smaller in a zip


def file_name(*parts: str) -> str:
    """A name that every system takes for a file or a folder: letters, digits, dots and hyphens. Of several parts, none
    is cut off by a long one before it."""
    most = min(MOST_BYTES, MOST_BYTES_OF_PARTS // len(parts))
    names = (re.sub(r"[^\w.-]+", "-", part).strip("-.").encode()[:most].decode(errors="ignore") for part in parts)
    name = "-".join(filter(None, (name.strip("-.") for name in names)))
    return _DEVICES.sub(r"\1-", name or "model")


def folder_name(name: str) -> str:
    """The folder that a packed model unpacks to. name: of the model, or the path of its folder."""
    return file_name(Path(name).name)


def save_to_share(checkpoint: Checkpoint, folder: Path) -> None:
    """Write a model's folder with a README, which says how Python opens it."""
    save_checkpoint(checkpoint, folder)
    kind = checkpoint.head.architecture if checkpoint.head else "BertForPreTraining"
    lines = _FILL_MASK if checkpoint.head is None else _OTHER_LAYER
    choices = "{name: rows[None] for name, rows in tokens.items()}"  # of one question
    tokens = choices if kind == "BertForMultipleChoice" else "tokens"
    lines = lines.format(kind=kind, folder=folder.name, tokens=tokens)
    card = _CARD.format(name=folder.name, kind=kind, lines=lines)
    if checkpoint.head is not None and task_of(checkpoint).name == QuestionAnswering.name:
        card += _CONTEXT_FIRST * layout_of(checkpoint).config.context_first
    (folder / "README.md").write_text(card, encoding="utf-8")


def pack(save: Callable[[Path], object], zip_path: Path) -> None:
    """Write a folder as a zip that unpacks to a folder of its own name. save: writes the folder. Raises CheckpointError
    where the disk does not take it."""
    try:
        with tempfile.TemporaryDirectory(dir=zip_path.parent, prefix=".pack-") as temporary:
            folder, archive_path = Path(temporary, zip_path.stem), Path(temporary, zip_path.name)
            save(folder)
            with zipfile.ZipFile(archive_path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                for path in sorted(folder.iterdir()):
                    archive.write(path, f"{zip_path.stem}/{path.name}")
            os.replace(archive_path, zip_path)
    except OSError as error:
        raise CheckpointError(f"{zip_path.name} was not written ({error.strerror or error}).") from None


def unpack(zip_path: Path, folder: Path, limits: Limits = LOCAL) -> None:
    """Unpack the files of a model from an untrusted zip; who reads them checks their content.

    folder: created here, and removed after an error. Files may be at the top of the archive or in one folder there;
    those that belong to no model are skipped. Raises CheckpointError.
    """
    try:
        folder.mkdir(parents=True)
        with contextlib.ExitStack() as undo:
            undo.callback(shutil.rmtree, folder, ignore_errors=True)
            _unzip(zip_path, folder, min(MAX_ARCHIVE_BYTES, _MAX_RATIO * limits.upload_bytes))
            if not (folder / CONFIG).exists():
                raise CheckpointError(f"{zip_path.name} has no {CONFIG}; pack a model folder.")
            undo.pop_all()
    except OSError as error:
        raise CheckpointError(f"{zip_path.name} cannot be unpacked ({error.strerror or error}).") from None


def _unzip(zip_path: Path, folder: Path, max_bytes: int) -> None:
    """Write the files of a model in a zip, of at most `max_bytes` together, into a folder. Raises CheckpointError for
    an archive that is damaged, encrypted or has unsafe paths or links, and OSError if writing fails."""
    try:
        with _ZipFile(zip_path) as file, zipfile.ZipFile(file) as archive:
            members = _members(zip_path.name, archive)
            if sum(info.file_size for info in members) > max_bytes:
                raise CheckpointError(f"{zip_path.name} unpacks to more than the limit of {megabytes(max_bytes)}.")
            for info in members:  # the library stops at the size in the list, and refuses a file that has another one
                with archive.open(info) as source, (folder / info.filename.split("/")[-1]).open("wb") as target:
                    shutil.copyfileobj(source, target, 2**20)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError):
        raise CheckpointError(f"{zip_path.name} is damaged or not a plain zip file; pack the folder again.") from None


class _ZipFile(io.FileIO):
    """A zip that refuses to read a list of files of more than MAX_ZIP_LIST_BYTES; its contents are read in parts."""

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > MAX_ZIP_LIST_BYTES:
            raise CheckpointError(
                f"{Path(self.name).name} has a list of files of {megabytes(size)}; the limit is "
                f"{megabytes(MAX_ZIP_LIST_BYTES)}. Pack one model."
            )
        return super().read(size)


def _members(zip_name: str, archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """The files of a model. Checks the path of every entry of the archive."""
    files = archive.infolist()
    if len(files) > MAX_ZIP_ENTRIES:
        raise CheckpointError(f"{zip_name} has {len(files):,} files; the limit is {MAX_ZIP_ENTRIES:,}. Pack one model.")
    members: dict[tuple[str, ...], zipfile.ZipInfo] = {}
    for info in files:
        path = tuple(info.filename.split("/"))
        if "\\" in info.filename or ":" in info.filename or path[0] == "" or ".." in path:
            raise CheckpointError(f"{zip_name} holds the path {quoted(info.filename)}; pack plain file names only.")
        if stat.S_ISLNK(info.external_attr >> 16):
            raise CheckpointError(f"{zip_name} holds the link {quoted(info.filename)}; pack the file itself.")
        if len(path) > 2 or path[0] == "__MACOSX" or path[-1] not in MODEL_FILES:
            continue
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise CheckpointError(f"{zip_name} is packed in an unusual way; pack it as an ordinary zip.")
        members[path] = info
    has_weights([info.filename.rpartition("/")[2] for info in files])
    if len({path[:-1] for path in members}) > 1:
        raise CheckpointError(f"{zip_name} holds models in several folders; pack one of them.")
    return list(members.values())
