"""Forward passes of all probes, from rows of tokens to plain tensors, without random numbers.

Shapes: B rows of a pass, T tokens, M asked positions, V tokens of the vocabulary, L layers, H heads, D hidden size.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from tokenizers import Encoding
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from bert_core.costs import probe_seconds, threads_for_pass
from bert_core.data.encoding import IS_NEXT
from bert_core.errors import InputError
from bert_core.probes.reading import Row, row_of, token_text
from bert_core.storage.checkpoint import PART_TITLES, Checkpoint

Guess = tuple[str, float]  # a token and its probability
Inputs = tuple[Tensor, Tensor, Tensor]  # ids, mask and segments, (B, T) each

_NO_POSITIONS = torch.empty(0, dtype=torch.long)  # for a pass without word scores
_ROWS = 256  # limit of one forward pass
_NUMBERS = 2**24  # limit of one tensor in a pass of several rows: 64 MiB in float32
MOST_WEIGHTS = 2**26  # of attention in one pass: 256 MiB in float32
_watch: ContextVar[Callable[[float], None]] = ContextVar("watch", default=lambda seconds: None)


@contextmanager
def passes_watched_by(watch: Callable[[float], None]) -> Iterator[None]:
    """Call `watch` before the first of several forward passes with the estimated seconds of all, and before each pass
    with its own, so that it can raise."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


def require(checkpoint: Checkpoint, *heads: str) -> None:
    """Raise InputError when the model's files lack one of these output heads, "mlm" or "nsp"."""
    for head in heads:
        if head in checkpoint.missing:
            raise InputError(f"This model came without a {PART_TITLES[head]}; choose another model.")


def word_scores(
    checkpoint: Checkpoint, rows: Sequence[Row], positions: Sequence[Sequence[int]]
) -> Iterator[tuple[int, Tensor]]:
    """Yield each row's number and the log-probabilities of all tokens at its asked positions, (M, V) on the CPU.

    Short rows come first. positions: the asked positions of each row.
    """
    for group, inputs in batches(checkpoint, rows):
        T = inputs[0].shape[1]
        asked = [row * T + position for row, number in enumerate(group) for position in positions[number]]
        words, _ = logits(checkpoint, inputs, torch.tensor(asked, dtype=torch.long))
        scores = log_probabilities(checkpoint, words).cpu()
        yield from zip(group, scores.split([len(positions[number]) for number in group]))


def pair_scores(checkpoint: Checkpoint, rows: Sequence[Row]) -> Tensor:
    """P(IsNext) of each row, (rows,) on the CPU."""
    scores = torch.empty(len(rows))
    for group, inputs in batches(checkpoint, rows):
        _, pairs = logits(checkpoint, inputs)
        scores[group] = pairs.softmax(-1)[:, IS_NEXT].cpu()
    return scores


def hidden_states(checkpoint: Checkpoint, encoding: Encoding) -> Tensor:
    """Every layer's hidden states for one input, (L + 1, T, D) float32 on the model's device, the embeddings first."""
    inputs = padded(checkpoint, [row_of(encoding)])
    return torch.cat(_forward(checkpoint, inputs, 0, _NO_POSITIONS, output_hidden_states=True).hidden_states).float()


def attention_weights(checkpoint: Checkpoint, encoding: Encoding) -> Tensor:
    """Every head's attention weights for one input, (L, H, T, T) float32 on the CPU."""
    inputs, layers = padded(checkpoint, [row_of(encoding)]), checkpoint.config.num_hidden_layers
    output = _forward(checkpoint, inputs, layers, _NO_POSITIONS, output_attentions=True)
    return torch.cat(output.attentions).float().cpu()


def logits(
    checkpoint: Checkpoint, inputs: Inputs, positions: Tensor = _NO_POSITIONS, head_scale: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Logits of the words, (M, embedding rows), and of the pairs, (B, 2), float32 on the model's device.

    positions: (M,) asked positions among all B * T. head_scale: see `BertModel.forward`.
    """
    output = _forward(checkpoint, inputs, int(head_scale is not None), positions, head_scale=head_scale)
    return output.prediction_logits.float(), output.seq_relationship_logits.float()


def _forward(checkpoint: Checkpoint, inputs: Inputs, layers: int, positions: Tensor, **options: object) -> Any:
    """The `BertOutput` of one forward pass. layers: whose attention weights are held at once. positions: the asked
    ones. options: more for `BertModel.forward`."""
    ids, mask, segments = (each.to(checkpoint.model.device) for each in inputs)
    with forward_pass(checkpoint, ids, len(positions), layers):
        # Without padding, attention needs no mask.
        return checkpoint.model(ids, None if bool(mask.all()) else mask, segments, asked_positions=positions, **options)


def log_probabilities(checkpoint: Checkpoint, logits: Tensor) -> Tensor:
    """Log-probabilities of the tokens, (..., V); the embedding may have more rows than the vocabulary has tokens."""
    return logits.log_softmax(-1)[..., : checkpoint.tokenizer.get_vocab_size()]


def likeliest(checkpoint: Checkpoint, scores: Tensor, top_k: int) -> tuple[Guess, ...]:
    """The likeliest tokens, the best first. scores: (V,) log-probabilities. Raises InputError for a top_k below 1."""
    if top_k < 1:
        raise InputError(f"top_k is {top_k}; ask for at least 1 guess.")
    best = scores.topk(min(top_k, len(scores)))
    tokens = [token_text(checkpoint.tokenizer, number) for number in best.indices.tolist()]
    return tuple(zip(tokens, best.values.exp().tolist()))


def batches(checkpoint: Checkpoint, rows: Sequence[Row]) -> Iterator[tuple[list[int], Inputs]]:
    """Yield groups of rows for one forward pass each: the numbers of the rows, and the rows padded to the longest.

    Short rows come first, so that groups need little padding; the limits of a group bound the memory of its pass.
    """
    config, groups = checkpoint.config, list[list[int]]()
    for number in sorted(range(len(rows)), key=lambda number: len(rows[number][0])):
        T = len(rows[number][0])
        widest = max(config.intermediate_size, 3 * config.hidden_size, config.num_attention_heads * T)
        numbers = max(T * widest, config.vocab_size)  # a row's largest tensor, or its word scores
        if not groups or len(groups[-1]) == _ROWS or (len(groups[-1]) + 1) * numbers > _NUMBERS:
            groups.append([])
        groups[-1].append(number)
    tokens = sum(len(rows[group[-1]][0]) * len(group) for group in groups)
    _watch.get()(probe_seconds(config, len(rows), tokens, len(rows), str(checkpoint.model.device)))
    for group in groups:
        yield group, padded(checkpoint, [rows[number] for number in group])


def padded(checkpoint: Checkpoint, rows: Sequence[Row]) -> Inputs:
    """Rows as the inputs of a forward pass, padded to the longest."""

    def pad(lists: Iterable[list[int]], value: int) -> Tensor:
        return pad_sequence([torch.tensor(each) for each in lists], True, value).to(checkpoint.model.device)

    ids, segments = zip(*rows)
    return pad(ids, checkpoint.config.pad_token_id), pad(([1] * len(each) for each in ids), 0), pad(segments, 0)


@contextmanager
def forward_pass(checkpoint: Checkpoint, ids: Tensor, scored: int, layers: int) -> Iterator[None]:
    """Everything around a forward pass: its limit, its estimated seconds for whoever watches, its threads.

    ids: (B, T). scored: number of positions at which words are scored. layers: number of layers whose attention weights
    are held at once. Raises InputError for too many weights.
    """
    (rows, T), config = ids.shape, checkpoint.config
    weights = rows * layers * config.num_attention_heads * T * T
    if weights > MOST_WEIGHTS:
        longest = int(T * (MOST_WEIGHTS / weights) ** 0.5)
        raise InputError(
            f"Attention over {T} tokens has {weights / 1e6:,.0f} million weights in this model; the limit is "
            f"{MOST_WEIGHTS / 1e6:.0f} million. Shorten the text to {longest} tokens."
        )
    _watch.get()(probe_seconds(config, rows, rows * T, scored, str(checkpoint.model.device)))
    with torch.inference_mode(), threads_for_pass(config, ids.numel()):
        yield
