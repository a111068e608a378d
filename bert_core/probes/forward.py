"""Forward passes of all probes, from rows of tokens to plain tensors, without random numbers.

Shapes: B rows of a pass, T tokens, M asked positions, V tokens of the vocabulary, L layers, H heads, D hidden size."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from fnmatch import fnmatchcase
from typing import TypeVar

import torch
from tokenizers import Encoding
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from bert_core.data.encoding import IS_NEXT
from bert_core.device import Cost, using_threads
from bert_core.errors import InputError, ignore
from bert_core.model import PretrainingOutput, Watch, seen
from bert_core.probes.reading import Row, row_of, token_text
from bert_core.storage.checkpoint import PART_TITLES, Checkpoint

Guess = tuple[str, float]  # a token and its probability
Inputs = tuple[Tensor, Tensor, Tensor]  # ids, mask and segments, (B, T) each
Numbers = dict[str, Tensor]
Result = TypeVar("Result")

STATES = ("hook_full_embed", "*.hook_normalized_resid_post")  # names of the hidden states
_NOWHERE = torch.empty(0, dtype=torch.long)  # for a pass without word scores
_ROWS = 256  # limit of one forward pass
_NUMBERS = 2**24  # limit of one tensor in a pass of several rows: 64 MiB in float32
MOST_WEIGHTS = 2**26  # of attention in one pass: 256 MiB in float32
# Called with its `Cost` before each pass, and before several with that of all, so that whoever waits for an answer can
# raise an error instead.
before_passes: ContextVar[Callable[[Cost], None]] = ContextVar("before_passes", default=ignore)


def require(checkpoint: Checkpoint, *heads: str) -> None:
    """Raise InputError when the model's files lack one of these output heads, "mlm" or "nsp"."""
    for head in heads:
        if head in checkpoint.missing:
            raise InputError(f"This model came without a {PART_TITLES[head]}; choose another model.")


def run(
    checkpoint: Checkpoint,
    inputs: Inputs,
    positions: Tensor | None = _NOWHERE,
    watch: Watch | None = None,
    *,
    differentiable: bool = False,
) -> PretrainingOutput:
    """One pass. positions: (M,) where words are scored, among all B * T; None for all. watch: see `BertModel.forward`;
    it comes after the checkpoint's own. differentiable: by what the watch puts in."""
    ids, mask, segments = (each.to(checkpoint.model.device) for each in inputs)
    B, T = ids.shape
    scored = B * T if positions is None else len(positions)
    cost = pass_cost(checkpoint, torch.full((B,), T), scored, is_step=differentiable)
    before_passes.get()(cost)
    attended = None if bool(mask.all()) else mask  # without padding, attention needs no mask
    watch = both(checkpoint.watch, watch)
    with using_threads(cost.threads), torch.set_grad_enabled(differentiable):
        return checkpoint.model(ids, attended, segments, watch=watch, asked_positions=positions)


def numbers_of(checkpoint: Checkpoint, row: Row, names: Sequence[str], change: Watch | None = None) -> Numbers:
    """The named numbers of a pass over one row, in their order and without a batch dimension, float32 on the CPU.

    names: those of `BertModel.forward`, "logits" (T, V) and "nsp_logits" (2,); * stands for any characters. change: is
    given each number first, and returns what takes its place. Raises InputError for attention of too many weights."""

    def is_wanted(name: str) -> bool:
        return any(fnmatchcase(name, wanted) for wanted in names)

    T, config, found = len(row[0]), checkpoint.config, Numbers()
    held = sum(is_wanted(f"blocks.{layer}.attn.hook_pattern") for layer in range(config.num_hidden_layers))
    weights = max(1, held) * config.num_attention_heads * T * T
    if weights > MOST_WEIGHTS:
        raise InputError(
            f"Attention over {T} tokens has {weights / 1e6:,.0f} million weights in this model; the limit is "
            f"{MOST_WEIGHTS / 1e6:.0f} million. Shorten the text to {int(T * (MOST_WEIGHTS / weights) ** 0.5)} tokens."
        )

    def keep(name: str, number: Tensor) -> Tensor:
        number = seen(change, name, number)
        if is_wanted(name):
            found[name] = number
        return number

    inputs = padded(checkpoint, [row])
    output = run(checkpoint, inputs, None if is_wanted("logits") else _NOWHERE, keep)
    keep("logits", output.prediction_logits[..., : checkpoint.tokenizer.get_vocab_size()])
    keep("nsp_logits", output.seq_relationship_logits)
    return {name: number[0].float().cpu() for name, number in found.items()}


def hidden_states(checkpoint: Checkpoint, encoding: Encoding) -> Tensor:
    """Every layer's hidden states for one input, (L + 1, T, D), the embeddings first."""
    return torch.stack([*numbers_of(checkpoint, row_of(encoding), STATES).values()])


def scores_of(checkpoint: Checkpoint, inputs: Inputs, positions: Tensor = _NOWHERE) -> tuple[Tensor, Tensor]:
    """Log-probabilities of the tokens, (M, V), and logits of the pairs, (B, 2), float32 on the CPU; see `run`."""
    output = run(checkpoint, inputs, positions)
    return log_probabilities(checkpoint, output.prediction_logits).cpu(), output.seq_relationship_logits.float().cpu()


def word_scores(
    checkpoint: Checkpoint,
    rows: Sequence[Row],
    positions: Sequence[Sequence[int]],
    read: Callable[[int, Tensor], Result],
) -> list[Result]:
    """What `read` makes of each row: of its number, and of the log-probabilities of all tokens at its asked positions,
    (M, V) on the CPU. They are given one row after another, since all together may need much memory."""
    found: dict[int, Result] = {}
    for group, inputs in batches(checkpoint, rows):
        T = inputs[0].shape[1]
        asked = [row * T + position for row, number in enumerate(group) for position in positions[number]]
        words, _ = scores_of(checkpoint, inputs, torch.tensor(asked, dtype=torch.long))
        for number, own in zip(group, words.split([len(positions[number]) for number in group])):
            found[number] = read(number, own)
    return [found[number] for number in range(len(rows))]


def pair_scores(checkpoint: Checkpoint, rows: Sequence[Row]) -> Tensor:
    """P(IsNext) of each row, (rows,) on the CPU."""
    found = torch.empty(len(rows))
    for group, inputs in batches(checkpoint, rows):
        found[group] = scores_of(checkpoint, inputs)[1].softmax(-1)[:, IS_NEXT]
    return found


def gradient(
    checkpoint: Checkpoint, row: Row, vectors: Tensor, positions: Sequence[int], ids: Sequence[int]
) -> tuple[float, Tensor]:
    """The log-probability of tokens at positions, summed, and its gradient by the word vectors, (T, D) on the CPU, in a
    pass over a row in which these are `vectors`. The weights get no gradient."""
    words = vectors.to(checkpoint.model.device).requires_grad_()

    def put(name: str, number: Tensor) -> Tensor:
        return words[None] if name == "embed.hook_embed" else number

    output = run(checkpoint, padded(checkpoint, [row]), torch.tensor(positions), put, differentiable=True)
    with torch.enable_grad():
        scores = log_probabilities(checkpoint, output.prediction_logits)  # (positions, V)
        value = scores[range(len(ids)), list(ids)].sum()
        return value.item(), torch.autograd.grad(value, words)[0].float().cpu()


def log_probabilities(checkpoint: Checkpoint, logits: Tensor) -> Tensor:
    """Log-probabilities of the tokens, (..., V); the embedding may have more rows than the vocabulary has tokens."""
    return logits.float().log_softmax(-1)[..., : checkpoint.tokenizer.get_vocab_size()]


def likeliest(checkpoint: Checkpoint, scores: Tensor, top_k: int) -> tuple[Guess, ...]:
    """The likeliest tokens of log-probabilities (V,), the best first. Raises InputError for a top_k below 1."""
    if top_k < 1:
        raise InputError(f"top_k is {top_k}; ask for at least 1 guess.")
    best = scores.topk(min(top_k, len(scores)))
    tokens = [token_text(checkpoint.tokenizer, number) for number in best.indices.tolist()]
    return tuple(zip(tokens, best.values.exp().tolist()))


def batches(checkpoint: Checkpoint, rows: Sequence[Row]) -> Iterator[tuple[list[int], Inputs]]:
    """The numbers of the rows of each pass, and these rows padded to the longest. Short rows come first, so that there
    is little padding; the longest one limits how many a pass has, and so its memory."""
    config, lengths = checkpoint.config, [len(ids) for ids, _ in rows]
    order, T = sorted(range(len(rows)), key=lengths.__getitem__), max(lengths, default=1)
    widest = max(config.intermediate_size, 3 * config.hidden_size, config.num_attention_heads * T)
    numbers = max(T * widest, config.vocab_size)  # a row's largest tensor, or its word scores
    size = max(1, min(_ROWS, _NUMBERS // numbers))
    before_passes.get()(pass_cost(checkpoint, torch.tensor(lengths), len(lengths)))
    for start in range(0, len(rows), size):
        group = order[start : start + size]
        yield group, padded(checkpoint, [rows[number] for number in group])


def padded(checkpoint: Checkpoint, rows: Sequence[Row]) -> Inputs:
    def pad(lists: Iterable[list[int]], value: int) -> Tensor:
        return pad_sequence([torch.tensor(each) for each in lists], True, value).to(checkpoint.model.device)

    ids, segments = zip(*rows)
    return pad(ids, checkpoint.config.pad_token_id), pad(([1] * len(each) for each in ids), 0), pad(segments, 0)


def both(first: Watch | None, second: Watch | None) -> Watch | None:
    """A watch that gives each number to the first, and what that returns to the second."""
    if first is None or second is None:
        return first or second
    return lambda name, number: second(name, first(name, number))


def pass_cost(checkpoint: Checkpoint, lengths: Tensor, scored: int, *, is_step: bool = False) -> Cost:
    """What passes over rows of these lengths (B,) take; scored: positions with word scores."""
    return Cost(checkpoint.config, lengths, scored, str(checkpoint.model.device), is_step=is_step)
