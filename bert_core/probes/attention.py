"""Attention heads: their weights, rollout, and what changes when heads are switched off.

Shapes: L layers, H heads, T tokens. Row i of a weight matrix (T, T) is how much token i attends to each token."""

import functools
import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from bert_core.data.batches import Batch
from bert_core.data.tokenizer import CLS, MASK, PAD, SEP, token_id
from bert_core.errors import InputError
from bert_core.probes.forward import numbers_of, pair_scores, scores_of, word_scores
from bert_core.probes.reading import encode_text, masked_row, row_of, token_text
from bert_core.probes.stages import without_heads
from bert_core.storage.checkpoint import Checkpoint

SPECIAL = (CLS, SEP, PAD)


@dataclass(frozen=True)
class AttentionMaps:
    """tokens: (T,) as the model reads them. token_type_ids: (T,). weights: (L, H, T, T) float32 on the CPU."""

    tokens: list[str]
    token_type_ids: list[int]
    weights: Tensor


@dataclass(frozen=True)
class Ablation:
    """A model's answers when one head at a time is switched off; see `answers`."""

    answer: str
    intact: dict[str, float]  # with all heads
    changes: dict[str, Tensor]  # (L, H) each


def attention(checkpoint: Checkpoint, text: str, text_pair: str | None = None) -> AttentionMaps:
    """Every head's attention weights for one or two sentences. Raises InputError for an empty or too long input."""
    encoding = encode_text(checkpoint, text, text_pair)
    weights = numbers_of(checkpoint, row_of(encoding), ["*.hook_pattern"])
    return AttentionMaps(encoding.tokens, encoding.type_ids, torch.stack([*weights.values()]))


def rollout(weights: Tensor) -> Tensor:
    """Attention multiplied through the layers up to each one, (L, T, T); rows sum to 1.

    Each layer's matrix is 0.5 A + 0.5 I, where A is the mean over heads: half of its input passes by its attention
    through the residual connection (Abnar & Zuidema 2020, section 3)."""
    mixed = 0.5 * weights.mean(1, dtype=torch.float64) + 0.5 * torch.eye(weights.shape[-1], dtype=torch.float64)
    mixed = mixed / mixed.sum(-1, keepdim=True)
    return torch.stack(list(itertools.accumulate(mixed, lambda below, layer: layer @ below))).float()


def without_special(maps: AttentionMaps) -> AttentionMaps:
    """The maps without [CLS], [SEP] and [PAD]. Each row is scaled to sum to 1; one without any weight becomes uniform.

    Raises InputError when no token is left."""
    shown = [i for i, token in enumerate(maps.tokens) if token not in SPECIAL]
    if not shown:
        raise InputError("There is no word in this text; type a sentence.")
    weights = maps.weights[..., shown, :][..., shown].double()
    total = weights.sum(-1, keepdim=True)
    weights = torch.where(total > 0, weights / total, 1 / len(shown))
    return AttentionMaps([maps.tokens[i] for i in shown], [maps.token_type_ids[i] for i in shown], weights.float())


def answers(
    checkpoint: Checkpoint,
    text: str,
    text_pair: str | None = None,
    *,
    position: int | None = None,
    answer: str = "",
    batch: Batch | None = None,
) -> tuple[str, dict[str, float]]:
    """A token, and those of these numbers that are asked for and for which the model has an output layer:

    "word": the token's probability at a masked position, that of a word, where [CLS] is 0. The token is `answer`; "" is
        the text's own or, at a [MASK] in the text, the best guess.
    "is_next": P(IsNext), of two sentences.
    "loss": the MLM loss on a batch of training, in nats.

    Raises InputError as `attention` does, and for a position that is not a word's."""
    encoding, found = encode_text(checkpoint, text, text_pair), dict[str, float]()
    if position is not None and "mlm" not in checkpoint.missing:
        if not 0 <= position < len(encoding) or encoding.tokens[position] in SPECIAL:
            raise InputError(f"Token {position} is not a word of this text; choose one of its words.")
        row = masked_row(checkpoint, row_of(encoding), position, position + 1)
        [scores] = word_scores(checkpoint, [row], [[position]], lambda _, scores: scores[0])
        own = encoding.ids[position] if encoding.tokens[position] != MASK else int(scores.argmax())
        answer = answer or token_text(checkpoint.tokenizer, own)
        found["word"] = scores[token_id(checkpoint.tokenizer, answer)].exp().item()
    if text_pair and "nsp" not in checkpoint.missing:
        found["is_next"] = pair_scores(checkpoint, [row_of(encoding)]).item()
    if batch is not None and "mlm" not in checkpoint.missing:
        asked, labels = batch.asked()
        words, _ = scores_of(checkpoint, (batch.input_ids, batch.attention_mask, batch.token_type_ids), asked)
        found["loss"] = -words.gather(1, labels[:, None]).mean().item()
    return answer, found


def ablation_map(
    checkpoint: Checkpoint,
    text: str,
    text_pair: str | None = None,
    *,
    position: int | None = None,
    batch: Batch | None = None,
) -> Ablation:
    """How the answers change when one head at a time is switched off. Arguments and errors are those of `answers`."""
    L, H = checkpoint.config.num_hidden_layers, checkpoint.config.num_attention_heads
    ask = functools.partial(answers, text=text, text_pair=text_pair, position=position, batch=batch)
    answer, intact = ask(checkpoint)
    heads = itertools.product(range(L), range(H))
    alone = [ask(without_heads(checkpoint, [head]), answer=answer)[1] for head in heads]
    changes = {name: torch.tensor([each[name] - number for each in alone]) for name, number in intact.items()}
    return Ablation(answer, intact, {name: change.view(L, H) for name, change in changes.items()})
