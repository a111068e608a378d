"""Attention heads one by one and together: facts and names, averages, rollout, and what breaks without a head.

Shapes: L layers, H heads, T tokens, N settings of the heads, B rows of a batch, A asked words of a batch. Weights are
those of `probing.attention`, (L, H, T, T): row i says how much token i takes from each token.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from bert_core.config import DataConfig
from bert_core.data.batches import IGNORED, Batch, PretrainingBatches
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import IS_NEXT, encode_corpus
from bert_core.data.tokenizer import CLS, MASK, PAD, SEP
from bert_core.errors import InputError
from bert_core.probes.forward import (
    NO_WORDS,
    encode_text,
    few_threads,
    forward,
)
from bert_core.storage.checkpoint import Checkpoint


@dataclass(frozen=True)
class AttentionMaps:
    """tokens: (T,) as the model reads them. token_type_ids: (T,). weights: (layers, H, T, T) float32 on the CPU;
    row i says how much token i takes from each token.
    """

    tokens: list[str]
    token_type_ids: list[int]
    weights: Tensor


def attention(checkpoint: Checkpoint, text: str, text_pair: str | None = None) -> AttentionMaps:
    """Every head's attention weights for one or two sentences. Raises InputError for an empty or too long input."""
    encoding = encode_text(checkpoint, text, text_pair)
    output = forward(checkpoint, encoding, asked_positions=NO_WORDS, output_attentions=True)
    weights = torch.stack([layer[0] for layer in output.attentions]).float().cpu()
    return AttentionMaps(encoding.tokens, encoding.type_ids, weights)


FACTS = {
    "entropy": "Entropy (nats)",
    "next": "Weight on the next word",
    "previous": "Weight on the previous word",
    "same": "Weight on the same word",
    "cls": "Weight on [CLS]",
    "sep": "Weight on [SEP]",
    "other": "Weight on the other sentence",
}
PATTERNS = {
    "next": "attends to the next word",
    "previous": "attends to the previous word",
    "same": "attends to the same word",
    "cls": "attends to [CLS]",
    "sep": "attends to [SEP]",
    "other": "attends to the other sentence",
    "even": "attends to all tokens evenly",
}
NAMED_FROM = 0.4  # how far from the weight that chance gives a place to all of it
EVEN_FROM = 0.95  # entropy as a share of log T, the most there is
CORPUS_ROWS = 16
SPECIAL = (CLS, SEP, PAD)
_TOKENS_AT_ONCE = 8192  # of one forward pass


@dataclass(frozen=True)
class HeadFacts:
    """facts: each of FACTS as (L, H), nan where no token has such a place. chance: the same for a head whose weight
    lies evenly on all tokens. names: L lists of H, a key of PATTERNS or "" each.
    """

    facts: dict[str, Tensor]
    chance: dict[str, float]
    names: list[list[str]]


@dataclass(frozen=True)
class Answers:
    """What a model answers under N settings of its heads, each (N,) float32 on the CPU, None for what was not asked.

    word: probability of the word `answer` at the hidden place. is_next: P(IsNext) of the pair. loss: MLM loss on rows
    of a corpus, in nats.
    """

    word: Tensor | None = None
    answer: str = ""
    is_next: Tensor | None = None
    loss: Tensor | None = None


@dataclass(frozen=True)
class Ablation:
    """What each head is good for. intact: the answers of the whole model, N = 1. word, is_next, loss: (L, H), how much
    the answer changes when that head alone is switched off; None for what was not asked.
    """

    intact: Answers
    word: Tensor | None
    is_next: Tensor | None
    loss: Tensor | None


def head_facts(maps: AttentionMaps) -> HeadFacts:
    """What each head does with one input, in numbers, and a name for those that do one thing.

    Entropy, [CLS] and [SEP] are means over all rows; the others are means over the rows of words that have such a
    place: a word before or after it, the same word anywhere (itself included), another sentence. A head is named
    after the place that gets most above chance, if that is at least NAMED_FROM of what it could get above chance.
    """
    weights = maps.weights.double()
    T, special = len(maps.tokens), torch.tensor([token in SPECIAL for token in maps.tokens])
    word = ~special
    segments = torch.tensor(maps.token_type_ids)
    numbers = torch.tensor([maps.tokens.index(token) for token in maps.tokens])
    both_words = word[:, None] & word
    places = {
        "next": both_words & torch.ones(T, T, dtype=torch.bool).triu(1).tril(1),
        "previous": both_words & torch.ones(T, T, dtype=torch.bool).tril(-1).triu(-1),
        "same": both_words & (numbers[:, None] == numbers),
        "cls": torch.tensor([token == CLS for token in maps.tokens]).expand(T, T),
        "sep": torch.tensor([token == SEP for token in maps.tokens]).expand(T, T),
        "other": both_words & (segments[:, None] != segments),
    }
    facts = {"entropy": torch.special.entr(weights).sum(-1).mean(-1)}
    chance = {"entropy": torch.tensor(float(T)).log().item()}
    for name, place in places.items():  # place: (T, T), whether a row finds it in a column
        rows = place.any(1)
        facts[name] = (weights * place).sum(-1)[..., rows].mean(-1)
        chance[name] = place[rows].double().mean().item()
    return HeadFacts(facts, chance, _names(facts, chance))


def _names(facts: dict[str, Tensor], chance: dict[str, float]) -> list[list[str]]:
    targets = [name for name in facts if name != "entropy"]
    above = torch.stack([(facts[name] - chance[name]) / max(1 - chance[name], 1e-9) for name in targets])
    best, which = above.nan_to_num(-1).max(0)
    even = facts["entropy"] >= EVEN_FROM * chance["entropy"]
    return [
        [targets[w] if b >= NAMED_FROM else "even" if e else "" for b, w, e in zip(*row)]
        for row in zip(best.tolist(), which.tolist(), even.tolist())
    ]


def average(weights: Tensor) -> Tensor:
    """The mean over the heads of each layer, (L, T, T)."""
    return weights.mean(1)


def rollout(weights: Tensor) -> Tensor:
    """How much of each token reaches each place by way of all layers up to each one, (L, T, T); rows sum to 1.

    Abnar & Zuidema 2020, section 3: a layer passes on half of what comes in beside it (the residual), so its matrix is
    0.5 A + 0.5 I with A the mean over heads and the rows normalised, and layers follow one another by multiplication.
    """
    mixed = 0.5 * weights.double().mean(1) + 0.5 * torch.eye(weights.shape[-1], dtype=torch.float64)
    mixed = mixed / mixed.sum(-1, keepdim=True)
    layers = [mixed[0]]
    for layer in mixed[1:]:
        layers.append(layer @ layers[-1])
    return torch.stack(layers).float()


def across(maps: AttentionMaps) -> tuple[list[str], list[str], Tensor]:
    """The words of the first sentence, A of them, those of the second, C of them, and the weights (L, H, A, C) with
    which the first look at the second.
    """
    rows, columns = (
        [
            i
            for i, (token, segment) in enumerate(zip(maps.tokens, maps.token_type_ids))
            if segment == sentence and token not in SPECIAL
        ]
        for sentence in (0, 1)
    )
    tokens = ([maps.tokens[i] for i in places] for places in (rows, columns))
    return *tokens, maps.weights[..., rows, :][..., columns]


def difference(one: Tensor, other: Tensor) -> Tensor:
    """How much of a word's weight lies elsewhere in another map, the mean over words: 0 the same, 1 all of it.

    one, other: (..., T, T) for the same tokens; the answer is (...). It is the total variation distance of the rows.
    """
    return (one.double() - other.double()).abs().sum(-1).mean(-1).float() / 2


def without_special(maps: AttentionMaps) -> AttentionMaps:
    """The same maps without [CLS], [SEP] and [PAD], each row scaled so that it sums to 1 again.

    A row that gave everything to the hidden tokens is spread evenly. Raises InputError when no other token is left.
    """
    shown = [i for i, token in enumerate(maps.tokens) if token not in SPECIAL]
    if not shown:
        raise InputError("There is no word in this text; type a sentence.")
    weights = maps.weights[..., shown, :][..., shown].double()
    total = weights.sum(-1, keepdim=True)
    weights = torch.where(total > 0, weights / total, 1 / len(shown))
    return replace(
        maps,
        tokens=[maps.tokens[i] for i in shown],
        token_type_ids=[maps.token_type_ids[i] for i in shown],
        weights=weights.float(),
    )


# --- Switching heads off ---------------------------------------------------------------------------------------------


def without(checkpoint: Checkpoint, heads: Sequence[tuple[int, int]]) -> Tensor:
    """The setting (L, H) for a forward pass in which some heads, (layer, head) from 0, are off.

    Raises InputError for a head that the model does not have.
    """
    L, H = checkpoint.config.num_hidden_layers, checkpoint.config.num_attention_heads
    scale = torch.ones(L, H)
    for layer, head in heads:
        if not (0 <= layer < L and 0 <= head < H):
            raise InputError(
                f"There is no head {head + 1} in layer {layer + 1}; the model has {L} layers of {H} heads."
            )
        scale[layer, head] = 0
    return scale


def each_alone(checkpoint: Checkpoint) -> Tensor:
    """The settings (L * H, L, H) in which each head in turn is the only one that is off."""
    L, H = checkpoint.config.num_hidden_layers, checkpoint.config.num_attention_heads
    return 1 - torch.eye(L * H).view(L * H, L, H)


@torch.inference_mode()
def answers(
    checkpoint: Checkpoint,
    head_scale: Tensor,
    text: str,
    text_pair: str | None = None,
    *,
    position: int | None = None,
    batch: Batch | None = None,
) -> Answers:
    """What a model answers under N settings of its heads; settings go through the model together.

    head_scale: (N, L, H), see `BertModel.forward`. position: of the token, [CLS] being 0, that is hidden behind
    [MASK] and asked for; where a [MASK] was typed, the whole model's best guess is asked for. P(IsNext) is asked when
    there is a second sentence. batch: rows of a corpus with their labels, see `corpus_batch`. What the model has no
    head for is None. Raises InputError as `probing.attention` does, and for a position that is not a word's.
    """
    tokenizer, missing = checkpoint.tokenizer, checkpoint.missing
    encoding = encode_text(checkpoint, text, text_pair)
    ids, tokens, segments = torch.tensor([encoding.ids]), encoding.tokens, encoding.type_ids
    word, answer, is_next, loss = None, "", None, None
    if position is not None and "mlm" not in missing:
        if not 0 <= position < len(tokens) or tokens[position] in SPECIAL:
            raise InputError(f"Token {position} is not a word of this text; choose one of its words.")
        hidden = ids.clone()
        hidden[0, position] = tokenizer.token_to_id(MASK)
        row = _row(hidden, segments, asked=position)
        answer = tokens[position]
        if answer == MASK:
            [(scores, _)] = _forward(checkpoint, torch.ones_like(head_scale[:1]), row)
            answer = tokenizer.id_to_token(scores[0, 0, : tokenizer.get_vocab_size()].argmax().item())
        number = tokenizer.token_to_id(answer)
        word = torch.cat([scores.softmax(-1)[:, 0, number] for scores, _ in _forward(checkpoint, head_scale, row)])
    if text_pair and "nsp" not in missing:
        row = _row(ids, segments, asked=0)
        is_next = torch.cat([scores.softmax(-1)[:, 0, IS_NEXT] for _, scores in _forward(checkpoint, head_scale, row)])
    if batch is not None and "mlm" not in missing:
        truth = batch.asked()[1].to(checkpoint.model.device)  # (A,)
        loss = torch.cat(
            [
                F.cross_entropy(scores.transpose(1, 2), truth.expand(len(scores), -1), reduction="none").mean(1)
                for scores, _ in _forward(checkpoint, head_scale, batch)
            ]
        )
    word, is_next, loss = (None if found is None else found.cpu() for found in (word, is_next, loss))
    return Answers(word, answer, is_next, loss)


def ablation_map(
    checkpoint: Checkpoint,
    text: str,
    text_pair: str | None = None,
    *,
    position: int | None = None,
    batch: Batch | None = None,
) -> Ablation:
    """How each answer changes when each head alone is switched off; arguments and errors as for `answers`."""
    intact = answers(checkpoint, without(checkpoint, [])[None], text, text_pair, position=position, batch=batch)
    alone = answers(checkpoint, each_alone(checkpoint), text, text_pair, position=position, batch=batch)
    shape = (checkpoint.config.num_hidden_layers, checkpoint.config.num_attention_heads)
    changes = {}
    for name in ("word", "is_next", "loss"):
        before, after = getattr(intact, name), getattr(alone, name)
        changes[name] = None if before is None else (after - before).view(shape)
    return Ablation(intact, **changes)


def corpus_batch(checkpoint: Checkpoint, corpus: Corpus, *, rows: int = CORPUS_ROWS, seed: int = 0) -> Batch:
    """Sentence pairs of a corpus with words hidden, every one behind [MASK]; the same rows at every call.

    Raises CorpusError when the text has no two neighbouring sentences.
    """
    length = min(DataConfig().sequence_length, checkpoint.config.max_position_embeddings)
    config = DataConfig(batch_size=rows, sequence_length=length, mask_share=1.0, random_share=0.0)
    return PretrainingBatches(encode_corpus(corpus, checkpoint.tokenizer), checkpoint.tokenizer, config, seed=seed)[0]


def _row(ids: Tensor, segments: list[int], *, asked: int) -> Batch:
    """One input (1, T) as a batch in which one place is asked for."""
    labels = torch.full_like(ids, IGNORED)
    labels[0, asked] = 0
    return Batch(ids, torch.tensor([segments]), torch.ones_like(ids), labels, torch.zeros(1))


def _forward(checkpoint: Checkpoint, head_scale: Tensor, batch: Batch) -> Iterator[tuple[Tensor, Tensor]]:
    """Scores of the asked words (n, A, V) and of the pairs (n, B, 2), float32, for some settings at a time.

    As many settings as fit into `_TOKENS_AT_ONCE` share a forward pass, in which every row has its own setting.
    """
    device = checkpoint.model.device
    (B, T), (asked, _) = batch.input_ids.shape, batch.asked()
    whole = None if bool(batch.attention_mask.all()) else batch.attention_mask
    for some in head_scale.split(max(1, _TOKENS_AT_ONCE // (B * T))):
        n = len(some)
        ids, segments, mask = (
            None if rows is None else rows.to(device).repeat(n, 1)
            for rows in (batch.input_ids, batch.token_type_ids, whole)
        )
        places = (asked + torch.arange(n)[:, None] * B * T).flatten()
        scale = some.repeat_interleave(B, 0).transpose(0, 1).to(device)  # (L, n * B, H)
        with few_threads(checkpoint, ids.numel()):
            output = checkpoint.model(ids, mask, segments, asked_positions=places, head_scale=scale)
        yield (
            output.prediction_logits.float().view(n, len(asked), -1),
            output.seq_relationship_logits.float().view(n, B, 2),
        )
