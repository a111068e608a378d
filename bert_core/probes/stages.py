"""Every stage of one text's way through a model: the numbers between the tokens and the answers.

The pass is written out with the model's own weights, so each intermediate result has a name. It gives the same numbers
as `BertForPreTraining`, to rounding.

Shapes: T tokens, D hidden size, H heads, d = D / H, F feed-forward size, L layers, V vocabulary.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bert_core.data.encoding import IS_NEXT
from bert_core.errors import InputError
from bert_core.model import BertLayer
from bert_core.probes.attention import without
from bert_core.probes.forward import forward_pass, log_probabilities, padded
from bert_core.probes.reading import encode_text, row_of
from bert_core.storage.checkpoint import Checkpoint, probe

Numbers = dict[str, Tensor]
# The parts of a layer besides its heads. Without a residual, LayerNorm gets the block's output alone.
PARTS = ("attention", "attention residual", "feed-forward", "feed-forward residual")


@dataclass(frozen=True)
class Stages:
    """The numbers of one pass, float32 on the CPU.

    layer: of the chosen layer: query, key, value (H, T, d); products, scores = products / sqrt(d), weights, each
    (H, T, T); context = weights value (H, T, d); joined = the heads side by side, projected, attention_sum = residual +
    projected, attended = its LayerNorm, each (T, D); inner, activated (T, F); fed, output_sum = attended + fed, output,
    each (T, D).
    words: at the asked position: dense, activated, transformed, each (D,), and logits and log_probabilities (V,); after
    each layer, by_layer (L + 1, V), the log-probabilities that the same output layer reads there. Empty without an
    asked position or a masked-word head.
    """

    tokens: list[str]  # T
    ids: list[int]
    segments: list[int]
    embeddings: Numbers  # word, position, segment, sum, each (T, D); the LayerNorm of the sum is states[0]
    states: Tensor  # (L + 1, T, D), the embeddings first, then each layer's output
    layer: Numbers
    words: Numbers
    pair: Numbers  # pooled (D,), logits and probabilities (2,), IsNext first; empty without a next-sentence head
    norms: Numbers  # gain and bias, (2, D), of the LayerNorms "embeddings", "attention", "output" and "transform"

    @property
    def is_next(self) -> float | None:
        """P(IsNext), None without a next-sentence head."""
        return self.pair["probabilities"][IS_NEXT].item() if self.pair else None


@probe
def follow(
    checkpoint: Checkpoint,
    text: str,
    text_pair: str | None = None,
    *,
    layer: int = 0,
    position: int | None = None,
    heads_off: Sequence[tuple[int, int]] = (),
    zeroed: Collection[tuple[int, int]] = (),
) -> Stages:
    """Follow one or two sentences through a model.

    layer: the layer, from 0, whose inner numbers are returned. position: of the token at which words are scored, where
    [CLS] is 0. heads_off: heads, (layer, head) from 0, whose output is set to zero. zeroed: the same for other parts,
    (layer, index in PARTS). Raises InputError for an empty or too long text, or if one of these does not exist.
    """
    model, L, encoding = checkpoint.model, checkpoint.config.num_hidden_layers, encode_text(checkpoint, text, text_pair)
    scale = without(checkpoint, heads_off).to(model.device)
    if not 0 <= layer < L:
        raise InputError(f"The model has {L} layers, and no layer {layer + 1}.")
    if position is not None and not 0 <= position < len(encoding):
        raise InputError(f"The text has {len(encoding)} tokens, and no token {position}.")
    if not set(zeroed) <= {(number, part) for number in range(L) for part in range(len(PARTS))}:
        raise InputError(f"A part to set to zero is a layer below {L} and one of {len(PARTS)} parts, both from 0.")
    asked = None if "mlm" in checkpoint.missing else position
    ids, _, segments = padded(checkpoint, [row_of(encoding)])
    with forward_pass(checkpoint, ids, 0 if asked is None else L + 1, 1):
        tables = model.bert.embeddings
        word, segment = tables.word_embeddings(ids[0]), tables.token_type_embeddings(segments[0])
        place = tables.position_embeddings.weight[: len(encoding)]
        embeddings = {"word": word, "position": place, "segment": segment, "sum": word + segment + place}
        states = [tables.LayerNorm(embeddings["sum"])]
        inside: list[Numbers] = []
        for number, block in enumerate(model.bert.encoder.layer):
            keep = [(number, part) not in zeroed for part in range(len(PARTS))]
            numbers = _layer(block, states[-1], scale[number], keep)
            inside = [numbers] if number == layer else inside
            states.append(numbers["output"])
        shown, pair = torch.stack(states), {}
        words = {} if asked is None else _words(checkpoint, shown[:, asked])
        if "nsp" not in checkpoint.missing:
            pooled = torch.tanh(model.bert.pooler["dense"](model.bert.read_by_pooler(shown[-1:])[0]))
            logits = model.cls["seq_relationship"](pooled)
            pair = {"pooled": pooled, "logits": logits, "probabilities": logits.softmax(-1)}
        block, head = model.bert.encoder.layer[layer], _word_head(checkpoint)
        norms = {"embeddings": tables.LayerNorm, "attention": block.attention.output.LayerNorm}
        norms |= {"output": block.output.LayerNorm, "transform": head.transform["LayerNorm"]}
        gains = {name: torch.stack([norm.weight, norm.bias]) for name, norm in norms.items()}

    def copied(numbers: Tensor) -> Tensor:
        return numbers.detach().float().cpu().clone()  # outside the inference mode, for any computation

    groups = embeddings, inside[0], words, pair, gains
    embedded, *others = ({name: copied(numbers) for name, numbers in group.items()} for group in groups)
    return Stages(encoding.tokens, encoding.ids, encoding.type_ids, embedded, copied(shown), *others)


def _layer(block: BertLayer, x: Tensor, scale: Tensor, keep: Sequence[bool]) -> Numbers:
    """A layer's numbers for its input (T, D). scale: (H,) factors on the heads. keep: for each of PARTS."""
    attention, output = block.attention.self, block.attention.output
    query, key, value = attention.qkv(x).view(len(x), 3, attention.num_heads, -1).permute(1, 2, 0, 3)  # (H, T, d) each
    found = {"query": query, "key": key, "value": value, "products": query @ key.transpose(1, 2)}  # (H, T, T)
    found["scores"] = found["products"] * query.shape[-1] ** -0.5
    found["weights"] = found["scores"].softmax(-1)
    found["context"] = found["weights"] @ value * scale[:, None, None]
    found["joined"] = found["context"].transpose(0, 1).flatten(1)  # (T, D)
    found["projected"] = output.dense(found["joined"]) * keep[0]
    found["attention_sum"] = x * keep[1] + found["projected"]
    found["attended"] = output.LayerNorm(found["attention_sum"])
    found["inner"] = block.intermediate["dense"](found["attended"])  # (T, F)
    found["activated"] = block.activation(found["inner"])
    found["fed"] = block.output.dense(found["activated"]) * keep[2]
    found["output_sum"] = found["attended"] * keep[3] + found["fed"]
    found["output"] = block.output.LayerNorm(found["output_sum"])
    return found


def _words(checkpoint: Checkpoint, states: Tensor) -> Numbers:
    """The masked-word head's numbers for the states of one token, (L + 1, D), the last of which it was trained on."""
    head, logits = _word_head(checkpoint), checkpoint.model.score_words(states).float()  # (L + 1, V)
    by_layer = log_probabilities(checkpoint, logits)
    found = {"logits": logits[-1, : by_layer.shape[1]], "log_probabilities": by_layer[-1], "by_layer": by_layer}
    found["dense"] = head.transform["dense"](states[-1])
    found["activated"] = head.activation(found["dense"])
    found["transformed"] = head.transform["LayerNorm"](found["activated"])
    return found


def _word_head(checkpoint: Checkpoint) -> Any:
    return checkpoint.model.cls["predictions"]
