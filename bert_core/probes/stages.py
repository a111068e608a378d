"""Every stage of one text's way through a model: the numbers between the tokens and the answers, and the answers that
follow when some of these numbers are replaced.

The pass is written out with the model's own weights, so each intermediate result has a name. It gives the same numbers
as `BertForPreTraining`, to rounding.

Shapes: T tokens, D hidden size, H heads, d = D / H, F feed-forward size, L layers, V vocabulary.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor

from bert_core.data.encoding import IS_NEXT
from bert_core.errors import InputError, quoted
from bert_core.model import BertForPreTraining, BertLayer
from bert_core.probes.attention import without
from bert_core.probes.forward import forward_pass, log_probabilities, padded
from bert_core.probes.reading import encode_text, row_of
from bert_core.storage.checkpoint import Checkpoint

Numbers = dict[str, Tensor]
Patch = Tensor | Callable[[Tensor], Tensor]  # what takes the place of an activation, or makes that of it
# The names of TransformerLens' HookedEncoder for the numbers of a layer here, and those before the first layer.
_OF_A_LAYER = {
    "hook_resid_pre": "input",
    "attn.hook_q": "query",
    "attn.hook_k": "key",
    "attn.hook_v": "value",
    "attn.hook_attn_scores": "scores",
    "attn.hook_pattern": "weights",
    "attn.hook_z": "context",
    "hook_attn_out": "projected",
    "hook_resid_mid": "attention_sum",
    "ln1.hook_normalized": "attended",
    "mlp.hook_pre": "inner",
    "mlp.hook_post": "activated",
    "hook_mlp_out": "fed",
    "hook_resid_post": "output_sum",
    "hook_normalized_resid_post": "output",
}
_OF_EMBEDDINGS = {
    "embed.hook_embed": "word",
    "embed.hook_pos_embed": "position",
    "embed.hook_token_type_embed": "segment",
    "hook_full_embed": "output",
}
_OF_OUTPUTS = {"logits": "mlm", "nsp_logits": "nsp"}  # with the heads that compute them
_OF_HEADS = ("query", "key", "value", "context")  # (T, H, d) there, (H, T, d) here
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
    attention: Tensor  # (L, H, T), the weights with which one token attends, in every layer

    @property
    def is_next(self) -> float | None:
        """P(IsNext), None without a next-sentence head."""
        return self.pair["probabilities"][IS_NEXT].item() if self.pair else None


def follow(
    checkpoint: Checkpoint,
    text: str,
    text_pair: str | None = None,
    *,
    layer: int = 0,
    position: int | None = None,
    attending: int = 0,
    heads_off: Sequence[tuple[int, int]] = (),
    zeroed: Collection[tuple[int, int]] = (),
) -> Stages:
    """Follow one or two sentences through a model.

    layer: the layer, from 0, whose inner numbers are returned. position: of the token at which words are scored, where
    [CLS] is 0. attending: the token whose attention in all layers is returned. heads_off: heads, (layer, head) from 0,
    whose output is set to zero. zeroed: the same for other parts, (layer, index in PARTS). Raises InputError for an
    empty or too long text, or if one of these does not exist.
    """
    model, L, encoding = checkpoint.model, checkpoint.config.num_hidden_layers, encode_text(checkpoint, text, text_pair)
    scale = without(checkpoint, heads_off).to(model.device)
    if not 0 <= layer < L:
        raise InputError(f"The model has {L} layers, and no layer {layer + 1}.")
    for number in [attending] if position is None else [attending, position]:
        if not 0 <= number < len(encoding):
            raise InputError(f"The text has {len(encoding)} tokens, and no token {number}.")
    if not set(zeroed) <= {(number, part) for number in range(L) for part in range(len(PARTS))}:
        raise InputError(f"A part to set to zero is a layer below {L} and one of {len(PARTS)} parts, both from 0.")
    asked = None if "mlm" in checkpoint.missing else position
    ids, _, segments = padded(checkpoint, [row_of(encoding)])
    with forward_pass(checkpoint, ids, 0 if asked is None else L + 1, 1):
        parts = _passed(model, ids[0], segments[0], scale, zeroed)
        _, embeddings = next(parts)
        states = [embeddings.pop("output")]
        inside: list[Numbers] = []
        attention: list[Tensor] = []
        for number, numbers in parts:
            inside = [numbers] if number == layer else inside
            attention.append(numbers["weights"][:, attending])
            states.append(numbers["output"])
        shown = torch.stack(states)
        words = {} if asked is None else _words(checkpoint, shown[:, asked])
        pair = _pair(checkpoint, shown[-1])

    def copied(numbers: Tensor) -> Tensor:
        return numbers.detach().float().cpu().clone()  # outside the inference mode, for any computation

    groups = embeddings, inside[0], words, pair, _norms(checkpoint, layer)
    embedded, numbers, words, pair, norms = ({name: copied(each) for name, each in group.items()} for group in groups)
    read, rows = (encoding.tokens, encoding.ids, encoding.type_ids), copied(torch.stack(attention))
    return Stages(*read, embedded, copied(shown), numbers, words, pair, norms, rows)


def _norms(checkpoint: Checkpoint, layer: int) -> Numbers:
    """Gain and bias of the LayerNorms that a text passes, those of one layer among them."""
    bert = checkpoint.model.bert
    block, head = bert.encoder.layer[layer], _word_head(checkpoint)
    norms = {"embeddings": bert.embeddings.LayerNorm, "attention": block.attention.output.LayerNorm}
    norms |= {"output": block.output.LayerNorm, "transform": head.transform["LayerNorm"]}
    return {name: torch.stack([norm.weight, norm.bias]) for name, norm in norms.items()}


def activations(
    checkpoint: Checkpoint,
    text: str,
    text_pair: str | None = None,
    *,
    names: Sequence[str] | None = None,
    patches: Mapping[str, Patch] | None = None,
) -> Numbers:
    """The activations of a pass by name, float32 on the CPU, without a batch dimension: a cache of TransformerLens.

    The names and shapes are those of its HookedEncoder, such as "blocks.0.attn.hook_pattern", (H, T, T), or
    "blocks.0.hook_normalized_resid_post", (T, D), the output of a layer: as in any BERT, LayerNorm comes after the sum
    "blocks.0.hook_resid_post". "logits", (T, V), and "nsp_logits", (2,), IsNext first, come last, if the model has
    these heads. names: those to return, * for any characters; None for all. patches: activations of these names are
    replaced, for example by those of another text (activation patching, Vig et al. 2020), or by what a function makes
    of them; all later ones follow from that. Raises InputError for an empty or too long text, an unknown name or a
    patch of another shape.
    """
    model, L, encoding = checkpoint.model, checkpoint.config.num_hidden_layers, encode_text(checkpoint, text, text_pair)
    hooks = [*_OF_EMBEDDINGS, *(f"blocks.{number}.{hook}" for number in range(L) for hook in _OF_A_LAYER)]
    every = [*hooks, *(name for name, head in _OF_OUTPUTS.items() if head not in checkpoint.missing)]
    patches, asked = patches or {}, ["*"] if names is None else names
    matched = {pattern: [name for name in every if fnmatchcase(name, pattern)] for pattern in asked}
    for unknown in [*(each for each in asked if not matched[each]), *(each for each in patches if each not in hooks)]:
        raise InputError(
            f"There is no activation {quoted(unknown)}; there are {', '.join(_OF_EMBEDDINGS)}, and of each layer, "
            f"blocks.0 to blocks.{L - 1}, {', '.join(_OF_A_LAYER)}."
        )
    wanted = set().union(*matched.values())
    found: Numbers = {}

    def visit(name: str, key: str, value: Tensor) -> Tensor:
        """Keep a number that is asked for; returns it, or what takes its place."""
        turned = value.transpose(0, 1) if key in _OF_HEADS else value
        if name in patches:
            patch = patches[name]
            new = patch(turned.clone()) if callable(patch) else patch
            if not isinstance(new, Tensor) or new.shape != turned.shape:
                got = f"shape {tuple(new.shape)}" if isinstance(new, Tensor) else f"type {type(new).__name__}"
                raise InputError(f"The patch of {name} has the {got}; it must be a tensor of {tuple(turned.shape)}.")
            turned = new.to(value.device, value.dtype)
        if name in wanted:
            found[name] = turned
        return turned.transpose(0, 1) if key in _OF_HEADS else turned

    ids, _, segments = padded(checkpoint, [row_of(encoding)])
    scale = without(checkpoint, []).to(model.device)
    with forward_pass(checkpoint, ids, len(encoding), 2 * L):
        for _, numbers in _passed(model, ids[0], segments[0], scale, (), visit):
            states = numbers["output"]
        if "logits" in wanted:
            found["logits"] = model.score_words(states)[:, : checkpoint.tokenizer.get_vocab_size()]
        if "nsp_logits" in wanted:
            found["nsp_logits"] = _pair(checkpoint, states)["logits"]
    return {name: value.detach().float().cpu().clone() for name, value in found.items()}


class _Visited(dict[str, Tensor]):
    """Numbers by name. Each that has a hook is shown to `visit`, and is from then on what that returns."""

    def __init__(self, prefix: str, hooks: Mapping[str, str], visit: Callable[[str, str, Tensor], Tensor]) -> None:
        self._hooks, self._visit = {key: prefix + hook for hook, key in hooks.items()}, visit

    def __setitem__(self, key: str, value: Tensor) -> None:
        super().__setitem__(key, self._visit(self._hooks[key], key, value) if key in self._hooks else value)


def _passed(
    model: BertForPreTraining,
    ids: Tensor,
    segments: Tensor,
    scale: Tensor,
    zeroed: Collection[tuple[int, int]],
    visit: Callable[[str, str, Tensor], Tensor] = lambda hook, key, value: value,
) -> Iterator[tuple[int, Numbers]]:
    """The numbers of the embeddings, as layer -1, and of each layer, for T ids. scale, zeroed: see `follow`. visit: is
    given each number with the name of its hook and its name here; see `_Visited`."""
    tables, found = model.bert.embeddings, _Visited("", _OF_EMBEDDINGS, visit)
    found["word"], found["position"] = tables.word_embeddings(ids), tables.position_embeddings.weight[: len(ids)]
    found["segment"] = tables.token_type_embeddings(segments)
    found["sum"] = found["word"] + found["segment"] + found["position"]
    found["output"] = tables.LayerNorm(found["sum"])
    x = found["output"]
    yield -1, found
    for number, block in enumerate(model.bert.encoder.layer):
        keep = [(number, part) not in zeroed for part in range(len(PARTS))]
        found = _Visited(f"blocks.{number}.", _OF_A_LAYER, visit)
        found["input"] = x
        x = _layer(block, found.pop("input"), found, scale[number], keep)
        yield number, found


def _layer(block: BertLayer, x: Tensor, found: Numbers, scale: Tensor, keep: Sequence[bool]) -> Tensor:
    """Add a layer's numbers for its input (T, D) to `found`; returns its output. scale: (H,) factors on the heads.
    keep: for each of PARTS."""
    attention, output = block.attention.self, block.attention.output
    parts = attention.project(x).view(len(x), 3, attention.num_heads, -1).permute(1, 2, 0, 3)  # (3, H, T, d)
    found["query"], found["key"], found["value"] = parts
    found["products"] = found["query"] @ found["key"].transpose(1, 2)  # (H, T, T)
    found["scores"] = found["products"] * parts.shape[-1] ** -0.5
    found["weights"] = found["scores"].softmax(-1)
    found["context"] = found["weights"] @ found["value"] * scale[:, None, None]
    found["joined"] = found["context"].transpose(0, 1).flatten(1)  # (T, D)
    found["projected"] = output.dense(found["joined"]) * keep[0]
    found["attention_sum"] = x * keep[1] + found["projected"]
    found["attended"] = output.LayerNorm(found["attention_sum"])
    found["inner"] = block.intermediate["dense"](found["attended"])  # (T, F)
    found["activated"] = block.activation(found["inner"])
    found["fed"] = block.output.dense(found["activated"]) * keep[2]
    found["output_sum"] = found["attended"] * keep[3] + found["fed"]
    found["output"] = block.output.LayerNorm(found["output_sum"])
    return found["output"]


def _pair(checkpoint: Checkpoint, states: Tensor) -> Numbers:
    """The next-sentence head's numbers for the last states, (T, D); none without that head."""
    if "nsp" in checkpoint.missing:
        return {}
    bert = checkpoint.model.bert
    pooled = torch.tanh(bert.pooler["dense"](bert.read_by_pooler(states[None])[0]))
    logits = checkpoint.model.cls["seq_relationship"](pooled)
    return {"pooled": pooled, "logits": logits, "probabilities": logits.softmax(-1)}


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
