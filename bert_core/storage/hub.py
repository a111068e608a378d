"""Downloads models from the Hugging Face Hub when a person asks for one; nothing else here makes connections."""

import contextlib
import functools
import os
import re
from pathlib import Path

from bert_core.errors import CheckpointError, megabytes, quoted
from bert_core.storage.tokenizer_file import TOKENIZER_FILES
from bert_core.storage.weights import CONFIG, WEIGHTS

MAX_BYTES = 2 * 2**30  # bert-large has 1.3 GB

_PART = "[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
_NAME = re.compile(rf"(?!.{{0,191}}(--|\.\.)){_PART}/{_PART}(?<![.-])")


def is_hub_name(name: str) -> bool:
    """Whether a text has the form owner/model, such as google-bert/bert-base-uncased."""
    return _NAME.fullmatch(name) is not None


def fetch_checkpoint(name: str, *, max_bytes: int = MAX_BYTES, cache: Path | None = None) -> Path:
    """Download a model from the Hub and return the folder that `load_checkpoint` opens.

    name: owner/model. max_bytes: of all files together. cache: a folder; None means huggingface_hub's own. No
    credentials are sent: a visitor of a shared page must not read its owner's private models. Raises CheckpointError.
    """
    if not is_hub_name(name):
        raise CheckpointError(
            f"{quoted(name)} is not a model name of the Hub; give owner/model, such as google-bert/bert-base-uncased."
        )
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    # Imported here, because the import takes a second and most people never download a model.
    from huggingface_hub import errors, snapshot_download

    options = {"allow_patterns": [CONFIG, *TOKENIZER_FILES, WEIGHTS], "token": False, "etag_timeout": 10}
    fetch = functools.partial(snapshot_download, name, cache_dir=cache, **options)
    try:
        files = fetch(dry_run=True)
        names, total = [file.filename for file in files], sum(file.file_size or 0 for file in files)
        if not {CONFIG, WEIGHTS} <= {*names}:
            raise CheckpointError(f"{name} has no {CONFIG} or no {WEIGHTS}; choose a model that has both.")
        if total > max_bytes:
            most = megabytes(max_bytes)
            raise CheckpointError(f"{name} has {megabytes(total)}; the limit is {most}. Use a smaller one.")
        return Path(fetch(revision=files[0].commit_hash))  # the one whose sizes are checked
    except (OSError, errors.HTTPError) as error:
        with contextlib.suppress(OSError):
            return Path(fetch(local_files_only=True))  # what an earlier call has downloaded
        reason = str(error.__cause__ or error).partition("\n")[0]
        raise CheckpointError(
            f"{name} was not downloaded ({reason}); check that it is a public model, the network and the disk."
        ) from None
