"""Attention heads: their weights and patterns, averages, rollout, and what changes when heads are switched off.

Shapes: L layers, H heads, T tokens, V vocabulary, N settings of the heads, each a `head_scale` of `BertModel.forward`,
B rows of a pass, M asked positions. Row i of a weight matrix (T, T) is how much token i attends to each token.
"""

import copy
import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor, nn

from bert_core.config import DataConfig
from bert_core.data.batches import Batch, PretrainingBatches
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import IS_NEXT, encode_corpus
from bert_core.data.tokenizer import CLS, MASK, PAD, SEP
from bert_core.errors import InputError
from bert_core.model import BertSelfAttention
from bert_core.probes.forward import Inputs, attention_weights, hidden_states, log_probabilities, logits, padded
from bert_core.probes.reading import encode_text, masked_row, row_of, token_text
from bert_core.storage.checkpoint import Checkpoint

_Reduce = Callable[[Tensor, Tensor], Tensor]

_TARGETS = {
    "next": "the next word",
    "previous": "the previous word",
    "same": "the same word",
    "cls": "[CLS]",
    "sep": "[SEP]",
    "other": "the other sentence",
}
FACTS = {"entropy": "Entropy (nats)"} | {key: f"Weight on {target}" for key, target in _TARGETS.items()}
PATTERNS = {key: f"attends to {target}" for key, target in _TARGETS.items()}
NAMED_FROM = 0.4  # fraction of the way from uniform attention to all of it on one target
RANDOM_HEADS = 300  # a random head exceeds all of them on a target once in 301 times, on one of six in 2 %
SPECIAL = (CLS, SEP, PAD)
_TOKENS_AT_ONCE = 8192  # limit of one forward pass
_WEIGHTS_AT_ONCE = 2**24  # limit of the random heads that are drawn together


@dataclass(frozen=True)
class AttentionMaps:
    """tokens: (T,) as the model reads them. token_type_ids: (T,). weights: (L, H, T, T) float32 on the CPU."""

    tokens: list[str]
    token_type_ids: list[int]
    weights: Tensor


@dataclass(frozen=True)
class HeadFacts:
    """facts: each of FACTS, (L, H); nan if no token has such a target. chance: those of a uniform head."""

    facts: dict[str, Tensor]
    chance: dict[str, float]

    @property
    def above_chance(self) -> Tensor:
        """How far each weight of PATTERNS is from chance, 0, to 1, (targets, L, H); -1 if no token has the target."""
        ways = [(self.facts[name] - self.chance[name]) / max(1 - self.chance[name], 1e-9) for name in _TARGETS]
        return torch.stack(ways).nan_to_num(-1)


@dataclass(frozen=True)
class Answers:
    """A model's answers under N settings of its heads, each (N,) float32 on the CPU; None for those not requested."""

    word: Tensor | None = None  # probability of the token `answer` at the masked position
    answer: str = ""
    is_next: Tensor | None = None  # P(IsNext) of the pair
    loss: Tensor | None = None  # MLM loss on a batch, in nats


@dataclass(frozen=True)
class Ablation(Answers):
    """The changes of the answers when only one head is switched off, (L, H) each. intact: with all heads on, N = 1."""

    intact: Answers = Answers()


def attention(checkpoint: Checkpoint, text: str, text_pair: str | None = None) -> AttentionMaps:
    """Every head's attention weights for one or two sentences. Raises InputError for an empty or too long input."""
    encoding = encode_text(checkpoint, text, text_pair)
    return AttentionMaps(encoding.tokens, encoding.type_ids, attention_weights(checkpoint, encoding))


def head_facts(maps: AttentionMaps) -> HeadFacts:
    """How much each head attends to each kind of target in one input.

    Entropy and the weights on [CLS] and [SEP] are means over all tokens. The others are means over the words that have
    the target: a next or previous word, the same word anywhere (itself included), another sentence.
    """
    weights, T = maps.weights.double(), len(maps.tokens)
    special, cls, sep = (torch.tensor([token in kind for token in maps.tokens]) for kind in (SPECIAL, (CLS,), (SEP,)))
    segments = torch.tensor(maps.token_type_ids)
    kinds = torch.tensor([maps.tokens.index(token) for token in maps.tokens])
    both_words = ~special[:, None] & ~special
    offsets = torch.arange(T) - torch.arange(T)[:, None]
    targets = {  # (T, T), whether a row has the target in a column
        "next": both_words & (offsets == 1),
        "previous": both_words & (offsets == -1),
        "same": both_words & (kinds[:, None] == kinds),
        "cls": cls.expand(T, T),
        "sep": sep.expand(T, T),
        "other": both_words & (segments[:, None] != segments),
    }
    facts = {"entropy": torch.special.entr(weights).sum(-1).mean(-1)}
    chance = {"entropy": torch.tensor(float(T)).log().item()}
    for name, target in targets.items():
        rows = target.any(1)
        facts[name] = weights.flatten(-2) @ (target.double() / rows.sum()).flatten()
        chance[name] = target[rows].double().mean().item()
    return HeadFacts(facts, chance)


def head_names(
    checkpoint: Checkpoint, text: str, text_pair: str | None = None, *, layers: range | None = None
) -> list[list[str]]:
    """L lists of H names: the target that a head clearly attends to in this input, a key of PATTERNS, or "".

    A head is named after the target that is furthest above chance, among those where its weight is at least NAMED_FROM
    of the way from chance to 1 and exceeds that of RANDOM_HEADS heads with random weights of the same size. In a model
    with random weights, at most 2 % of the heads get a name. layers: numbers from 0 of the only ones whose heads are
    named. Raises InputError for an empty or too long input.
    """
    return list(layer_names(checkpoint, text, text_pair, layers=layers))


def layer_names(
    checkpoint: Checkpoint, text: str, text_pair: str | None = None, *, layers: range | None = None
) -> Iterator[list[str]]:
    """The lists of `head_names`, each worked out when it is asked for."""
    maps = attention(checkpoint, text, text_pair)
    states = hidden_states(checkpoint, encode_text(checkpoint, text, text_pair)).cpu().double()
    at_once = max(1, _WEIGHTS_AT_ONCE // len(maps.tokens) ** 2)
    blocks = checkpoint.model.bert.encoder.layer

    def above_chance(weights: Tensor) -> Tensor:  # (H, T, T) -> (targets, H)
        return head_facts(dataclasses.replace(maps, weights=weights[None])).above_chance[:, 0]

    for number in range(len(blocks)) if layers is None else layers:
        generator, limit = torch.Generator().manual_seed(number), torch.tensor(NAMED_FROM, dtype=torch.float64)
        for first in range(0, RANDOM_HEADS, at_once):
            heads = min(at_once, RANDOM_HEADS - first)
            random = _random_heads(blocks[number].attention.self, states[number], heads, generator)
            limit = limit.maximum(above_chance(random).amax(1, keepdim=True))
        above = above_chance(maps.weights[number])
        best, which = above.where(above > limit, -1).max(0)  # (H,)
        yield [list(_TARGETS)[target] if way > 0 else "" for way, target in zip(best.tolist(), which.tolist())]


def average(weights: Tensor) -> Tensor:
    """The mean over the heads of each layer, (L, T, T)."""
    return weights.mean(1)


def rollout(weights: Tensor) -> Tensor:
    """Attention multiplied through the layers up to each one, (L, T, T); rows sum to 1.

    Each layer's matrix is 0.5 A + 0.5 I, where A is the mean over heads: half of its input passes by its attention
    through the residual connection (Abnar & Zuidema 2020, section 3).
    """
    mixed = 0.5 * weights.mean(1, dtype=torch.float64) + 0.5 * torch.eye(weights.shape[-1], dtype=torch.float64)
    mixed = mixed / mixed.sum(-1, keepdim=True)
    return torch.stack(list(accumulate(mixed, lambda below, layer: layer @ below))).float()


def across(maps: AttentionMaps) -> tuple[list[str], list[str], Tensor]:
    """How [CLS], which next sentence prediction reads, and the first sentence attend to the second: [CLS] and the first
    one's words, R in all, the second's C words, and weights (L, H, R, C)."""
    words = [i for i, token in enumerate(maps.tokens) if token not in SPECIAL]
    rows = [0, *(i for i in words if maps.token_type_ids[i] == 0)]
    columns = [i for i in words if maps.token_type_ids[i] == 1]
    weights = maps.weights[..., rows, :][..., columns]
    return [maps.tokens[i] for i in rows], [maps.tokens[i] for i in columns], weights


def difference(one: Tensor, other: Tensor) -> Tensor:
    """The total variation distance between the rows of two maps, the mean over rows: from 0, equal, to 1.

    one, other: (..., T, T) for the same tokens; returns (...).
    """
    return (one.double() - other.double()).abs().sum(-1).mean(-1).float() / 2


def without_special(maps: AttentionMaps) -> AttentionMaps:
    """The maps without [CLS], [SEP] and [PAD]. Each row is scaled to sum to 1; one without any weight becomes uniform.

    Raises InputError when no token is left.
    """
    shown = [i for i, token in enumerate(maps.tokens) if token not in SPECIAL]
    if not shown:
        raise InputError("There is no word in this text; type a sentence.")
    weights = maps.weights[..., shown, :][..., shown].double()
    total = weights.sum(-1, keepdim=True)
    weights = torch.where(total > 0, weights / total, 1 / len(shown))
    return AttentionMaps([maps.tokens[i] for i in shown], [maps.token_type_ids[i] for i in shown], weights.float())


def without(checkpoint: Checkpoint, heads: Sequence[tuple[int, int]]) -> Tensor:
    """The setting (L, H) with some heads, (layer, head) from 0, off. Raises InputError for one that is missing."""
    L, H = checkpoint.config.num_hidden_layers, checkpoint.config.num_attention_heads
    scale = torch.ones(L, H)
    for layer, head in heads:
        if not (0 <= layer < L and 0 <= head < H):
            raise InputError(f"The model has {L} layers of {H} heads, and no head {head + 1} in layer {layer + 1}.")
        scale[layer, head] = 0
    return scale


def without_heads(checkpoint: Checkpoint, heads: Sequence[tuple[int, int]]) -> Checkpoint:
    """The checkpoint with some heads, (layer, head) from 0, switched off, for any question. What the output projections
    read of them is 0; it shares all other weights with the given one. Raises InputError for a head that is missing."""
    off, config = without(checkpoint, heads) == 0, checkpoint.config
    columns = off.repeat_interleave(config.hidden_size // config.num_attention_heads, 1)  # (L, D)
    model = copy.deepcopy(checkpoint.model, {id(each): each for each in checkpoint.model.parameters()})
    for layer, off_here in zip(model.bert.encoder.layer, columns):
        weight = layer.attention.output.dense.weight
        layer.attention.output.dense.weight = nn.Parameter(weight.detach().masked_fill(off_here.to(weight.device), 0))
    return dataclasses.replace(checkpoint, model=model)


def answers(
    checkpoint: Checkpoint,
    head_scale: Tensor,
    text: str,
    text_pair: str | None = None,
    *,
    position: int | None = None,
    batch: Batch | None = None,
) -> Answers:
    """A model's answers under N settings of its heads; the settings share forward passes.

    head_scale: (N, L, H). position: of the token that is masked and rated, where [CLS] is 0; at a [MASK] in the text,
    the best guess with all heads on is rated. P(IsNext) is computed when there is a second sentence. batch: for the
    loss, see `corpus_batch`. An answer is None when the model lacks the output head for it. Raises InputError as
    `attention` does, and for a position that is not a word's.
    """
    missing, encoding = checkpoint.missing, encode_text(checkpoint, text, text_pair)
    answer, word, is_next, loss = "", None, None, None
    if position is not None and "mlm" not in missing:
        if not 0 <= position < len(encoding) or encoding.tokens[position] in SPECIAL:
            raise InputError(f"Token {position} is not a word of this text; choose one of its words.")
        token, asked = encoding.ids[position], torch.tensor([position])
        inputs = padded(checkpoint, [masked_row(checkpoint, row_of(encoding), position, position + 1)])
        if encoding.tokens[position] == MASK:
            intact = torch.ones_like(head_scale[:1])
            token = int(_each(checkpoint, intact, inputs, asked, lambda words, _: words[:, 0].argmax(-1)))
        answer = token_text(checkpoint.tokenizer, token)
        word = _each(checkpoint, head_scale, inputs, asked, lambda words, _: words[:, 0, token].exp())
    if text_pair and "nsp" not in missing:
        inputs, asked = padded(checkpoint, [row_of(encoding)]), torch.tensor([0])
        is_next = _each(checkpoint, head_scale, inputs, asked, lambda _, pairs: pairs.softmax(-1)[:, 0, IS_NEXT])
    if batch is not None and "mlm" not in missing:
        inputs, (asked, labels) = (batch.input_ids, batch.attention_mask, batch.token_type_ids), batch.asked()
        each = torch.arange(len(asked))
        loss = _each(checkpoint, head_scale, inputs, asked, lambda words, _: -words[:, each, labels].mean(1))
    return Answers(word, answer, is_next, loss)


def ablation_map(
    checkpoint: Checkpoint,
    text: str,
    text_pair: str | None = None,
    *,
    position: int | None = None,
    batch: Batch | None = None,
) -> Ablation:
    """How the answers change when one head at a time is switched off. Arguments and errors are those of `answers`."""
    on = without(checkpoint, [])
    settings = on[None], 1 - torch.eye(on.numel()).view(-1, *on.shape)  # all heads on, and each one off
    intact, alone = (answers(checkpoint, each, text, text_pair, position=position, batch=batch) for each in settings)
    pairs = (intact.word, alone.word), (intact.is_next, alone.is_next), (intact.loss, alone.loss)
    word, is_next, loss = (None if a is None or b is None else (b - a).view(on.shape) for a, b in pairs)
    return Ablation(word, intact.answer, is_next, loss, intact)


def corpus_batch(checkpoint: Checkpoint, corpus: Corpus, *, rows: int = 16) -> Batch:
    """Sentence pairs of a corpus with each asked token shown as [MASK], the same at every call. Raises CorpusError when
    the text has no two neighbouring sentences."""
    length = min(DataConfig().sequence_length, checkpoint.config.max_position_embeddings)
    config = DataConfig(batch_size=rows, sequence_length=length, mask_share=1.0, random_share=0.0)
    return PretrainingBatches(encode_corpus(corpus, checkpoint.tokenizer), checkpoint.tokenizer, config, seed=0)[0]


@torch.no_grad()
def _random_heads(attention: BertSelfAttention, inputs: Tensor, heads: int, generator: torch.Generator) -> Tensor:
    """Attention weights (heads, T, T) of heads with normal query and key weights of the layer's root mean squares. The
    products of its inputs (T, D) with normal numbers are distributed as those of R^T, where inputs^T = Q R."""
    device, D = next(attention.parameters()).device, inputs.shape[1]
    bias = attention.project(torch.zeros(1, D, device=device))  # of linear layers, and of adapters on them
    weights = attention.project(torch.eye(D, device=device)) - bias
    sizes = [each.cpu().double().square().view(-1, 3, D).mean((0, 2)).sqrt() for each in (weights, bias)]
    width = D // attention.num_heads
    projected = []
    for weight, bias in list(zip(*sizes))[:2]:
        scaled = torch.cat([inputs * weight, bias.expand(len(inputs), 1)], 1)  # (T, D + 1)
        root = torch.linalg.qr(scaled.T, mode="r").R.T.float()
        projected.append(root @ torch.randn(heads, root.shape[1], width, generator=generator))
    query, key = projected
    return (query @ key.transpose(1, 2) / math.sqrt(width)).softmax(-1)


@torch.inference_mode()
def _each(checkpoint: Checkpoint, head_scale: Tensor, inputs: Inputs, asked: Tensor, reduce: _Reduce) -> Tensor:
    """One number for each setting of the heads, (N,) on the CPU. As many as fit into `_TOKENS_AT_ONCE` share a forward
    pass, in which every row has its own setting. reduce: from n settings' log-probabilities at the asked positions
    (n, M, V) and pair logits (n, B, 2) to (n,)."""
    B, T = inputs[0].shape
    found = []
    for some in head_scale.split(max(1, _TOKENS_AT_ONCE // (B * T))):
        n = len(some)
        ids, mask, segments = (each.repeat(n, 1) for each in inputs)
        positions = (asked + torch.arange(n)[:, None] * B * T).flatten()
        scale = some.repeat_interleave(B, 0).transpose(0, 1).to(checkpoint.model.device)  # (L, n * B, H)
        words, pairs = logits(checkpoint, (ids, mask, segments), positions, scale)
        words = log_probabilities(checkpoint, words.view(n, len(asked), -1))
        found.append(reduce(words, pairs.view(n, B, 2)).cpu())
    return torch.cat(found)
