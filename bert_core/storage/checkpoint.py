"""Models as Hugging Face folders without pickles: `transformers` opens them, and untrusted ones are read safely."""

import contextlib
import copy
import dataclasses
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, Field
from safetensors import SafetensorError
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from torch import Tensor, nn

from bert_core.config import CHECKPOINTS, HOME, LOCAL, BertConfig, Limits
from bert_core.data.tokenizer import NAMED_TOKENS, PAD, token_id
from bert_core.device import choose_device
from bert_core.errors import CheckpointError, ConfigError, ignore
from bert_core.model import BertForPreTraining, Watch, draw
from bert_core.storage.tokenizer_file import TOKENIZER, TOKENIZER_CONFIG, TOKENIZER_FILES, VOCABULARY, read_tokenizer
from bert_core.storage.untrusted import MAX_JSON_BYTES, Json, parse_fields, parse_json, read_limited
from bert_core.storage.weights import CONFIG, TASK_HEADS, WEIGHTS, check_finite, open_weights, read_weights, without

RECIPE = "recipe.json"
TRAINING_STATE = "training_state.safetensors"  # written and read by `bert_core.runs.train`

_POSITIONS = "bert.embeddings.position_embeddings.weight"
_UNFINISHED = ".unfinished"  # a folder with the files of a save

PART_TITLES = {"pooler": "pooler", "mlm": "masked-word head", "nsp": "next-sentence head"}

SMALL_FILES = (CONFIG, *TOKENIZER_FILES, RECIPE)
MODEL_FILES = frozenset({*SMALL_FILES, WEIGHTS, TRAINING_STATE, "special_tokens_map.json"})

_RANDOM = {"random_weights": True}  # instead of the recipe of a model that nobody has trained

# Sizes that a config.json may leave out. `BertConfig` has other defaults.
_HUGGING_FACE_DEFAULTS = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
}


class _Config(BaseModel):
    """The fields of config.json beside the sizes, with the values that this program supports. The others are ignored;
    models that differ in them from BERT have other tensors."""

    model_type: Literal["bert"] = "bert"  # Google's bert_config.json has none
    is_decoder: Literal[False] | None = None
    pooler_type: Literal["first_token_transform", "all_token_average"] | None = None  # as Google's files have it
    architectures: list[object] | None = None
    problem_type: Literal["regression", "single_label_classification"] | None = None
    num_labels: Annotated[int, Field(ge=1, le=10_000)] = 2
    tokenizer_class: object = None
    id2label: Annotated[Json, Field(max_length=10_000)] | None = None


@dataclass(frozen=True)
class TaskHead:
    """The output layer of a fine-tuned model. architecture: its Hugging Face class, one of `TASK_HEADS`. labels: the
    name of each output; none for choices, answers to a question and a number."""

    architecture: str
    labels: tuple[str, ...] = ()

    @property
    def is_regression(self) -> bool:
        return self.architecture == "BertForSequenceClassification" and not self.labels

    @property
    def outputs(self) -> int:
        return len(self.labels) or (2 if self.architecture == "BertForQuestionAnswering" else 1)

    @property
    def never(self) -> frozenset[str]:
        """The parts that files of such a model never have."""
        _, has_pooler = TASK_HEADS[self.architecture]
        return frozenset({"mlm", "nsp"} if has_pooler else PART_TITLES)

    @property
    def settings(self) -> Json:
        """What config.json says of it, beside the architecture."""
        names = dict(enumerate(self.labels or ("LABEL_0",) * self.is_regression))
        labels = {"id2label": names, "label2id": {name: i for i, name in names.items()}} if names else {}
        return {**labels, "problem_type": "regression"} if self.is_regression else labels


@dataclass(frozen=True)
class Checkpoint:
    """A model, always in eval mode, with its tokenizer.

    notes: what the files lacked, beside what files of such a model never have, one sentence each. missing: which of
    "pooler", "mlm" and "nsp" they lacked; these parts are random, and probes that need them raise an error. recipe: the
    settings of the training as JSON data, if known. head: of a fine-tuned model; its files have neither of the
    pre-training heads. watch: what every probe lets its passes go through, see `BertModel.forward`; no file has it.
    random_weights: whether all are; then nothing is missing."""

    module: BertForPreTraining  # in any mode
    tokenizer: Tokenizer
    name: str = "model"
    notes: tuple[str, ...] = ()
    missing: frozenset[str] = frozenset()
    recipe: Mapping[str, Any] | None = None
    head: TaskHead | None = None
    watch: Watch | None = None
    random_weights: bool = False

    def __repr__(self) -> str:
        kind = self.head.architecture if self.head else "BertForPreTraining"
        return f"<Checkpoint {self.name}: {kind}, {self.config.in_words}, {self.config.parameter_count():,} parameters>"

    @property
    def model(self) -> BertForPreTraining:
        """In eval mode: of a module in training, other ones with its weights, so that whoever trains it goes on."""
        if not any(each.training for each in self.module.modules()):
            return self.module
        return copy.deepcopy(self.module, {id(each): each for each in self.module.parameters()}).eval()

    @property
    def config(self) -> BertConfig:
        return self.module.config

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Its weights by their names in a file, without the parts that are missing."""
        return without(self.model.state_dict(), self.missing)

    def with_weights(self, weights: Mapping[str, Tensor]) -> "Checkpoint":
        """The same with a new model of these weights, whose memory it shares; those of missing parts are drawn."""
        return dataclasses.replace(self, module=filled(empty_model(self.config, self.head), weights))

    def to(self, device: str) -> "Checkpoint":
        """The same with a model of its own on a device, see `choose_device`; itself where it is there already."""
        there = torch.device(choose_device(device))
        if self.model.device == there:
            return self
        return dataclasses.replace(self, module=copy.deepcopy(self.model).to(there))


# --- Writing ---------------------------------------------------------------------------------------------------------


def save_checkpoint(checkpoint: Checkpoint, folder: str | Path, *, also: Callable[[Path], None] = ignore) -> None:
    """Write a model as a Hugging Face folder, without the parts that are `missing`; files that are of no model stay.

    also: called with a folder to add a file of MODEL_FILES, such as the training state. All files are written beside
    their places first. Then the config.json of a model with other settings or another tokenizer is removed, and the new
    one comes last, so that a folder has all files of one model or no config.json. Raises CheckpointError if weights are
    not finite or the folder cannot be written."""
    folder = Path(folder).resolve()
    new = folder / _UNFINISHED
    try:
        shutil.rmtree(new, ignore_errors=True)  # of a killed save
        new.mkdir(parents=True)
        save_file(weights_of(checkpoint), new / WEIGHTS, metadata={"format": "pt"})
        for name, content in small_files(checkpoint).items():
            (new / name).write_bytes(content)
        also(new)
        _put_in_place(new, folder)
    except (OSError, SafetensorError) as error:
        kept = "; the earlier model there is kept" if (folder / CONFIG).exists() else ""
        raise CheckpointError(f"The model was not saved to {folder.name} ({_reason(error)}){kept}.") from None
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _put_in_place(new: Path, folder: Path) -> None:
    """Let the written files take their places in a folder; the other files of an earlier model go."""
    names = sorted(path.name for path in new.iterdir())
    for name in names:
        with contextlib.suppress(OSError):  # a file system without users
            (new / name).chmod(0o644)  # the library of the weights makes a file private
        with (new / name).open("r+b") as file:
            os.fsync(file.fileno())
    if any(_content(folder / name) != _content(new / name) for name in (CONFIG, TOKENIZER, TOKENIZER_CONFIG)):
        (folder / CONFIG).unlink(missing_ok=True)  # from here on, the folder holds no model
    for path in folder.iterdir():
        if path.name in MODEL_FILES and path.name not in names:
            path.unlink()
    for name in names:
        if name != CONFIG:
            os.replace(new / name, folder / name)
    os.replace(new / CONFIG, folder / CONFIG)


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def check_saving(folder: Path) -> None:
    """Raise CheckpointError where `save_checkpoint` could not write this folder; it writes nothing itself."""
    there = next(path for path in (folder.resolve(), *folder.resolve().parents) if os.path.exists(path))
    try:
        tempfile.TemporaryFile(dir=there).close()  # permissions alone do not tell: a disk may be read-only
    except OSError as error:
        raise CheckpointError(f"No model can be saved to {folder} ({_reason(error)}); choose another folder.") from None


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def weights_of(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """The weights as they are in a file: float32, on the CPU. Raises CheckpointError if one is not finite."""
    tensors = {name: each.detach().to("cpu", torch.float32).contiguous() for name, each in checkpoint.tensors.items()}
    check_finite(tensors, "The model was not saved", "train it again with a lower learning rate")
    return tensors


def small_files(checkpoint: Checkpoint) -> dict[str, bytes]:
    """The content of all files of a model but its weights, by name."""
    # With another class, or none, `transformers` reads a word vocabulary as WordPiece; without the input names it drops
    # the segments.
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **NAMED_TOKENS,
        "model_max_length": checkpoint.config.max_position_embeddings,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
    }
    head = checkpoint.head
    config = {
        "architectures": [head.architecture if head else "BertForPreTraining"],
        "model_type": "bert",
        **checkpoint.config.content(),
        **(head.settings if head else {}),
        "pooler_type": "all_token_average" if checkpoint.config.pooler == "mean" else "first_token_transform",
        "tie_word_embeddings": True,
    }
    del config["pooler"]
    contents = {TOKENIZER_CONFIG: settings, CONFIG: config}
    if recipe := _RANDOM if checkpoint.random_weights else checkpoint.recipe:
        contents[RECIPE] = dict(recipe)
    texts = {name: json.dumps(each, indent=2, ensure_ascii=False) + "\n" for name, each in contents.items()}
    texts[TOKENIZER] = checkpoint.tokenizer.to_str(pretty=True)
    if isinstance(checkpoint.tokenizer.model, WordPiece):  # for tools that read no tokenizer.json
        vocabulary = checkpoint.tokenizer.get_vocab()
        texts[VOCABULARY] = "".join(f"{token}\n" for token in sorted(vocabulary, key=vocabulary.__getitem__))
    return {name: text.encode() for name, text in texts.items()}


# --- Reading ---------------------------------------------------------------------------------------------------------


def load_checkpoint(
    folder: str | Path, *, max_positions: int | None = None, random_weights: bool = False, limits: Limits = LOCAL
) -> Checkpoint:
    """Open an untrusted Hugging Face BERT folder, or a model that comes with Balcony, and check every file before use.

    folder: its path, or the name of a model in `checkpoints`, such as "romeo-juliet". The pooler and each head may be
    missing; they are then drawn with a fixed seed and described in `notes`, without PyTorch's global generator.
    max_positions: the longest input in tokens, if it should exceed the number of positions in the weights; the new ones
    are drawn. random_weights: draw all weights, as for a folder without any; the model has no head of a task and no
    recipe. limits: of its files, tokens and parameters. Raises CheckpointError with what differs or is over a limit."""
    path = model_folder(folder).resolve()
    if not os.path.isdir(path):  # no error where no folder can have this name
        raise CheckpointError(
            f"There is no folder {path.name!r}; give the folder that holds {CONFIG}. For a model of the Hub, that is "
            "what fetch_checkpoint returns."
        )

    def read() -> dict[str, bytes]:
        names = [name for name in SMALL_FILES if name == CONFIG or (path / name).exists()]
        return {name: read_limited(path / name, min(MAX_JSON_BYTES, limits.upload_bytes)) for name in names}

    while True:
        files, stored = read(), None if random_weights else open_weights(path, limits)
        if read() == files:  # else another model has come meanwhile
            return assemble(files, stored, path.name, max_positions, limits)


def model_folder(name: str | Path) -> Path:
    """The folder of this path or, where there is none, of the model that comes with Balcony under this name."""
    places = (Path(), HOME, CHECKPOINTS)
    return next((place / name for place in places if os.path.isdir(place / name)), Path(name))


def assemble(
    files: dict[str, bytes],
    stored: Mapping[str, Tensor] | None,
    name: str,
    max_positions: int | None = None,
    limits: Limits = LOCAL,
) -> Checkpoint:
    """Build a model from the contents of SMALL_FILES. stored: its weights; None draws all of them, and leaves the
    recipe and the head of a task out. The others: see `load_checkpoint`."""
    content = parse_json(files[CONFIG], CONFIG)
    fields = parse_fields(_Config, content, CONFIG)
    config = _read_sizes(content, fields)
    known = config.max_position_embeddings
    if max_positions is not None:
        if max_positions < known:
            raise CheckpointError(f"max_positions is {max_positions:,}; the weights have {known:,} positions.")
        config = config.replace(max_position_embeddings=max_positions)
    if (count := config.parameter_count()) > limits.parameters:
        most = f"{limits.parameters:,}"
        raise CheckpointError(f"{CONFIG} describes {count:,} parameters; the limit is {most}. Use a smaller model.")
    tokenizer = read_tokenizer(files, fields.tokenizer_class, limits)
    if (tokens := tokenizer.get_vocab_size()) > config.vocab_size:
        ids = f"{config.vocab_size:,}"
        raise CheckpointError(f"The tokenizer has {tokens:,} tokens where {CONFIG} has a vocab_size of {ids}.")
    recipe = parse_json(files[RECIPE], RECIPE) if RECIPE in files else None
    is_random = stored is None or recipe == _RANDOM
    head = None if is_random else _read_head(fields)
    model = empty_model(config.replace(pad_token_id=token_id(tokenizer, PAD)), head)
    weights, missing = ({}, frozenset[str]()) if stored is None else _known_weights(stored, model, known)
    filled(model, weights)
    if is_random:
        note = "All weights are random; only the tokenizer and the sizes are those of the files."
        return Checkpoint(model, tokenizer, name, (note,), random_weights=True)
    notes = notes_on_missing(missing - head.never if head else missing)
    if (positions := config.max_position_embeddings) > known:
        notes.append(f"The weights have {known:,} positions; {known + 1:,} to {positions:,} are new and untrained.")
    return Checkpoint(model, tokenizer, name, tuple(notes), missing, recipe, head)


def notes_on_missing(parts: Collection[str]) -> list[str]:
    """A note, if some of PARTS are missing."""
    titles = " and ".join(f"the {title}" for part, title in PART_TITLES.items() if part in parts)
    return [f"The files lack {titles}; what they lack is new and untrained here."] if parts else []


def _read_sizes(content: Json, fields: _Config) -> BertConfig:
    given = {name: content[name] for name in BertConfig.model_fields if content.get(name) is not None}
    pooler = "mean" if fields.pooler_type == "all_token_average" else "first"
    try:
        return BertConfig(**{**_HUGGING_FACE_DEFAULTS, **given, "pooler": pooler})
    except ConfigError as error:
        raise CheckpointError(f"{CONFIG}: {error}") from None


def _read_head(fields: _Config) -> TaskHead | None:
    """The output layer that a config describes, if it is one of a task."""
    architecture = (fields.architectures or [None])[0]
    if not isinstance(architecture, str) or architecture not in TASK_HEADS:
        return None
    is_of_texts = architecture == "BertForSequenceClassification"
    has_labels = (is_of_texts and fields.problem_type != "regression") or architecture == "BertForTokenClassification"
    if not has_labels:
        return TaskHead(architecture)
    names = fields.id2label or {str(i): f"LABEL_{i}" for i in range(fields.num_labels)}
    labels = tuple(str(names.get(str(i))) for i in range(len(names)))
    if len({*labels}) < len(names) or not names.keys() >= {*map(str, range(len(names)))}:
        count = f"{len(names):,}"
        raise CheckpointError(f"{CONFIG} must have a name for each of its {count} outputs, from 0, in id2label.")
    return TaskHead(architecture, () if is_of_texts and len(labels) == 1 else labels)  # one output is a number


def _known_weights(
    stored: Mapping[str, Tensor], model: BertForPreTraining, positions: int
) -> tuple[dict[str, Tensor], frozenset[str]]:
    """The weights of a file with so many positions; those of more positions are drawn. And the missing parts."""
    config, shapes = model.config, {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    tensors, missing = read_weights(stored, {**shapes, _POSITIONS: (positions, config.hidden_size)})
    if more := config.max_position_embeddings - positions:
        new = draw("new_positions", (more, config.hidden_size), config, torch.Generator().manual_seed(0))
        tensors[_POSITIONS] = torch.cat([tensors[_POSITIONS], new * config.use_position_embeddings])
    return tensors, missing


def empty_model(config: BertConfig, head: TaskHead | None = None) -> BertForPreTraining:
    """A model in eval mode without memory for its weights, with the output layer of a task, if any."""
    with torch.device("meta"):
        model = BertForPreTraining(config)
        if head:
            model.add_module(TASK_HEADS[head.architecture][0], nn.Linear(config.hidden_size, head.outputs))
    return model.eval()


def filled(model: BertForPreTraining, weights: Mapping[str, Tensor]) -> BertForPreTraining:
    """An empty model with these weights, whose memory it shares; the others are drawn with a fixed seed."""
    generator, device = torch.Generator().manual_seed(0), next(iter(weights.values()), torch.empty(0)).device
    lacking = {name: each for name, each in model.state_dict().items() if name not in weights}
    new = {name: draw(name, each.shape, model.config, generator).to(device) for name, each in lacking.items()}
    model.load_state_dict({**weights, **new}, assign=True)
    return model
