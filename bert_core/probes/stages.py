"""Every stage of one text's way through a model: the numbers between the tokens and the answers, and the answers that
follow when some of these numbers are replaced. All are readings of `watch`, see `BertModel.forward`.

Shapes: T tokens, D hidden size, H heads, d = D / H, F feed-forward size, L layers, V vocabulary."""

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch import Tensor

from bert_core.data.tokenizer import MASK, special_ids, token_id
from bert_core.errors import InputError, quoted
from bert_core.model import Watch
from bert_core.probes.forward import STATES, Numbers, batches, both, log_probabilities, numbers_of, run
from bert_core.probes.masked_words import rate_guess
from bert_core.probes.reading import Row, encode_text, row_of, token_text
from bert_core.storage.checkpoint import Checkpoint

Heads = Sequence[tuple[int, int]]  # (layer, head) of each, from 0
Patch = Tensor | Callable[[Tensor], Tensor]  # what takes the place of an activation, or makes that of it
Texts = str | tuple[str, str | None]  # one sentence, or two
State = tuple[str, int, Tensor]  # what is carried: the activation's name, the token or head of it, and its numbers
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
HEADS = "*.attn.hook_z"  # names of what the heads hand on
LEAST_DIFFERENCE = 0.1  # in nats, of which a fraction is shown
BAND, LEAST_FRACTION = (
    2,
    0.01,
)  # standard deviations around what random sentences bring back, and a fraction beside them


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
class PatchMap:
    """What comes back when one state of a source at a time is carried into the pass of a target, see `patch_map`.

    A fraction is 0 where the difference of the answers stays the target's, and 1 where it is the source's; it may be
    less or more. Answers are natural logarithms of the probabilities of the two words."""

    tokens: tuple[list[str], list[str]]  # T of the source, and of the target
    answers: Tensor  # (2, 2) in the source and in the target, of each word
    states: Tensor  # (L + 1, T) fractions for the states of tokens, the embeddings first
    heads: Tensor  # (L, H) fractions for what heads hand on, of all tokens
    random_states: Tensor  # (R, L + 1, T) fractions for the states of random sentences
    random_heads: Tensor  # (R, L, H)
    state_answers: Tensor  # (L + 1, T, 2) in the target with the source's state
    head_answers: Tensor  # (L, H, 2)


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


def patch_map(
    checkpoint: Checkpoint,
    source: Texts,
    target: Texts,
    *,
    answers: tuple[str, str],
    mask: int = 0,
    random_sentences: Collection[int] = range(16),
) -> PatchMap:
    """Which states of one text bring its answer into the pass of another (activation patching, Vig et al. 2020).

    source, target: a sentence each, or two, of equally many tokens. Each token's state in each layer, and what each
    head hands on, is carried from the first into the second alone, and the later layers follow from it. answers: two
    words of one token. What is measured is how much of the difference of their logits at a [MASK] comes back, as a
    fraction of that between the two texts. In a BERT, any state of a layer may change all tokens of the next one.
    mask: number of the [MASK], from 0. random_sentences: seeds of sentences of as many tokens, random words around the
    same special tokens. What their states bring back is what any state does; see `stands_out`.
    Raises InputError for texts of different length, for a difference below 0.1, and as `rate_guess` does."""
    texts = [each if isinstance(each, tuple) else (each, None) for each in (source, target)]
    encodings = [encode_text(checkpoint, *each) for each in texts]
    rated = [[rate_guess(checkpoint, word, *each, mask=mask) for word in answers] for each in texts]
    for guess in rated[0]:
        if len(guess.pieces) > 1:
            raise InputError(
                f"The model reads {quoted(guess.pieces[0])}… as {len(guess.pieces)} pieces; choose answers of one."
            )
    lengths = [len(each) for each in encodings]
    places = [[i for i, token in enumerate(each.tokens) if token == MASK][mask] for each in encodings]
    if lengths[0] != lengths[1] or places[0] != places[1]:
        raise InputError(
            f"The two texts have {lengths[0]} and {lengths[1]} tokens, with the {MASK} at {places[0]} and {places[1]}. "
            "A state is carried between texts of equal length; choose a word of as many tokens."
        )
    both_answers = torch.tensor([[guess.log_probability for guess in each] for each in rated])
    there, here = (both_answers[:, 0] - both_answers[:, 1]).tolist()
    if abs(there - here) < LEAST_DIFFERENCE:
        raise InputError(
            f"The logits of {quoted(answers[0])} and {quoted(answers[1])} differ by {there:.2f} in one text and by "
            f"{here:.2f} in the other; a fraction of less than {LEAST_DIFFERENCE} would be noise. Choose other words."
        )
    target_row, position = row_of(encodings[1]), places[1]
    rows = [row_of(encodings[0]), *(_random_row(checkpoint, target_row, seed) for seed in random_sentences)]
    L, H, T = checkpoint.config.num_hidden_layers, checkpoint.config.num_attention_heads, lengths[1]
    carried = [state for row in rows for state in _states(checkpoint, row, position)]
    ids = [token_id(checkpoint.tokenizer, guess.pieces[0]) for guess in rated[0]]
    found = _answers_with(checkpoint, target_row, position, ids, carried).view(len(rows), -1, 2)
    states = both_answers[1].expand(len(rows), L + 1, T, 2).clone()  # the last layer's others change no answer
    states[:, :L], states[:, L, position] = found[:, : L * T].view(-1, L, T, 2), found[:, L * T]
    heads = found[:, L * T + 1 :].view(-1, L, H, 2)
    of_states, of_heads = ((each[..., 0] - each[..., 1] - here) / (there - here) for each in (states, heads))
    return PatchMap(
        *((encodings[0].tokens, encodings[1].tokens), both_answers, of_states[0], of_heads[0]),
        *(of_states[1:], of_heads[1:], states[0], heads[0]),
    )


def stands_out(fractions: Tensor, random: Tensor) -> Tensor:
    """Which fractions (...) of a `PatchMap` are no noise: more, or less, than nothing and than what random sentences
    bring back there, (R, ...), by two standard deviations from their mean and a hundredth. None where R is below 2."""
    if len(random) < 2:
        return torch.zeros_like(fractions, dtype=torch.bool)
    mean, band = random.mean(0), BAND * random.std(0)
    least, most = (mean - band).clamp(max=0) - LEAST_FRACTION, (mean + band).clamp(min=0) + LEAST_FRACTION
    return (fractions < least) | (fractions > most)


def carrying(
    checkpoint: Checkpoint, source: Texts, *, state: tuple[int, int] | None = None, head: tuple[int, int] | None = None
) -> Checkpoint:
    """The checkpoint into every pass of which one state of the source is carried, see `patch_map`.

    state: (layer, token), 0 for the embeddings. head: (layer, head), both from 0. Raises InputError where there is no
    such state, and in a pass over a text of other length."""
    row = row_of(encode_text(checkpoint, *(source if isinstance(source, tuple) else (source,))))
    L, T, H = checkpoint.config.num_hidden_layers, len(row[0]), checkpoint.config.num_attention_heads
    layer, index = state or head or (-1, -1)
    if not (0 <= layer < L + (state is not None) and 0 <= index < (H if state is None else T)):
        raise InputError(f"There are states of {T} tokens in the embeddings and {L} layers, and {H} heads in a layer.")
    numbers = numbers_of(checkpoint, row, [*STATES, HEADS])
    name = f"blocks.{layer}.attn.hook_z" if state is None else [name for name in numbers if "attn" not in name][layer]
    number = numbers[name]

    def watch(of: str, activation: Tensor) -> Tensor:
        if of != name:
            return activation
        if activation.shape[1] != T:
            raise InputError(f"The carried state is of a text of {T} tokens; this one has {activation.shape[1]}.")
        carried = (name, index, number[index] if state else number[:, index])
        return _carried([carried] * len(activation))(of, activation)

    return dataclasses.replace(checkpoint, watch=both(checkpoint.watch, watch))


def _random_row(checkpoint: Checkpoint, row: Row, seed: int) -> Row:
    """A row with random words in the place of its words."""
    special = {*special_ids(checkpoint.tokenizer).values()}
    words = [i for i in range(checkpoint.tokenizer.get_vocab_size()) if i not in special]
    drawn = torch.randint(len(words), (len(row[0]),), generator=torch.Generator().manual_seed(seed)).tolist()
    return [own if own in special else words[i] for own, i in zip(row[0], drawn)], row[1]


def _states(checkpoint: Checkpoint, row: Row, position: int) -> list[State]:
    """What can be carried from a row: all tokens' states, after the last layer the asked token's; then all heads'."""
    numbers = numbers_of(checkpoint, row, [*STATES, HEADS])
    states = [name for name in numbers if "attn" not in name]
    tokens = [(name, i) for name in states for i in range(len(row[0])) if name != states[-1] or i == position]
    heads = [(name, head) for name in numbers if "attn" in name for head in range(numbers[name].shape[1])]
    return [(name, i, numbers[name][i]) for name, i in tokens] + [(name, i, numbers[name][:, i]) for name, i in heads]


def _answers_with(
    checkpoint: Checkpoint, row: Row, position: int, ids: Sequence[int], states: Sequence[State]
) -> Tensor:
    """Log-probabilities of tokens at one position of a row into which each of the states is carried, (states, ids)."""
    found, T = torch.empty(len(states), len(ids)), len(row[0])
    for group, inputs in batches(checkpoint, [row] * len(states)):
        asked = torch.arange(len(group)) * T + position
        output = run(checkpoint, inputs, asked, _carried([states[number] for number in group]))
        found[group] = log_probabilities(checkpoint, output.prediction_logits)[:, ids].cpu()
    return found


def _carried(states: Sequence[State]) -> Watch:
    """A watch that puts one state into each row of a pass."""
    by_name = defaultdict(list)
    for row, (name, index, state) in enumerate(states):
        by_name[name].append((row, index, state))

    def watch(name: str, activation: Tensor) -> Tensor:
        if name not in by_name:
            return activation
        rows, indices, states = zip(*by_name[name])
        every = (slice(None),) if "attn" in name else ()  # of the tokens: hook_z is (B, T, H, d), a state (B, T, D)
        activation = activation.clone()
        activation[(list(rows), *every, list(indices))] = torch.stack(states).to(activation)
        return activation

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
