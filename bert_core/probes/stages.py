"""Every stage of one text's way through a model: the numbers between the tokens and the answers, and the answers that
follow when some of these numbers are replaced. All are readings of `watch`, see `BertModel.forward`.

Shapes: T tokens, D hidden size, H heads, d = D / H, F feed-forward size, L layers, V vocabulary."""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch import Tensor

from bert_core.errors import InputError, quoted
from bert_core.model import Watch
from bert_core.probes.forward import STATES, Numbers, both, log_probabilities, numbers_of
from bert_core.probes.reading import Row, encode_text, row_of, token_text
from bert_core.storage.checkpoint import Checkpoint

Heads = Sequence[tuple[int, int]]  # (layer, head) of each, from 0
Patch = Tensor | Callable[[Tensor], Tensor]  # what takes the place of an activation, or makes that of it
# The names of TransformerLens' HookedEncoder for what is added in the embeddings, after "embed.hook_", and for the
# numbers of a layer, after "blocks.N.", each with its name in `Stages`.
_OF_EMBEDDINGS = {"embed": "word", "pos_embed": "position", "token_type_embed": "segment"}
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
# The parts of a layer besides its heads. Without a residual, LayerNorm gets the block's output alone. The last two are
# of the embeddings, and count as parts of layer 0 alone.
_OF_PARTS = {
    "attention": "hook_attn_out",
    "attention residual": "hook_resid_mid",
    "feed-forward": "hook_mlp_out",
    "feed-forward residual": "hook_resid_post",
    "position vectors": "embed.hook_pos_embed",
    "segment vectors": "embed.hook_token_type_embed",
}
PARTS = tuple(_OF_PARTS)


@dataclass(frozen=True)
class Stages:
    """The numbers of one pass, float32 on the CPU. Of the chosen layer: query, key, value (H, T, d); products, scores =
    products / sqrt(d), weights, each (H, T, T); context = weights value (H, T, d); input, joined = the heads side by
    side, projected, attention_sum = input + projected, attended = its LayerNorm, each (T, D); inner, activated (T, F);
    fed, output_sum = attended + fed, output, each (T, D)."""

    tokens: list[str]  # T
    ids: list[int]
    segments: list[int]
    embeddings: Numbers  # word, position, segment, sum, each (T, D); the LayerNorm of the sum is states[0]
    states: Tensor  # (L + 1, T, D), the embeddings first, then each layer's output
    layer: Numbers
    words: Numbers  # at the asked position, see `_words`; empty without one or a masked-word head
    pooled: Tensor  # (D,) what the pooler makes, which an output layer may read
    pair: Numbers  # logits and probabilities (2,), IsNext first; empty without a next-sentence head
    attention: Tensor  # (L, H, T), the weights with which one token attends, in every layer


def follow(
    checkpoint: Checkpoint,
    text: str | Row,
    text_pair: str | None = None,
    *,
    layer: int = 0,
    position: int | None = None,
    attending: int = 0,
    heads_off: Heads = (),
    zeroed: Collection[tuple[int, int]] = (),
) -> Stages:
    """Follow one or two sentences, or a row of a task (`inputs` of what `task_rows` returns), through a model.

    layer: the layer, from 0, whose inner numbers are returned. position: of the token at which words are scored, where
    [CLS] is 0. attending: the token whose attention in all layers is returned. heads_off: heads whose output is set to
    zero. zeroed: the same for other parts, (layer, index in PARTS). Raises InputError for an empty or too long text, or
    if one of these does not exist."""
    L = checkpoint.config.num_hidden_layers
    ids, segments = row = row_of(encode_text(checkpoint, text, text_pair)) if isinstance(text, str) else text
    if not 0 <= layer < L:
        raise InputError(f"The model has {L} layers, and no layer {layer + 1}.")
    for number in [attending] if position is None else [attending, position]:
        if not 0 <= number < len(ids):
            raise InputError(f"The text has {len(ids)} tokens, and no token {number}.")
    names = [*STATES, "embed.*", f"blocks.{layer}.*", "*.hook_pattern", "pooler.*", "nsp_logits"]
    found = numbers_of(without_heads(checkpoint, heads_off, zeroed), row, names)
    outputs = [found[f"blocks.{number}.hook_normalized_resid_post"] for number in range(L)]
    rows = [found[f"blocks.{number}.attn.hook_pattern"][:, attending] for number in range(L)]
    states = torch.stack([found["hook_full_embed"], *outputs])
    embeddings = {key: found[f"embed.hook_{hook}"] for hook, key in _OF_EMBEDDINGS.items()}
    inside = {key: found[f"blocks.{layer}.{hook}"] for hook, key in _OF_A_LAYER.items()}
    inside |= {key: inside[key].transpose(0, 1) for key in ("query", "key", "value", "context")}  # (H, T, d)
    inside["products"] = inside["query"] @ inside["key"].transpose(1, 2)
    inside["joined"] = inside["context"].transpose(0, 1).flatten(1)
    pair = {"logits": found["nsp_logits"], "probabilities": found["nsp_logits"].softmax(-1)}
    return Stages(
        tokens=[token_text(checkpoint.tokenizer, token) for token in ids],
        ids=ids,
        segments=segments,
        embeddings=embeddings | {"sum": torch.stack([*embeddings.values()]).sum(0)},
        states=states,
        layer=inside,
        words={} if position is None or "mlm" in checkpoint.missing else _words(checkpoint, states[:, position]),
        pooled=found["pooler.hook_pooler_out"],
        pair={} if "nsp" in checkpoint.missing else pair,
        attention=torch.stack(rows),
    )


def without_heads(checkpoint: Checkpoint, heads: Heads, zeroed: Collection[tuple[int, int]] = ()) -> Checkpoint:
    """The checkpoint with some heads switched off for every probe: what they hand on is 0. Its weights stay, also in a
    file. zeroed: other parts, see `follow`. Raises InputError for a head or a part that is missing."""
    L, H = checkpoint.config.num_hidden_layers, checkpoint.config.num_attention_heads
    if not set(zeroed) <= {*parts_of(L)}:
        raise InputError(f"A part to set to zero is a layer below {L} and one of {len(PARTS)} parts, both from 0.")
    scales = {f"blocks.{layer}.attn.hook_z": torch.ones(H, 1) for layer in range(L)}
    for layer, head in heads:
        if not (0 <= layer < L and 0 <= head < H):
            raise InputError(f"The model has {L} layers of {H} heads, and no head {head + 1} in layer {layer + 1}.")
        scales[f"blocks.{layer}.attn.hook_z"][head] = 0

    def switch_off(name: str, number: Tensor) -> Tensor:
        return number * scales[name].to(number) if name in scales else number  # (B, T, H, d)

    watch = both(switch_off, _zeroed(zeroed)) if zeroed else switch_off
    return dataclasses.replace(checkpoint, watch=both(checkpoint.watch, watch))


def parts_of(layers: int) -> list[tuple[int, int]]:
    """The parts of a model that can be set to zero, (layer, index in PARTS)."""
    hooks = enumerate(_OF_PARTS.values())
    return [(layer, part) for part, hook in hooks for layer in range(1 if hook.startswith("embed.") else layers)]


def _zeroed(parts: Collection[tuple[int, int]]) -> Watch:
    """A watch that sets parts, (layer, index in PARTS), to 0."""
    hooks, block = [*_OF_PARTS.values()], torch.empty(0)
    off = {
        hooks[part] if hooks[part].startswith("embed.") else f"blocks.{layer}.{hooks[part]}" for layer, part in parts
    }

    def watch(name: str, activation: Tensor) -> Tensor:
        nonlocal block  # the last one's output: a sum without its residual is the block that came just before it
        if name.endswith(("hook_attn_out", "hook_mlp_out", "hook_pos_embed", "hook_token_type_embed")):
            block = activation = activation * (name not in off)
        return block if name in off else activation

    return watch


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
    patch of another shape."""
    L, encoding = checkpoint.config.num_hidden_layers, encode_text(checkpoint, text, text_pair)
    first = [*(f"embed.hook_{hook}" for hook in _OF_EMBEDDINGS), "hook_full_embed"]
    hooks = [*first, *(f"blocks.{number}.{hook}" for number in range(L) for hook in _OF_A_LAYER)]
    outputs = {"mlm": "logits", "nsp": "nsp_logits"}
    every = [*hooks, *(name for head, name in outputs.items() if head not in checkpoint.missing)]
    patches, asked = patches or {}, ["*"] if names is None else names
    unknown = [name for name in asked if not any(fnmatchcase(each, name) for each in every)]
    if unknown := [*unknown, *(name for name in patches if name not in hooks)]:
        raise InputError(
            f"There is no activation {quoted(unknown[0])}; there are {', '.join(first)}, and of each layer, "
            f"blocks.0 to blocks.{L - 1}, {', '.join(_OF_A_LAYER)}."
        )

    def patched(name: str, number: Tensor) -> Tensor:
        if name not in patches:
            return number
        patch, [own] = patches[name], number
        new = patch(own.clone()) if callable(patch) else patch
        if not isinstance(new, Tensor) or new.shape != own.shape:
            got = f"shape {tuple(new.shape)}" if isinstance(new, Tensor) else f"type {type(new).__name__}"
            raise InputError(f"The patch of {name} has the {got}; it must be a tensor of {tuple(own.shape)}.")
        return new.to(number.device, number.dtype)[None]

    found = numbers_of(checkpoint, row_of(encoding), asked, patched)
    return {name: number for name, number in found.items() if name in every}


@torch.no_grad()
def _words(checkpoint: Checkpoint, states: Tensor) -> Numbers:
    """The masked-word head's numbers for the last of a token's states (L + 1, D): dense, activated, transformed, each
    (D,), logits and log_probabilities (V,); and by_layer (L + 1, V), the log-probabilities that it reads in each."""
    inside: list[Tensor] = []

    def keep(_: str, number: Tensor) -> Tensor:
        inside.append(number[-1])
        return number

    logits = checkpoint.model.score_words(states.to(checkpoint.model.device), keep)  # (L + 1, V)
    found, by_layer = dict(zip(("dense", "activated", "transformed"), inside)), log_probabilities(checkpoint, logits)
    found |= {"logits": logits[-1, : by_layer.shape[1]], "log_probabilities": by_layer[-1], "by_layer": by_layer}
    return {name: number.float().cpu() for name, number in found.items()}
