"""Every stage of one text's way through a model: the numbers between the tokens and the answers, and the answers that
follow when some of these numbers are replaced. All are readings of `watch`, see `BertModel.forward`.

Shapes: T tokens, D hidden size, H heads, d = D / H, F feed-forward size, L layers, V vocabulary."""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch import Tensor

from bert_core.data.tokenizer import MASK, special_ids
from bert_core.errors import InputError, quoted
from bert_core.model import Watch
from bert_core.probes.forward import STATES, Numbers, batches, both, log_probabilities, numbers_of, run, word_scores
from bert_core.probes.masked_words import at_mask, find_masks
from bert_core.probes.reading import Row, encode_text, row_of, token_text
from bert_core.storage.checkpoint import Checkpoint

Heads = Sequence[tuple[int, int]]  # (layer, head) of each, from 0
Patch = Tensor | Callable[[Tensor], Tensor]  # what takes the place of an activation, or makes that of it
Texts = str | tuple[str, str | None]  # one sentence, or two
# What is carried: the activation's name, the place of a token or head in it, and the numbers.
State = tuple[str, tuple[int | slice, ...], Tensor]
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
    "attention": "blocks.{}.hook_attn_out",
    "attention residual": "blocks.{}.hook_resid_mid",
    "feed-forward": "blocks.{}.hook_mlp_out",
    "feed-forward residual": "blocks.{}.hook_resid_post",
    "position vectors": "embed.hook_pos_embed",
    "segment vectors": "embed.hook_token_type_embed",
}
PARTS = tuple(_OF_PARTS)
_LIKELY = 5  # guesses of each text, of which two are compared
LEAST_DIFFERENCE = 0.1  # in nats, of which a fraction is shown
BAND, _LEAST_FRACTION = 2, 0.01  # standard deviations of what random sentences bring back, and a fraction beside them


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


@dataclass(frozen=True)
class Patched:
    """What comes back with each state, see `patch_map`, by layer and token, (L + 1, T), or by layer and head, (L, H).

    fractions: of the change of the difference of two words' logits: 0 as in the target, 1 as in the source, or less or
    more. random: (R, ...) the same with states of random sentences. answers: (..., 2) log-probability of each word."""

    fractions: Tensor
    random: Tensor
    answers: Tensor

    @property
    def stands_out(self) -> Tensor:
        """Which fractions are no noise: more, or less, than nothing and than what at least two random sentences bring
        back there, by BAND standard deviations from their mean and a hundredth."""
        mean, band = self.random.mean(0), BAND * self.random.std(0)
        least, most = (mean - band).clamp(max=0) - _LEAST_FRACTION, (mean + band).clamp(min=0) + _LEAST_FRACTION
        return (self.fractions < least) | (self.fractions > most)


@dataclass(frozen=True)
class PatchMap:
    words: tuple[str, str]
    tokens: tuple[list[str], list[str]]  # T of the source, and of the target
    answers: Tensor  # (2, 2) log-probabilities in the source and in the target, of each word
    states: Patched  # with a token's state, the embeddings first
    heads: Patched  # with what a head hands on, for all tokens


def follow(
    checkpoint: Checkpoint,
    text: str | Row,
    text_pair: str | None = None,
    *,
    layer: int = 0,
    position: int | None = None,
    attending: int = 0,
) -> Stages:
    """Follow one or two sentences, or a row of a task (`inputs` of what `task_rows` returns), through a model.

    layer: from 0, whose inner numbers are returned. position: where words are scored; [CLS] is 0. attending: the token
    whose attention is returned. Raises InputError for an empty or too long text, or if one of these does not exist."""
    L = checkpoint.config.num_hidden_layers
    ids, segments = row = row_of(encode_text(checkpoint, text, text_pair)) if isinstance(text, str) else text
    if not 0 <= layer < L:
        raise InputError(f"The model has {L} layers, and no layer {layer + 1}.")
    for number in [attending] if position is None else [attending, position]:
        if not 0 <= number < len(ids):
            raise InputError(f"The text has {len(ids)} tokens, and no token {number}.")
    names = [*STATES, "embed.*", f"blocks.{layer}.*", "*.hook_pattern", "pooler.*", "nsp_logits"]
    found = numbers_of(checkpoint, row, names)
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
    file. zeroed: other parts, (layer, index in PARTS). Raises InputError for a head or a part that is missing."""
    L, H = checkpoint.config.num_hidden_layers, checkpoint.config.num_attention_heads
    if not set(zeroed) <= {*parts_of(L)}:
        raise InputError(f"A part to set to zero is a layer below {L} and one of {len(PARTS)} parts, both from 0.")
    for layer, head in heads:
        if not (0 <= layer < L and 0 <= head < H):
            raise InputError(f"The model has {L} layers of {H} heads, and no head {head + 1} in layer {layer + 1}.")
    off, block = {_OF_PARTS[PARTS[part]].format(layer) for layer, part in zeroed}, torch.empty(0)

    def watch(name: str, number: Tensor) -> Tensor:
        nonlocal block  # the last one's output: a sum without its residual is the block that came just before it
        if here := [head for layer, head in heads if name == f"blocks.{layer}.attn.hook_z"]:
            number = number.index_fill(2, torch.tensor(here, device=number.device), 0)  # (B, T, H, d)
        if name.endswith(("hook_attn_out", "hook_mlp_out", "hook_pos_embed", "hook_token_type_embed")):
            block = number = number * (name not in off)
        return block if name in off else number

    return dataclasses.replace(checkpoint, watch=both(checkpoint.watch, watch))


def parts_of(layers: int) -> list[tuple[int, int]]:
    """The parts of a model that can be set to zero, (layer, index in PARTS)."""
    hooks = enumerate(_OF_PARTS.values())
    return [(layer, part) for part, hook in hooks for layer in range(layers if "{}" in hook else 1)]


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
    "blocks.0.hook_normalized_resid_post", (T, D), the output of a layer: LayerNorm comes after the sum
    "blocks.0.hook_resid_post". "logits", (T, V), and "nsp_logits", (2,), IsNext first, come last, if the model has
    these heads. names: those to return, * for any characters; None for all. patches: what takes the place of these
    activations, or a function that makes it of them; all later ones follow from that. Raises InputError for an empty or
    too long text, an unknown name or a patch of another shape."""
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


def patch_map(
    checkpoint: Checkpoint,
    source: Texts,
    target: Texts,
    *,
    answers: tuple[str, str] | None = None,
    mask: int = 0,
    random_sentences: int = 16,
) -> PatchMap:
    """Which states of one text bring its answer into the pass of another (activation patching, Vig et al. 2020).

    source, target: a sentence each, or two, of equally many tokens. Each token's state in each layer, and what each
    head hands on, is carried alone from the first into the second; all tokens of the next layers follow from it.
    answers: two words, of whose first tokens the difference of the logits at a [MASK] is measured; None takes, of what
    is likely in one of the texts, what gains and what loses most by the source. mask: number of the [MASK], from 0.
    random_sentences: so many around the same special tokens; what their states bring back, any state does.
    Raises InputError for texts of different length, a difference that changes by less than 0.1, and as `rate_guess`."""
    texts = [_two(source), _two(target)]
    (there, masks), (here, places) = (find_masks(checkpoint, *each, mask) for each in texts)
    if len(there) != len(here) or masks[mask] != places[mask]:
        raise InputError(
            f"The two texts have {len(there)} and {len(here)} tokens, with the {MASK} at {masks[mask]} and "
            f"{places[mask]}. A state is carried between texts of equal length; choose a word of as many tokens."
        )
    rows, position = [row_of(there), row_of(here)], places[mask]
    L, H, T = checkpoint.config.num_hidden_layers, checkpoint.config.num_attention_heads, len(here)
    scores = torch.stack(word_scores(checkpoint, rows, [[position]] * 2, lambda _, scores: scores[0]))
    ids = [at_mask(checkpoint, *texts[1], mask, word)[2][0] for word in answers or ()] or _gaining_and_losing(scores)
    own, words = scores[:, ids], [token_text(checkpoint.tokenizer, number) for number in ids]
    before, after = (own[:, 0] - own[:, 1]).tolist()  # the differences of the logits in the source and in the target
    if abs(before - after) < LEAST_DIFFERENCE:
        raise InputError(
            f"The logits of {quoted(words[0])} and {quoted(words[1])} differ by {before:.2f} in one text and by "
            f"{after:.2f} in the other; a fraction of less than {LEAST_DIFFERENCE} would be noise. Choose other words."
        )
    sources = [rows[0], *(_random_row(checkpoint, rows[1], seed) for seed in range(random_sentences))]
    every = [_states(checkpoint, row) for row in sources]
    asked = [at for at in every[0] if at[:2] != ("state", L) or at[2] == position]  # others change no answer
    carried, found = [states[at] for states in every for at in asked], torch.empty(len(every) * len(asked), 2)
    for group, inputs in batches(checkpoint, [rows[1]] * len(carried)):
        at_masks = torch.arange(len(group)) * T + position
        output = run(checkpoint, inputs, at_masks, _carried([carried[number] for number in group]))
        found[group] = log_probabilities(checkpoint, output.prediction_logits)[:, ids].cpu()
    before_last, last, of_heads = found.view(len(every), -1, 2).split([L * T, 1, L * H], 1)
    of_states = own[1].repeat(len(every), L + 1, T, 1)
    of_states[:, :L], of_states[:, L, position] = before_last.unflatten(1, (L, T)), last[:, 0]

    def patched(answers: Tensor) -> Patched:
        back = (answers[..., 0] - answers[..., 1] - after) / (before - after)
        return Patched(back[0], back[1:], answers[0])

    states, heads = patched(of_states), patched(of_heads.unflatten(1, (L, H)))
    return PatchMap((words[0], words[1]), (there.tokens, here.tokens), own, states, heads)


def _gaining_and_losing(scores: Tensor) -> list[int]:
    """Of the tokens that are likely in one of two passes, (2, V), what gains and what loses most in the first."""
    likely = scores.topk(min(_LIKELY, scores.shape[1])).indices.flatten()
    gains = (scores[0] - scores[1])[likely]
    return [int(likely[gains.argmax()]), int(likely[gains.argmin()])]


def carrying(checkpoint: Checkpoint, source: Texts, kind: str, layer: int, index: int) -> Checkpoint:
    """The checkpoint into every pass of which one state of a source is carried, see `patch_map`.

    kind: "state", of token `index` after a layer, 0 for the embeddings; or "head", what head `index` of a layer from 0
    hands on. Raises InputError where there is no such state, and in a pass over a text of other length."""
    states, at = _states(checkpoint, row_of(encode_text(checkpoint, *_two(source)))), (kind, layer, index)
    T = sum(each[:2] == ("state", 0) for each in states)
    if at not in states:
        raise InputError(f"The text has no {kind} {index} in layer {layer}; it has {T} tokens.")

    def watch(name: str, number: Tensor) -> Tensor:
        if number.shape[1] != T and name == states[at][0]:
            raise InputError(f"The carried state is of a text of {T} tokens; this one has {number.shape[1]}.")
        return _carried([states[at]] * len(number))(name, number)

    return dataclasses.replace(checkpoint, watch=both(checkpoint.watch, watch))


def _two(texts: Texts) -> tuple[str, str | None]:
    return texts if isinstance(texts, tuple) else (texts, None)


def _random_row(checkpoint: Checkpoint, row: Row, seed: int) -> Row:
    """A row with random words in the place of its words."""
    special = {*special_ids(checkpoint.tokenizer).values()}
    words = [i for i in range(checkpoint.tokenizer.get_vocab_size()) if i not in special]
    drawn = torch.randint(len(words), (len(row[0]),), generator=torch.Generator().manual_seed(seed)).tolist()
    return [own if own in special else words[i] for own, i in zip(row[0], drawn)], row[1]


def _states(checkpoint: Checkpoint, row: Row) -> dict[tuple[str, int, int], State]:
    """All that can be carried from a row, by kind, layer, and token or head: first the states, then the heads."""
    heads = [f"blocks.{layer}.attn.hook_z" for layer in range(checkpoint.config.num_hidden_layers)]
    states, found = numbers_of(checkpoint, row, [*STATES, *heads]), dict[tuple[str, int, int], State]()
    numbers = [states.pop(name) for name in heads]  # (T, H, d) each, and states (T, D)
    for layer, (name, each) in enumerate(states.items()):
        found |= {("state", layer, i): (name, (i,), state) for i, state in enumerate(each)}
    for layer, (name, each) in enumerate(zip(heads, numbers)):
        found |= {("head", layer, i): (name, (slice(None), i), state) for i, state in enumerate(each.unbind(1))}
    return found


def _carried(states: Sequence[State]) -> Watch:
    """A watch that puts one state into each row of a pass."""

    def watch(name: str, number: Tensor) -> Tensor:
        here = [(row, place, state) for row, (of, place, state) in enumerate(states) if of == name]
        number = number.clone() if here else number
        for row, place, state in here:
            number[row][place] = state.to(number)
        return number

    return watch


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
