"""Models of the Hugging Face Hub by their names.

A connection is made in `fetch_checkpoint` and nowhere else, when a person asks for a model. What arrives is checked
by `load_checkpoint` like any other foreign folder.
"""

import os
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from bert_core.errors import CheckpointError, megabytes, quoted
from bert_core.storage.checkpoint import TOKENIZER, TOKENIZER_CONFIG, VOCABULARY
from bert_core.storage.weights import CONFIG, INDEX, WEIGHTS

MAX_BYTES = 2 * 2**30  # bert-large has 1.3 GB
TIMEOUT_SECONDS = 10

_PART = "[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
_NAME = re.compile(rf"(?!.*(--|\.\.)){_PART}/{_PART}(?<![.-])")
# All that is fetched, as fnmatch patterns.
_FETCHED = (CONFIG, TOKENIZER, TOKENIZER_CONFIG, VOCABULARY, INDEX, WEIGHTS, "model-?????-of-?????.safetensors")

Progress = Callable[[int, int], None]


def is_hub_name(name: str) -> bool:
    """Whether a text has the form owner/model of the Hub's names, such as google-bert/bert-base-uncased."""
    return _NAME.fullmatch(name) is not None


def fetch_checkpoint(
    name: str, *, progress: Progress | None = None, max_bytes: int = MAX_BYTES, cache: Path | None = None
) -> Path:
    """Fetch a model from the Hub and give the folder that `load_checkpoint` opens.

    name: owner/model. progress: called with the bytes that are there and those of all files, from the first to the
    last; it may be called from another thread. max_bytes: of all files together. cache: where to keep them; None means
    huggingface_hub's own cache. What is there is not fetched again, and can be had without a network too.

    Only config.json, the tokenizer's files and safetensors are fetched. No credential is sent, whatever the machine
    holds: a visitor of a shared page must not read its owner's private models.

    Raises CheckpointError for a name of another form, an unknown, private or gated model, one without safetensors or
    over the limit, and when the Hub cannot be reached.
    """
    if not is_hub_name(name):
        raise CheckpointError(
            f"{quoted(name)} is no name of a model on the Hub; give owner/model, such as google-bert/bert-base-uncased."
        )
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    # Imported when it is needed: it takes a second, and most people never ask for it.
    from huggingface_hub import HfApi, errors, snapshot_download

    try:
        info = HfApi(token=False).model_info(name, files_metadata=True, timeout=TIMEOUT_SECONDS)
        files = {file.rfilename: file.size or 0 for file in info.siblings or ()}
        total = _checked_total(name, {file: size for file, size in files.items() if _is_fetched(file)}, max_bytes)
        report = progress or (lambda done, total: None)
        report(0, total)
        folder = snapshot_download(
            name,
            allow_patterns=list(_FETCHED),
            cache_dir=cache,
            token=False,
            etag_timeout=TIMEOUT_SECONDS,
            max_workers=2,
            tqdm_class=_reporter(report, total),
        )
        report(total, total)
        return Path(folder)
    except errors.GatedRepoError:
        raise CheckpointError(
            f"{name} is given only to people whom its owner knows; download its folder with your account and open that."
        ) from None
    except errors.RepositoryNotFoundError:
        raise CheckpointError(f"The Hub has no public model {name}; check the spelling.") from None
    except errors.HfHubHTTPError as error:
        raise CheckpointError(
            f"The Hub did not give {name} (answer {error.response.status_code}); try again later."
        ) from None
    except (errors.HTTPError, errors.LocalEntryNotFoundError, ConnectionError, TimeoutError):
        return _from_cache(name, cache)
    except OSError as error:
        raise CheckpointError(f"{name} was not fetched ({error.strerror or error}).") from None


def _is_fetched(file: str) -> bool:
    return any(fnmatchcase(file, pattern) for pattern in _FETCHED)


def _checked_total(name: str, sizes: dict[str, int], max_bytes: int) -> int:
    """The bytes of all files. Raises CheckpointError for more than the limit, or when no model is among them."""
    if CONFIG not in sizes or not any(file.endswith(".safetensors") for file in sizes):
        raise CheckpointError(f"{name} has no {CONFIG} or no weights as safetensors; choose a model that has both.")
    total = sum(sizes.values())
    if total > max_bytes:
        raise CheckpointError(
            f"{name} has {megabytes(total)}; the limit is {megabytes(max_bytes)}. Choose a smaller model."
        )
    return total


def _from_cache(name: str, cache: Path | None) -> Path:
    """What an earlier call fetched, now that there is no network. Raises CheckpointError when there is nothing."""
    from huggingface_hub import errors, snapshot_download

    try:
        folder = Path(
            snapshot_download(name, allow_patterns=list(_FETCHED), cache_dir=cache, token=False, local_files_only=True)
        )
    except errors.LocalEntryNotFoundError:
        folder = None
    if folder is None or not (folder / CONFIG).exists():
        raise CheckpointError(
            f"The Hugging Face Hub cannot be reached, so {name} was not fetched; check the network, or open a folder."
        )
    return folder


def _reporter(progress: Progress, total: int) -> type:
    """A progress bar that shows nothing and reports instead.

    The library makes three: bytes over the network, bytes written to disk, and files. The second alone counts.
    """
    from huggingface_hub.utils import tqdm

    class Reporter(tqdm):
        def __init__(self, *arguments: Any, name: str | None = None, **options: Any) -> None:
            self.counts, self.done = name == "huggingface_hub.snapshot_download", 0
            super().__init__(*arguments, **{**options, "disable": True})

        def update(self, n: float | None = 1) -> None:
            if self.counts:
                self.done += int(n or 0)
                progress(min(self.done, total), total)

    return Reporter
