"""Models as Hugging Face folders without pickles: `transformers` opens them, and untrusted ones are read safely."""

import contextlib
import copy
import dataclasses
import json
import os
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from bert_core.config import CHECKPOINTS, HOME, LOCAL, BertConfig, Limits
from bert_core.data.tokenizer import NAMED_TOKENS, PAD, token_id
from bert_core.device import choose_device
from bert_core.errors import CheckpointError, ConfigError, first_three, ignore, quoted
from bert_core.machine import replace, share, sync
from bert_core.model import BertForPreTraining, draw
from bert_core.storage.tokenizer_file import bert_flags, check_special_tokens, read_tokenizer
from bert_core.storage.untrusted import Json, parse_json, part, read_limited, while_same
from bert_core.storage.weights import (
    CONFIG,
    INDEX,
    PARTS,
    POSITIONS,
    TASK_HEADS,
    WEIGHTS,
    Stored,
    check_finite,
    open_weights,
    read_weights,
)

TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
VOCABULARY = "vocab.txt"
ADDED_TOKENS = "added_tokens.json"
SPECIAL_TOKENS_MAP = "special_tokens_map.json"
RECIPE = "recipe.json"
TRAINING_STATE = "training_state.safetensors"  # written and read by `bert_core.runs.saved_state`

_UNFINISHED = ".unfinished-"  # begins the name of a folder with the files of a save
_STALE_SECONDS = 3600

MAX_OUTPUTS = 10_000  # of a task's output layer
_WITH_LABELS = ("BertForSequenceClassification", "BertForTokenClassification")

PART_TITLES = {"pooler": "pooler", "mlm": "masked-word head", "nsp": "next-sentence head"}

TOKENIZER_FILES = (TOKENIZER, TOKENIZER_CONFIG, VOCABULARY, ADDED_TOKENS, SPECIAL_TOKENS_MAP)
SMALL_FILES = (CONFIG, *TOKENIZER_FILES, RECIPE)
_FILES = (*SMALL_FILES, INDEX, TRAINING_STATE)
MODEL_FILES = re.compile("|".join(map(re.escape, _FILES)) + r"|model(-[0-9]{5}-of-[0-9]{5})?\.safetensors")

# Sizes that a config.json may leave out. `BertConfig` has other defaults.
_HUGGING_FACE_DEFAULTS = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
}
# Of Google's bert_config.json, which has no model_type.
_BERT_FIELDS = {*_HUGGING_FACE_DEFAULTS, "type_vocab_size", "vocab_size"}
# Fields that change what a model computes, and the values that this model supports. Other fields are ignored.
_FIXED_FIELDS: dict[str, tuple] = {
    "model_type": ("bert",),
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
    "pooler_type": ("first_token_transform", "all_token_average", None),  # as Google's files have it
}
MEAN_POOLER = "The pooler reads the mean of all tokens; other programs, such as transformers, give it [CLS] instead."
_ONE_ATTENTION = "use_torch_multi_head chooses between two ways to write attention; both give the same numbers."


Writer = Callable[[Path], None]  # writes more files into a folder


@dataclass(frozen=True)
class TaskHead:
    """The output layer of a fine-tuned model, a module of it.

    architecture: its Hugging Face class, one of `TASK_HEADS`. labels: the name of each output, empty if the outputs
    have none. is_regression: the output is a number.
    """

    architecture: str
    labels: tuple[str, ...]
    is_regression: bool

    @property
    def outputs(self) -> int:
        """The number of outputs of each row or token."""
        return len(self.labels) or (2 if self.architecture == "BertForQuestionAnswering" else 1)

    @property
    def settings(self) -> Json:
        """What config.json says of it, beside the architecture."""
        if self.is_regression and not self.labels:
            return {"id2label": {0: "LABEL_0"}, "label2id": {"LABEL_0": 0}, "problem_type": "regression"}
        if not self.labels:
            return {}
        names = dict(enumerate(self.labels))
        return {"id2label": names, "label2id": {name: i for i, name in names.items()}}

    def add_to(self, model: BertForPreTraining) -> None:
        """Add the layer to a model, on the meta device."""
        layer, _ = TASK_HEADS[self.architecture]
        model.add_module(layer, nn.Linear(model.config.hidden_size, self.outputs, device="meta"))


@dataclass(frozen=True)
class Checkpoint:
    """A model, always in eval mode, with its tokenizer.

    notes: what the files lacked and what replaces it, one sentence each. missing: which of "pooler", "mlm" and "nsp"
    the files lacked; these parts are random, and probes that need them raise an error. recipe: the settings of the
    training as JSON data, if known. head: of a fine-tuned model; its files have neither of the pre-training heads.
    """

    model: BertForPreTraining  # read by `_InEvalMode`
    tokenizer: Tokenizer
    name: str = "model"
    notes: tuple[str, ...] = ()
    missing: frozenset[str] = frozenset()
    recipe: Mapping[str, Any] | None = None
    head: TaskHead | None = None

    def __repr__(self) -> str:
        config, kind = self.config, self.head.architecture if self.head else type(self.model).__name__
        sizes = f"{config.in_words}, {config.num_attention_heads} heads"
        numbers = f"{config.vocab_size:,} tokens, {config.parameter_count():,} parameters"
        return f"<Checkpoint {self.name}: {kind}, {sizes}, {numbers}>"

    @property
    def config(self) -> BertConfig:
        """The sizes of the model."""
        return vars(self)["model"].config  # in any mode; asked much more often than the model

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Its weights by their names in a file, without the parts that are missing."""
        left_out, every = tuple(PARTS[part] for part in self.missing), self.model.state_dict()
        return {name: tensor for name, tensor in every.items() if not name.startswith(left_out)}

    def to(self, device: str) -> "Checkpoint":
        """The same on a device (see `choose_device`, which may raise ConfigError): with a model of its own, or itself
        where it is there already."""
        there = torch.device(choose_device(device))
        if self.model.device == there:
            return self
        return dataclasses.replace(self, model=copy.deepcopy(self.model).to(there))


class _InEvalMode:
    """The attribute `model` of a checkpoint. A model that is in training goes on as it is: whoever reads the attribute
    gets another module in its place, with the same weights and in eval mode."""

    def __get__(self, checkpoint: Checkpoint | None, owner: type) -> Any:
        if checkpoint is None:  # the class is looked at, not one of its objects
            return self
        model: BertForPreTraining = vars(checkpoint)["model"]
        if any(module.training for module in model.modules()):
            shared = {id(each): each for each in (*model.parameters(), *model.buffers())}
            model = vars(checkpoint)["model"] = copy.deepcopy(model, shared).eval()
        return model

    def __set__(self, checkpoint: Checkpoint, model: BertForPreTraining) -> None:
        vars(checkpoint)["model"] = model


Checkpoint.model = _InEvalMode()  # type: ignore[assignment]


# --- Writing ---------------------------------------------------------------------------------------------------------


def save_checkpoint(checkpoint: Checkpoint, folder: str | Path, *, also: Writer = ignore) -> None:
    """Write a model as a Hugging Face folder, without the parts that are `missing`.

    also: called with a folder to add a file of MODEL_FILES, such as the training state. Each file is written beside its
    place and then put there whole. Where the folder holds a model with other settings or another tokenizer, its
    config.json is removed before that and comes last, so that after a kill the folder has the old model, the new one or
    no config.json. Files that belong to no model stay. Raises CheckpointError if weights are not finite or the folder
    cannot be written.
    """
    folder = Path(folder).resolve()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(folder)
        with tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=folder) as new:
            _write_files(checkpoint, Path(new))
            also(Path(new))
            _put_in_place(Path(new), folder)
    except (OSError, SafetensorError) as error:
        kept = "; the earlier model there is kept" if (folder / CONFIG).exists() else ""
        raise CheckpointError(f"The model was not saved to {folder.name} ({_reason(error)}){kept}.") from None


def _put_in_place(new: Path, folder: Path) -> None:
    """Let the written files take their places in a folder; those of an earlier model that have no successor go."""
    names = sorted(path.name for path in new.iterdir())
    for name in names:
        sync(new / name)
    is_same = all(_is_same(new / name, folder / name) for name in (CONFIG, TOKENIZER, TOKENIZER_CONFIG))
    if not is_same:
        (folder / CONFIG).unlink(missing_ok=True)  # from here on, the folder holds no model
        sync(folder)
    for name in names:
        if name != CONFIG:
            replace(new / name, folder / name)
    for path in folder.iterdir():
        if MODEL_FILES.fullmatch(path.name) and path.name not in (*names, CONFIG):
            path.unlink()
    sync(folder)
    if not is_same:
        replace(new / CONFIG, folder / CONFIG)
        sync(folder)


def _is_same(new: Path, old: Path) -> bool:
    return old.is_file() and old.read_bytes() == new.read_bytes()


def _remove_leftovers(folder: Path) -> None:
    """Remove what killed saves have left; a recent one may still go on."""
    for path in folder.glob(f"{_UNFINISHED}*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


def check_saving(folder: Path) -> None:
    """Raise CheckpointError where `save_checkpoint` could not write this folder; it writes nothing itself."""
    try:
        check_writable(folder)
    except OSError as error:
        raise CheckpointError(f"No model can be saved to {folder} ({_reason(error)}); choose another folder.") from None


def check_writable(folder: Path) -> None:
    """Raise OSError unless files can be made in a folder or, where there is none yet, it can be made itself."""
    there = next(path for path in (folder.resolve(), *folder.resolve().parents) if os.path.exists(path))
    with tempfile.TemporaryFile(dir=there):  # permissions alone do not tell: a disk may be read-only
        pass


def _reason(error: Exception) -> str:
    of_system = re.search(r"([^:]+) \(os error \d+\)", str(error))  # as Rust shows it
    return of_system[1].strip() if of_system else getattr(error, "strerror", None) or str(error)


def _write_files(checkpoint: Checkpoint, folder: Path) -> None:
    save_file(weights_of(checkpoint), folder / WEIGHTS, metadata={"format": "pt"})
    share(folder / WEIGHTS)
    for name, content in small_files(checkpoint).items():
        (folder / name).write_bytes(content)


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
        **bert_flags(checkpoint.tokenizer),
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
        "dtype": "float32",
    }
    del config["pooler"]
    texts = {TOKENIZER: checkpoint.tokenizer.to_str(pretty=True), TOKENIZER_CONFIG: _json(settings)}
    if checkpoint.recipe is not None:
        texts[RECIPE] = _json(checkpoint.recipe)
    texts[CONFIG] = _json(config)
    return {name: text.encode() for name, text in texts.items()}


def _json(content: Mapping[str, object]) -> str:
    return json.dumps(dict(content), indent=2, ensure_ascii=False) + "\n"


# --- Reading ---------------------------------------------------------------------------------------------------------


def load_checkpoint(
    folder: str | Path, *, max_positions: int | None = None, random_weights: bool = False, limits: Limits = LOCAL
) -> Checkpoint:
    """Open an untrusted Hugging Face BERT folder, or a model that comes with Balcony, and check every file before use.

    folder: its path, or the name of a model in `checkpoints`, such as "romeo-juliet". The files are config.json, the
    weights (see `read_weights`), tokenizer.json or vocab.txt, tokenizer_config.json and recipe.json. The pooler and
    each head may be missing; they are then drawn with a fixed seed, listed in `missing` and described in `notes`.
    PyTorch's global generator is not used, and no connection is made.

    max_positions: the longest input in tokens, if it should exceed the number of positions in the weights; the new
    positions are drawn with a fixed seed and described in `notes`. random_weights: draw all weights with a fixed seed;
    the folder needs none, and the model has no head of a task and no recipe. limits: of its files, tokens and
    parameters. Raises CheckpointError with the file, what differs or is over a limit, and the remedy.
    """
    path = model_folder(folder).resolve()
    if not os.path.isdir(path):  # no error where no folder can have this name
        hub = f" To download a model from the Hub, load_checkpoint(fetch_checkpoint({folder!r}))."
        is_like_one = isinstance(folder, str) and folder.count("/") == 1 and "." not in folder.split("/")[0]
        remedy = f"give the folder that holds {CONFIG}.{hub * is_like_one}"
        raise CheckpointError(f"There is no folder {path.name!r}; {remedy}")
    # `save_checkpoint` removes config.json before it puts a file of another model there, so all files that are read
    # while it is the same are of one model.
    return while_same(path / CONFIG, lambda: _load(path, max_positions, random_weights, limits))


def _load(folder: Path, max_positions: int | None, random_weights: bool, limits: Limits) -> Checkpoint:
    names = [name for name in SMALL_FILES if name == CONFIG or (folder / name).exists()]
    files = {name: read_limited(folder / name, limits) for name in names}
    if not random_weights:
        return assemble(files, lambda: open_weights(folder, limits), folder.name, max_positions, limits)
    loaded = assemble(files, None, folder.name, max_positions, limits)
    note = f"Only the tokenizer and the sizes are those of {folder.name}; all weights are random."
    return dataclasses.replace(loaded, notes=(*loaded.notes, note))


def assemble(
    files: Mapping[str, bytes],
    weights: Callable[[], Mapping[str, Stored]] | None,
    name: str,
    max_positions: int | None = None,
    limits: Limits = LOCAL,
) -> Checkpoint:
    """Build a model from the contents of its files. files: of SMALL_FILES, by name. weights: opens the tensors of its
    other files; None draws all of them, and leaves the recipe and the head of a task out. max_positions, limits,
    errors: see `load_checkpoint`."""
    content = parse_json(files[CONFIG], CONFIG)
    config = _read_config(content, limits)
    known = config.max_position_embeddings
    if max_positions is not None:
        config = _with_positions(config, max_positions, limits)
    notes = _config_notes(content, config)
    tokenizer = _read_tokenizer(files, content.get("tokenizer_class"), limits, notes)
    tokens = tokenizer.get_vocab_size()
    if tokens > config.vocab_size:
        raise CheckpointError(
            f"The tokenizer has {tokens:,} tokens where {CONFIG} has a vocab_size of {config.vocab_size:,}; "
            "take both from the same model."
        )
    if unused := config.vocab_size - tokens:
        notes.append(f"The tokenizer has no text for the last {unused:,} of {config.vocab_size:,} ids.")
    pad = token_id(tokenizer, PAD)
    if config.pad_token_id != pad and content.get("pad_token_id") is not None:
        notes.append(f"{CONFIG} has the pad_token_id {config.pad_token_id}; that of the tokenizer, {pad}, is used.")
    with torch.device("meta"):
        model = BertForPreTraining(config.replace(pad_token_id=pad))
    head = _read_head(content, notes) if weights else None
    if head:
        head.add_to(model)
    is_tied = content.get("tie_word_embeddings") in (True, None)
    missing = _fill(model, weights() if weights else None, known, notes, tied=is_tied)
    if weights and missing:
        *others, last = [f"the {title}" for part, title in PART_TITLES.items() if part in missing]
        parts, are = (f"{', '.join(others)} and {last}", "they are") if others else (last, "it is")
        notes.append(f"The files lack {parts}; {are} new and untrained here.")
    if weights and (positions := config.max_position_embeddings) > known:
        notes.append(f"The weights have {known:,} positions; {known + 1:,} to {positions:,} are new and untrained.")
    recipe = _read_recipe(files, notes) if weights else None
    return Checkpoint(model.eval(), tokenizer, name, tuple(notes), missing, recipe, head)


def _config_notes(content: Json, config: BertConfig) -> list[str]:
    """What is taken for a field that a config lacks, or read in another way than other programs do."""
    lacking = [name for name in _HUGGING_FACE_DEFAULTS if content.get(name) is None]
    notes = [f"{CONFIG} lacks {name}; BERT's {_HUGGING_FACE_DEFAULTS[name]} is used." for name in lacking]
    notes += [MEAN_POOLER] * (config.pooler == "mean")
    return notes + [_ONE_ATTENTION] * ("use_torch_multi_head" in content)


def _read_recipe(files: Mapping[str, bytes], notes: list[str]) -> Json | None:
    """The settings of a model's training. It can be used without them."""
    try:
        return parse_json(files[RECIPE], RECIPE) if RECIPE in files else None
    except CheckpointError as error:
        notes.append(f"{error} The settings of its training are not known here.")
        return None


def model_folder(name: str | Path) -> Path:
    """The folder of this path or, where there is none, of the model that comes with Balcony under this name."""
    places = (Path(), HOME, CHECKPOINTS)
    return next((place / name for place in places if os.path.isdir(place / name)), Path(name))


def _read_config(content: Json, limits: Limits) -> BertConfig:
    if "model_type" not in content and content.keys() >= _BERT_FIELDS:
        content = {**content, "model_type": "bert"}
    for field, allowed in _FIXED_FIELDS.items():
        value = content.get(field)
        if value not in allowed:
            known = " or ".join(map(repr, allowed))
            raise CheckpointError(f"{CONFIG} has {field} {quoted(value)}; this program supports only {known}.")
    content = {**content, "pooler": "mean" if content.get("pooler_type") == "all_token_average" else "first"}
    names = BertConfig.model_fields.keys()
    given = {name: value for name, value in content.items() if name in names and value is not None}
    try:
        config = BertConfig(**{**_HUGGING_FACE_DEFAULTS, **given})
    except ConfigError as error:
        raise CheckpointError(f"{CONFIG}: {error}") from None
    _check_size(config, f"{CONFIG} describes", limits)
    return config


def _check_size(config: BertConfig, subject: str, limits: Limits) -> None:
    count, most = config.parameter_count(), limits.parameters
    if count > most:
        raise CheckpointError(f"{subject} {count:,} parameters; the limit is {most:,}. Use a smaller model.")


def _with_positions(config: BertConfig, max_positions: int, limits: Limits) -> BertConfig:
    try:
        longer = config.replace(max_position_embeddings=max_positions)
    except ConfigError as error:
        raise CheckpointError(f"max_positions cannot be used: {error}") from None
    if max_positions < config.max_position_embeddings:
        raise CheckpointError(
            f"max_positions is {max_positions:,}; the weights have {config.max_position_embeddings:,} positions. "
            "Choose at least as many."
        )
    _check_size(longer, f"{max_positions:,} positions make", limits)
    return longer


def _read_tokenizer(files: Mapping[str, bytes], tokenizer_class: object, limits: Limits, notes: list[str]) -> Tokenizer:
    """tokenizer_class: that in config.json, for a folder whose tokenizer_config.json has none."""

    def read(name: str) -> Json:
        return parse_json(files[name], name) if name in files else {}

    check_special_tokens({"added_tokens_decoder": [*read(ADDED_TOKENS)]}, ADDED_TOKENS)
    check_special_tokens(read(SPECIAL_TOKENS_MAP), SPECIAL_TOKENS_MAP)
    settings = {"tokenizer_class": tokenizer_class, **read(TOKENIZER_CONFIG)}
    for name in (TOKENIZER, VOCABULARY):
        if name in files:
            return read_tokenizer(files[name], name, settings, limits, notes.append)
    raise CheckpointError(f"The folder has neither {TOKENIZER} nor {VOCABULARY}; add one of them.")


def _read_head(content: Json, notes: list[str]) -> TaskHead | None:
    """The output layer that a config describes, if it is one of a task."""
    architecture = next(iter(part(content, "architectures", list, [])), None)
    if architecture not in tuple(TASK_HEADS):  # a file may have something that is no text
        return None
    problem, is_classifier = content.get("problem_type"), architecture == "BertForSequenceClassification"
    is_regression = problem == "regression"
    if problem == "multi_label_classification" and is_classifier:
        raise CheckpointError(
            f"{CONFIG} describes a model that gives a text several labels, which this program does not support; choose "
            "one that gives it one label."
        )
    labels: tuple[str, ...] = ()
    if architecture in _WITH_LABELS and not is_regression:
        labels = _read_labels(content, notes)
        is_regression = len(labels) == 1 and is_classifier
    return TaskHead(architecture, () if is_regression else labels, is_regression)


def _read_labels(content: Json, notes: list[str]) -> tuple[str, ...]:
    """The names of the outputs, as many and as `transformers` finds them; each is made to occur once."""
    names, count = part(content, "id2label", dict, {}), content.get("num_labels")
    ids = part(content, "label2id", dict, {})
    by_id = {str(i): name for name, i in ids.items()}
    if by_id and content.get("id2label") is None and len(by_id) == len(ids):
        content = {**content, "id2label": by_id}
        names = by_id
        notes.append(f"{CONFIG} has no id2label; the names in label2id are used.")
    elif ids and names and by_id != {i: str(name) for i, name in names.items()}:
        notes.append(f"id2label and label2id of {CONFIG} give different names; those of id2label are used.")
    if count is not None and (type(count) is not int or count < 1):
        raise CheckpointError(f"{CONFIG} has num_labels {quoted(count)}; it must be a whole number from 1.")
    if count is None:
        count = len(names) or 2
    if count > MAX_OUTPUTS:
        raise CheckpointError(f"{CONFIG} has {count:,} labels; the limit is {MAX_OUTPUTS:,}.")
    if content.get("id2label") is None:
        return tuple(f"LABEL_{i}" for i in range(count))
    if {*names} != {str(i) for i in range(count)}:
        raise CheckpointError(f"{CONFIG} must have a name for each of its {count:,} outputs, from 0, in id2label.")
    unnamed = [i for i in range(count) if not isinstance(names[str(i)], str | int | float)]
    given = [f"LABEL_{i}" if i in unnamed else str(names[str(i)]) for i in range(count)]
    if unnamed:
        said = f"{CONFIG} has names of labels that are no texts; they are"
        notes.append(f"{said}: {first_three(given[i] for i in unnamed)}.")
    taken, seen, numbered = {*given}, Counter[str](), []
    for i, name in enumerate(given):
        seen[name] += 1
        if seen[name] > 1:
            while (label := f"{name} ({seen[name]})") in taken:
                seen[name] += 1
            given[i] = label
            taken.add(label)
            numbered.append(quoted(label))
    if numbered:
        notes.append(f"{CONFIG} has outputs with the same label; here they are numbered: {first_three(numbered)}.")
    return tuple(given)


def _fill(
    model: BertForPreTraining, stored: Mapping[str, Stored] | None, positions: int, notes: list[str], *, tied: bool
) -> frozenset[str]:
    """Load the weights into a model on the meta device and draw what the files lack; returns the missing parts.
    stored: None for random weights. positions: in the files."""
    config, generator = model.config, torch.Generator()
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    in_files = {**shapes, POSITIONS: (positions, config.hidden_size)}
    tensors, missing = dict[str, Tensor](), frozenset(PARTS)
    if stored is not None:
        tensors, missing = read_weights(stored, in_files, tied=tied, note=notes.append)
        if more := config.max_position_embeddings - positions:
            new = draw("new_positions", (more, config.hidden_size), config, generator.manual_seed(0))
            tensors[POSITIONS] = torch.cat([tensors[POSITIONS], new * config.use_position_embeddings])
    generator.manual_seed(0)
    for name, shape in shapes.items():
        if name not in tensors:
            tensors[name] = draw(name, shape, config, generator)
    model.load_state_dict(tensors, assign=True)
    return missing
