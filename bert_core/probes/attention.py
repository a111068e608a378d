"""Attention heads: their weights and patterns, averages, rollout, and what changes when heads are switched off.

Shapes: L layers, H heads, T tokens, D hidden size, d = D / H, B rows of a pass. Row i of a weight matrix (T, T) is how
much token i attends to each token."""

import dataclasses
import functools
import math
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from bert_core.data.batches import Batch
from bert_core.data.tokenizer import CLS, MASK, PAD, SEP, token_id
from bert_core.errors import InputError
from bert_core.model import BertSelfAttention
from bert_core.probes.forward import hidden_states, numbers_of, pair_scores, scores_of, word_scores
from bert_core.probes.reading import encode_text, masked_row, row_of, token_text
from bert_core.probes.stages import Heads, without_heads
from bert_core.storage.checkpoint import Checkpoint

TARGETS = ("next", "previous", "same", "cls", "sep", "other")  # of a head: words, [CLS], [SEP] or the other sentence
NAMED_FROM = 0.4  # fraction of the way from uniform attention to all of it on one target
RANDOM_HEADS = 300  # a random head exceeds all of them on a target once in 301 times, on one of six in 2 %
SPECIAL = (CLS, SEP, PAD)
_WEIGHTS_AT_ONCE = 2**24  # limit of the random heads that are drawn together


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


def head_facts(maps: AttentionMaps) -> dict[str, Tensor]:
    """How much each head attends to each kind of target in one input, (L, H) each; nan if no token has the target.

    "entropy", in nats, and the weights on "cls" and "sep" are means over all tokens. The other TARGETS are means over
    the words that have them: a next or previous word, the same word anywhere (itself included), another sentence."""
    weights = maps.weights.double()
    facts = {"entropy": torch.special.entr(weights).sum(-1).mean(-1)}
    for name, target in _targets(maps).items():
        facts[name] = weights.flatten(-2) @ (target.double() / target.any(1).sum()).flatten()
    return facts


def above_chance(maps: AttentionMaps) -> Tensor:
    """How far each head's weight on each of TARGETS is from that of uniform attention, 0, to 1, (targets, L, H); -1 if
    no token has the target."""
    facts, ways = head_facts(maps), []
    for name, target in _targets(maps).items():
        chance = target[target.any(1)].double().mean()
        ways.append((facts[name] - chance) / (1 - chance).clamp(min=1e-9))
    return torch.stack(ways).nan_to_num(-1)


def _targets(maps: AttentionMaps) -> dict[str, Tensor]:
    """Whether a row has each of TARGETS in a column, (T, T) each."""
    tokens, segments = np.array(maps.tokens), np.array(maps.token_type_ids)
    T, is_word = len(tokens), ~np.isin(tokens, SPECIAL)
    words = is_word[:, None] & is_word
    there = {
        "next": words & np.eye(T, k=1, dtype=bool),
        "previous": words & np.eye(T, k=-1, dtype=bool),
        "same": words & (tokens[:, None] == tokens),
        "cls": np.tile(tokens == CLS, (T, 1)),
        "sep": np.tile(tokens == SEP, (T, 1)),
        "other": words & (segments[:, None] != segments),
    }
    return {name: torch.from_numpy(each) for name, each in there.items()}


@dataclass(frozen=True)
class HeadPatterns:
    """above: how far each head's weight on each of TARGETS is above chance, (targets, L, H), see `above_chance`.
    limits: what it must exceed for the head to have the pattern, (targets, L), inf in layers that were left out."""

    above: Tensor
    limits: Tensor

    @property
    def held(self) -> Tensor:
        """Whether each head has each pattern, (targets, L, H)."""
        return self.above > self.limits[..., None]


def head_patterns(
    checkpoint: Checkpoint, text: str, text_pair: str | None = None, *, layers: range | None = None
) -> HeadPatterns:
    """Which of TARGETS each head clearly attends to in one input.

    The limit of a layer is NAMED_FROM of the way from chance to 1, or what the best of RANDOM_HEADS heads with random
    weights of the same size reaches, if that is more. In a model with random weights, at most 2 % of the heads have a
    pattern. layers: numbers from 0 of those that are looked at. Raises InputError for an empty or too long input."""
    maps, blocks = attention(checkpoint, text, text_pair), checkpoint.model.bert.encoder.layer
    states = hidden_states(checkpoint, encode_text(checkpoint, text, text_pair)).double()
    at_once = max(1, _WEIGHTS_AT_ONCE // len(maps.tokens) ** 2)
    limits = torch.full((len(TARGETS), len(blocks)), math.inf, dtype=torch.float64)
    for number in range(len(blocks)) if layers is None else layers:
        generator, limits[:, number] = torch.Generator().manual_seed(number), NAMED_FROM
        for first in range(0, RANDOM_HEADS, at_once):
            heads = min(at_once, RANDOM_HEADS - first)
            random = _random_heads(blocks[number].attention.self, states[number], heads, generator)
            best = above_chance(dataclasses.replace(maps, weights=random[None])).amax((1, 2))
            limits[:, number] = limits[:, number].maximum(best)
    return HeadPatterns(above_chance(maps), limits)


def head_names(
    checkpoint: Checkpoint, text: str, text_pair: str | None = None, *, layers: range | None = None
) -> list[list[str]]:
    """L lists of H names: the one of its patterns that is furthest above chance, one of TARGETS, or "" for a head that
    has none. Arguments and errors are those of `head_patterns`."""
    found = head_patterns(checkpoint, text, text_pair, layers=layers)
    best, which = found.above.where(found.held, -1).max(0)  # (L, H)
    return [[TARGETS[i] if way > 0 else "" for way, i in zip(*heads)] for heads in zip(best.tolist(), which.tolist())]


def rollout(weights: Tensor) -> Tensor:
    """Attention multiplied through the layers up to each one, (L, T, T); rows sum to 1.

    Each layer's matrix is 0.5 A + 0.5 I, where A is the mean over heads: half of its input passes by its attention
    through the residual connection (Abnar & Zuidema 2020, section 3)."""
    mixed = 0.5 * weights.mean(1, dtype=torch.float64) + 0.5 * torch.eye(weights.shape[-1], dtype=torch.float64)
    mixed = mixed / mixed.sum(-1, keepdim=True)
    return torch.stack(list(accumulate(mixed, lambda below, layer: layer @ below))).float()


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
    off: Heads = (),
    position: int | None = None,
    answer: str = "",
    batch: Batch | None = None,
) -> tuple[str, dict[str, float]]:
    """What a model answers with the heads `off` switched off: a token, and those of these numbers that are asked for
    and for which the model has an output layer:

    "word": the token's probability at a masked position, that of a word, where [CLS] is 0. The token is `answer`; "" is
        the text's own or, at a [MASK] in the text, the best guess.
    "is_next": P(IsNext), of two sentences.
    "loss": the MLM loss on a batch of training, in nats.

    Raises InputError as `attention` does, for a head that is missing, and for a position that is not a word's."""
    encoding, found = encode_text(checkpoint, text, text_pair), dict[str, float]()
    checkpoint = without_heads(checkpoint, off) if off else checkpoint
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
    ask = functools.partial(answers, checkpoint, text, text_pair, position=position, batch=batch)
    answer, intact = ask()
    alone = [ask(off=[(layer, head)], answer=answer)[1] for layer in range(L) for head in range(H)]
    changes = {name: torch.tensor([each[name] - number for each in alone]) for name, number in intact.items()}
    return Ablation(answer, intact, {name: change.view(L, H) for name, change in changes.items()})


@torch.no_grad()
def _random_heads(attention: BertSelfAttention, inputs: Tensor, heads: int, generator: torch.Generator) -> Tensor:
    """Attention weights (heads, T, T) of heads with normal query and key weights of the layer's root mean squares."""
    projected, D = [], inputs.shape[1]
    for project in (attention.query, attention.key):
        # Of the unit vectors and of zero, which tell the weights of a layer with an adapter, too.
        images = project(torch.eye(D + 1, D, device=next(project.parameters()).device)).cpu().double()
        weight, bias = (each.square().mean().sqrt() for each in (images[:-1] - images[-1], images[-1]))
        scaled = torch.cat([inputs * weight, bias.expand(len(inputs), 1)], 1)  # (T, D + 1)
        # With scaled^T = Q R, scaled scaled^T is R^T R: R^T times normal numbers is distributed as scaled times them.
        root = torch.linalg.qr(scaled.T, mode="r").R.T.float()
        size = D // attention.num_heads
        projected.append(root @ torch.randn(heads, root.shape[1], size, generator=generator))
    query, key = projected
    return (query @ key.transpose(1, 2) / math.sqrt(size)).softmax(-1)
