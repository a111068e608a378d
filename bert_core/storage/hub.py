"""Downloads models from the Hugging Face Hub when a person asks for one; nothing else here makes connections."""

import contextlib
import functools
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from bert_core.errors import CheckpointError, ignore, megabytes, quoted
from bert_core.storage.tokenizer_file import TOKENIZER_FILES
from bert_core.storage.weights import CONFIG, INDEX, WEIGHTS

MAX_BYTES = 2 * 2**30  # bert-large has 1.3 GB
TIMEOUT_SECONDS = 10  # of an answer
DEADLINE_SECONDS = 900  # of a download

_PART = "[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
_NAME = re.compile(rf"(?!.{{0,191}}(--|\.\.)){_PART}/{_PART}(?<![.-])")
# The files to download, as fnmatch patterns.
_FETCHED = (CONFIG, *TOKENIZER_FILES, INDEX, WEIGHTS, "model-?????-of-?????.safetensors")

Progress = Callable[[int, int], None]


def is_hub_name(name: str) -> bool:
    """Whether a text has the form owner/model, such as google-bert/bert-base-uncased."""
    return _NAME.fullmatch(name) is not None


def fetch_checkpoint(
    name: str, *, progress: Progress = ignore, max_bytes: int = MAX_BYTES, cache: Path | None = None
) -> Path:
    """Download a model from the Hub and return the folder that `load_checkpoint` opens.

    name: owner/model. progress: called with the downloaded and the total number of bytes, also from other threads.
    max_bytes: limit for all files together. cache: a folder; None means huggingface_hub's own. Its files need no
    network. Only config.json, the tokenizer's files and safetensors are downloaded, and no credentials are sent: a
    visitor of a shared page must not read its owner's private models. Raises CheckpointError for a name or model that
    cannot be used, after DEADLINE_SECONDS, and if the Hub cannot be reached.
    """
    if not is_hub_name(name):
        raise CheckpointError(
            f"{quoted(name)} is not a model name of the Hub; give owner/model, such as google-bert/bert-base-uncased."
        )
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    # Imported here, because the import takes a second and most people never download a model.
    from huggingface_hub import errors, snapshot_download

    options = {"cache_dir": cache, "token": False, "etag_timeout": TIMEOUT_SECONDS, "max_workers": 2}
    fetch = functools.partial(snapshot_download, name, allow_patterns=list(_FETCHED), **options)
    try:
        try:
            files = fetch(dry_run=True, tqdm_class=_reporter(ignore, 0, name))
        except errors.DryRunError as error:
            raise error.__cause__ or error from None
        sizes = {file.filename: file.file_size or 0 for file in files}
        if CONFIG not in sizes or not any(file.endswith(".safetensors") for file in sizes):
            raise CheckpointError(f"{name} has no {CONFIG} or no weights as safetensors; choose a model that has both.")
        if (total := sum(sizes.values())) > max_bytes:
            most = megabytes(max_bytes)
            raise CheckpointError(f"{name} has {megabytes(total)}; the limit is {most}. Use a smaller one.")
        progress(0, total)
        revision = files[0].commit_hash  # the one whose sizes are checked
        folder = fetch(revision=revision, tqdm_class=_reporter(progress, total, name))
        progress(total, total)
        return Path(folder)
    except errors.GatedRepoError:
        raise CheckpointError(f"{name} is a gated model; download its folder with your account and open it.") from None
    except errors.RepositoryNotFoundError:
        raise CheckpointError(f"The Hub has no public model {name}; check the spelling.") from None
    except errors.HfHubHTTPError as error:
        raise CheckpointError(f"The Hub returned {error.response.status_code} for {name}; try again later.") from None
    except (errors.HTTPError, errors.LocalEntryNotFoundError, ConnectionError, TimeoutError):
        with contextlib.suppress(errors.LocalEntryNotFoundError):
            return Path(fetch(local_files_only=True))  # what an earlier call has downloaded
        raise CheckpointError(
            f"The Hub cannot be reached, so {name} was not downloaded; check the network, and that HF_HUB_OFFLINE is "
            "not set."
        ) from None
    except OSError as error:
        raise CheckpointError(f"{name} was not downloaded ({error.strerror or error}).") from None


def _reporter(progress: Progress, total: int, name: str) -> type:
    """A progress bar that shows nothing, calls `progress` and ends the download after the deadline. The library makes
    three: bytes over the network, bytes written to disk, and files. Only the second is reported."""
    from huggingface_hub.utils import tqdm

    deadline = time.monotonic() + DEADLINE_SECONDS

    class Reporter(tqdm):
        def __init__(self, *arguments: object, name: str | None = None, **options: object) -> None:
            self.is_reported, self.done = name == "huggingface_hub.snapshot_download", 0
            super().__init__(*arguments, **{**options, "disable": True})

        def update(self, n: float | None = 1) -> None:
            if time.monotonic() > deadline:
                minutes = DEADLINE_SECONDS // 60
                raise CheckpointError(f"{name} was not downloaded within {minutes} minutes; use a smaller one.")
            if self.is_reported:
                self.done += int(n or 0)
                progress(min(self.done, total), total)

    return Reporter
