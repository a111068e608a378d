"""A training batch as text: which tokens were masked and how, and a model's answers to it.

Data are a function of seed and step, so the batch of any step can be drawn again at any time. A batch holds its IsNext
pairs before the others. The model does not see the order of rows, so views show both kinds interleaved.

Shapes: B pairs, T tokens, M asked positions of the batch, D hidden, V vocabulary.
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from torch import Tensor

from balcony.parts.notes import pair_labels
from balcony.server.probe_lock import probe_lock
from bert_core.config import DataConfig
from bert_core.data.batches import Batch, PretrainingBatches
from bert_core.data.encoding import IGNORED, IS_NEXT
from bert_core.data.tokenizer import CLS, MASK, PAD, SEP, special_ids
from bert_core.probes.forward import likeliest, scores_of
from bert_core.probes.reading import token_text
from bert_core.storage.checkpoint import Checkpoint

Kind = Literal["masked", "replaced", "kept", "untouched", "special", "padding"]

HINT = (
    "In this step the model was asked for some words of each pair, and whether B follows A. Every step draws new pairs "
    "and new words. The curve shows the [[loss]] before the update; these answers come after it, with dropout off."
)
PAIRING = (
    "In half of the pairs B is the sentence after A ([[IsNext]]); in the others it was drawn at random from elsewhere "
    "in the text, and never is the true next one ([[IsNext|NotNext]])."
)
WHY = "Why not always [MASK]? Later texts have none, so any visible word may be asked, or be the wrong one."


def text_value(
    batches: PretrainingBatches, data: DataConfig, checkpoint: Checkpoint, step: int, shown: slice
) -> dict[str, Any]:
    """The pairs `shown` of the batch of a step, counted from 1, and a model's answers, as the batch view shows them."""
    batch, label = batches.copy()[step - 1], pair_labels(checkpoint)[0]
    B, T = batch.input_ids.shape
    rows = judged_rows(batch, checkpoint, shown)
    frequent = token_text(checkpoint.tokenizer, int(np.bincount(batches.encoded.ids).argmax()))
    right = Counter(guess["label"] for row in rows for guess in row["guesses"].values())[frequent]
    return {
        "hints": [HINT, PAIRING] if label == "IsNext" else [HINT],
        "pairs": B,
        "length": T,
        "shapes": shapes(batch, checkpoint),
        "label": label,
        "rows": rows,
        "always": [frequent, right],
        "legend": legend(data),
        "why": WHY,
    }


def judged_rows(batch: Batch, checkpoint: Checkpoint, shown: slice = slice(None)) -> list[dict[str, Any]]:
    """The pairs `shown` of a batch, in the order of `interleaved`, and a model's answers without dropout: at each asked
    position its best guess and -ln of the true token's probability, and the probability that B follows A, None where
    that is not asked. number: a pair's row in the batch. The checkpoint must have the vocabulary of the batch."""
    order, tokenizer = interleaved(batch.next_sentence_label)[shown], checkpoint.tokenizer
    batch = Batch(*(getattr(batch, each.name)[order] for each in dataclasses.fields(Batch)))
    specials, rows = special_ids(tokenizer), list[dict[str, Any]]()
    tensors = batch.input_ids, batch.labels, batch.token_type_ids, batch.next_sentence_label, order
    for ids, labels, segments, label, number in zip(*(tensor.tolist() for tensor in tensors)):
        rows.append(
            {
                "tokens": [token_text(tokenizer, token) for token in ids],
                "ids": ids,
                "kinds": [_kind(token, true, specials) for token, true in zip(ids, labels)],
                "segments": segments,
                "number": number,
                "is_next": None if label == IGNORED else label == IS_NEXT,
            }
        )
    if not rows:
        return rows
    positions, true = batch.asked()  # (M,)
    inputs = batch.input_ids, batch.attention_mask, batch.token_type_ids
    with probe_lock:
        words, pairs = scores_of(checkpoint, inputs, positions)
    for row, likely in zip(rows, pairs.softmax(-1)[:, IS_NEXT].tolist()):
        row |= {"is_next_probability": likely, "guesses": {}}
    for at, label, scores in zip(positions.tolist(), true.tolist(), words):
        number, position = divmod(at, batch.labels.shape[1])
        [(token, probability)] = likeliest(checkpoint, scores, 1)
        said = {"label": token_text(tokenizer, label), "token": token, "probability": probability}
        said |= {"loss": -scores[label].item(), "is_right": token == said["label"]}
        rows[number]["guesses"][f"{position}"] = said
    return rows


def interleaved(next_sentence_label: Tensor) -> Tensor:
    """The rows of a batch, (B,), in an order that spreads IsNext and NotNext evenly over it, however many there are of
    each; each kind keeps its own order. next_sentence_label: (B,)."""
    alike = (next_sentence_label[:, None] == next_sentence_label).double()  # (B, B)
    middles = (alike.tril().sum(1) - 0.5) / alike.sum(1)  # (i - 1/2) / n for the i-th of n rows of a kind
    return middles.argsort(stable=True)


def shape_rows(tensors: Mapping[str, tuple[str, str]], sizes: Mapping[str, int]) -> list[list[str]]:
    """[name, shape in letters, sizes, what it has] of each tensor. tensors: by name, the letters of each, such as
    "B, T", and what it has. sizes: of each letter; what is no letter is a number."""
    rows = []
    for name, (letters, text) in tensors.items():
        each = letters.split(", ")
        size = " × ".join(f"{sizes[letter]:,}" if letter in sizes else letter for letter in each)
        rows.append([name, f"({letters},)" if len(each) == 1 else f"({letters})", size, text])
    return rows


def _kind(token: int, label: int, specials: dict[str, int]) -> Kind:
    if label != IGNORED:
        return "masked" if token == specials[MASK] else "kept" if token == label else "replaced"
    if token == specials[PAD]:
        return "padding"
    return "special" if token in (specials[CLS], specials[SEP]) else "untouched"


def shapes(batch: Batch, checkpoint: Checkpoint) -> list[list[str]]:
    """The tensors of the whole batch, from the tokens to the scores, see `shape_rows`."""
    config, (B, T), M = checkpoint.config, batch.input_ids.shape, len(batch.asked()[0])
    D, V = config.hidden_size, config.vocab_size
    read = "each pair's [CLS], the row b × T" if config.pooler == "first" else "the mean of each pair's vectors"
    found = {
        "input_ids": ("B, T", "the tokens of B pairs, each filled up to T"),
        "token_type_ids": ("B, T", "0 in A and 1 in B"),
        "attention_mask": ("B, T", "1 at tokens and 0 at padding"),
        "labels": ("B, T", "the true token where the model is asked, else -100"),
        "next_sentence_label": ("B", "0 for IsNext, 1 for NotNext and -100 where it is not asked"),
        "vectors": ("B·T, D", "the last layer's vectors of all pairs, one row below the other"),
        "asked positions": ("M", "the numbers of the asked rows among these, from 0"),
        "asked vectors": ("M, D", "only these rows: the other positions need no word scores"),
        "word scores": ("M, V", "a score for each token of the vocabulary; MLM's loss compares them with M labels"),
        "pair scores": ("B, 2", f"from {read}; NSP's loss compares them with B labels"),
    }
    return shape_rows(found, {"B": B, "T": T, "B·T": B * T, "D": D, "M": M, "V": V})


def legend(data: DataConfig) -> list[list[str]]:
    """[kind, explanation] each, with the fractions of this run; the asked words come first."""
    kept = 1 - data.mask_share - data.random_share
    return [
        ["masked", f"shown as [MASK] ({data.mask_share:.0%} of the asked words)"],
        ["replaced", f"shown as a random word ({data.random_share:.0%})"],
        ["kept", f"left unchanged but asked ({kept:.0%})"],
        ["untouched", "shown, and not asked"],
        ["special", "[CLS] begins a pair, and NSP reads its last vector; [SEP] ends A and B; never asked"],
        ["padding", "fills up shorter pairs; gets no attention and has no loss"],
    ]
