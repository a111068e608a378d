"""BERT (Devlin et al. 2018), as google-research/bert defines it and under Hugging Face's tensor names.

Shapes: B batch, T tokens, N computed positions of the B * T (see `Packing`), M asked positions, at which the model
predicts the token, H heads, D hidden size, d = D / H, F feed-forward size, V vocabulary. Positions are counted through
the whole batch, 0 to B * T - 1. Where a comment says (N, D), all positions are (B, T, D).

Post-LayerNorm: every block is LayerNorm(x + dropout(block(x))). The masked-word head shares its matrix with the word
embeddings. What is inside a pass is read and changed by `watch`, see `BertModel.forward`; no module keeps anything."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bert_core.config import BertConfig

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "tanh": torch.tanh,
    "linear": torch.positive,
}

# Is called with the name and the tensor of each activation of a pass, and returns it, or what takes its place.
Watch = Callable[[str, Tensor], Tensor]

# On a CPU, plain matrix products are faster than the fused kernel, which works in blocks, up to this many tokens; in
# bfloat16 always, 1.7 to 6 times with their gradients.
_SHORT = 32


@dataclass(frozen=True)
class Packing:
    """The positions of a batch that the model computes, everywhere but in attention: a third to a half is padding.

    shape: (B, T). real: (N,) the computed positions in order; None means all. slot: (B * T,) the index in `real` of
    each position; for padding, that of the real token before it."""

    shape: tuple[int, int]
    real: Tensor | None = None
    slot: Tensor | None = None

    @classmethod
    def of(cls, attention_mask: Tensor, device: torch.device | str = "cpu") -> "Packing":
        """The packing of a (B, T) mask on the CPU: 1 at real tokens, with which each row begins, and 0 at padding."""
        B, T = attention_mask.shape
        flat = attention_mask.flatten().bool()
        if flat.all():
            return cls((B, T))
        return cls((B, T), flat.nonzero().squeeze(1).to(device), (flat.cumsum(0) - 1).to(device))

    def pack(self, padded: Tensor) -> Tensor:
        """The computed positions of a (B, T, C) or (B, T) tensor, (N, C) or (N,); if these are all, the tensor."""
        return padded if self.real is None else padded.flatten(0, 1).index_select(0, self.real)

    def unpack(self, packed: Tensor) -> Tensor:
        """A packed tensor as (B, T, C); padding gets a copy of a real token, which the attention mask hides."""
        return packed if self.slot is None else packed.index_select(0, self.slot).view(*self.shape, -1)


@dataclass
class BertOutput:
    last_hidden_state: Tensor  # (B, T, D), or (M, D) at asked positions
    pooler_output: Tensor  # (B, D)


@dataclass
class PretrainingOutput(BertOutput):
    """The same with the scores of the two heads."""

    prediction_logits: Tensor  # (B, T, V), or (M, V)
    seq_relationship_logits: Tensor  # (B, 2), column 0 is IsNext
    loss: Tensor | None = None  # (), with both kinds of labels


def seen(watch: Watch | None, name: str, activation: Tensor) -> Tensor:
    """What `watch` makes of an activation; the same where nobody watches."""
    return activation if watch is None else watch(name, activation)


def _below(watch: Watch | None, prefix: str) -> Watch | None:
    """A watch for a part of the model: it puts the prefix before each name."""
    return None if watch is None else lambda name, activation: watch(prefix + name, activation)


def at(x: Tensor, indices: Tensor) -> Tensor:
    """The vectors of these indices, (M, D), of an (N, D) or (B, T, D) tensor."""
    return x.flatten(0, -2).index_select(0, indices)


def _table(rows: int, width: int) -> nn.Embedding:
    # nn.Embedding would draw its weights at once; to do so on the meta device, PyTorch imports modules for seconds.
    return nn.Embedding.from_pretrained(torch.empty(rows, width), freeze=False)


class BertEmbeddings(nn.Module):
    """Sum of word, position and segment vectors, normalised."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.word_embeddings = _table(config.vocab_size, config.hidden_size)
        self.position_embeddings = _table(config.max_position_embeddings, config.hidden_size)
        self.token_type_embeddings = _table(config.type_vocab_size, config.hidden_size)
        # An unused table stays zero. The model has it all the same, so that its file has every tensor of a BERT.
        self.position_embeddings.weight.requires_grad_(config.use_position_embeddings)
        self.token_type_embeddings.weight.requires_grad_(config.use_token_type_embeddings)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(
        self, input_ids: Tensor, token_type_ids: Tensor, packing: Packing, watch: Watch | None = None
    ) -> Tensor:
        positions = torch.arange(input_ids.shape[1], device=input_ids.device).expand_as(input_ids)  # (B, T)
        words = seen(watch, "embed.hook_embed", self.word_embeddings(packing.pack(input_ids)))  # (N, D)
        segments = seen(watch, "embed.hook_token_type_embed", self.token_type_embeddings(packing.pack(token_type_ids)))
        places = seen(watch, "embed.hook_pos_embed", self.position_embeddings(packing.pack(positions)))
        return seen(watch, "hook_full_embed", self.dropout(self.LayerNorm(words + segments + places)))


class BertSelfAttention(nn.Module):
    """Scaled dot-product attention in H heads of size d. mask: (B, 1, 1, T), added to the scores: 0 at real tokens,
    -inf at padding; None means no padding."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.dropout_prob = config.attention_probs_dropout_prob
        self.query, self.key, self.value = (nn.Linear(config.hidden_size, config.hidden_size) for _ in range(3))

    def forward(self, x: Tensor, mask: Tensor | None, packing: Packing, watch: Watch | None = None) -> Tensor:
        names = {"attn.hook_q": self.query, "attn.hook_k": self.key, "attn.hook_v": self.value}
        query, key, value = (  # (B, H, T, d)
            seen(watch, name, packing.unpack(project(x)).unflatten(-1, (self.num_heads, -1))).transpose(1, 2)
            for name, project in names.items()
        )
        context = attend(query, key, value, mask, self.dropout_prob if self.training else 0.0, watch)
        return packing.pack(seen(watch, "attn.hook_z", context.transpose(1, 2)).flatten(2))  # (N, D)


def attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float, watch: Watch | None = None
) -> Tensor:
    """dropout(softmax(query key^T / sqrt(d) + mask)) value, (B, H, T, d).

    PyTorch's fused kernel computes it, unless somebody watches or plain products are faster."""
    is_plain_faster = query.device.type == "cpu" and (query.shape[2] <= _SHORT or query.dtype == torch.bfloat16)
    if watch is None and not is_plain_faster:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
    B, H, T, d = query.shape
    query, key, value = (each.reshape(B * H, T, d) for each in (query, key, value))
    bias = query.new_zeros(1, 1, 1) if mask is None else mask.expand(-1, H, -1, -1).reshape(B * H, 1, T)
    scores = torch.baddbmm(bias, query, key.transpose(1, 2), alpha=d**-0.5).view(B, H, T, T)
    weights = F.dropout(seen(watch, "attn.hook_attn_scores", scores).softmax(-1), dropout)
    weights = seen(watch, "attn.hook_pattern", weights).view(B * H, T, T)
    return (weights @ value).view(B, H, T, d)


class ProjectAddNorm(nn.Module):
    """The end of each block: LayerNorm(residual + dropout(dense(x))). names: of these three numbers, in turn."""

    def __init__(self, in_features: int, config: BertConfig, names: tuple[str, str, str]) -> None:
        super().__init__()
        self.dense = nn.Linear(in_features, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.names = names

    def forward(self, x: Tensor, residual: Tensor, watch: Watch | None = None) -> Tensor:
        projected, total, normalised = self.names
        x = seen(watch, projected, self.dropout(self.dense(x)))
        x = seen(watch, total, residual + x)
        return seen(watch, normalised, self.LayerNorm(x))


class BertLayer(nn.Module):
    """Self-attention, then a feed-forward block, each with its own residual and LayerNorm. kept: (M,) indices of the
    vectors that are needed after attention; None means all."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        names = "hook_attn_out", "hook_resid_mid", "ln1.hook_normalized"
        output = ProjectAddNorm(config.hidden_size, config, names)
        self.attention: Any = nn.ModuleDict({"self": BertSelfAttention(config), "output": output})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(config.hidden_size, config.intermediate_size)})
        names = "hook_mlp_out", "hook_resid_post", "hook_normalized_resid_post"
        self.output = ProjectAddNorm(config.intermediate_size, config, names)
        self.activation = _ACTIVATIONS[config.hidden_act]

    def forward(
        self, x: Tensor, mask: Tensor | None, packing: Packing, watch: Watch | None = None, kept: Tensor | None = None
    ) -> Tensor:
        x = seen(watch, "hook_resid_pre", x)
        context = self.attention.self(x, mask, packing, watch)
        if kept is not None:
            context, x = at(context, kept), at(x, kept)
        x = self.attention.output(context, x, watch)
        inner = seen(watch, "mlp.hook_pre", self.intermediate["dense"](x))  # (N, F)
        inner = seen(watch, "mlp.hook_post", self.activation(inner))
        return self.output(inner, x, watch)


class BertModel(nn.Module):
    """The encoder and its pooler. generator: draws the initial weights; None means PyTorch's global one. Under
    `torch.device("meta")` nothing is drawn or allocated, for weights that are loaded afterwards."""

    def __init__(self, config: BertConfig, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.config = config
        with torch.device("meta"):
            self.embeddings = BertEmbeddings(config)
            layers = nn.ModuleList(BertLayer(config) for _ in range(config.num_hidden_layers))
            self.encoder: Any = nn.ModuleDict({"layer": layers})
            self.pooler = nn.ModuleDict({"dense": nn.Linear(config.hidden_size, config.hidden_size)})
        initialise(self, config, generator)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        watch: Watch | None = None,
        asked_positions: Tensor | None = None,
        packing: Packing | None = None,
    ) -> BertOutput:
        """Encode a batch.

        input_ids: (B, T). attention_mask: (B, T), 0 at padding; None means no padding. token_type_ids: (B, T) segments
        0 and 1; None means all 0. watch: is given each number by the name that TransformerLens' HookedEncoder has for
        it, with its shape there, and returns what takes its place; None in training. asked_positions: (M,) positions to
        which last_hidden_state is limited, (M, D); where nobody watches and the pooler reads [CLS], the last layer then
        computes only these and each row's first token after its attention. packing: `Packing.of` this attention_mask,
        to compute no padding; the hidden states of padding then mean nothing, and nobody can watch."""
        B, T = input_ids.shape
        packing = packing or Packing((B, T))
        token_type_ids = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        mask = None if attention_mask is None else torch.where(attention_mask.bool().view(B, 1, 1, T), 0.0, -math.inf)
        kept = None
        if asked_positions is not None:  # after the first token of each row
            first = torch.arange(0, B * T, T, device=input_ids.device)
            kept = torch.cat([first, asked_positions.to(first.device)])
            kept = kept if packing.slot is None else packing.slot[kept]
        may_skip = self.config.pooler == "first" and watch is None  # the last layer, all that is not needed
        needed = kept if may_skip else None

        x = self.embeddings(input_ids, token_type_ids, packing, watch)  # (B, T, D), or (N, D) of a packing
        for i, layer in enumerate(self.encoder.layer):
            is_last = layer is self.encoder.layer[-1]
            x = layer(x, mask, packing, _below(watch, f"blocks.{i}."), needed if is_last else None)

        if needed is not None:
            read, x = x.split([B, len(needed) - B])
        else:
            whole = packing.unpack(x)
            read = self.read_by_pooler(whole, attention_mask)
            x = whole if kept is None else at(x, kept[B:])
        pooled = seen(watch, "pooler.hook_pooler_out", torch.tanh(self.pooler["dense"](read)))
        return BertOutput(last_hidden_state=x, pooler_output=pooled)

    def read_by_pooler(self, hidden: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """What the pooler reads of the last layer, (B, T, D): the vectors at [CLS], (B, D), or means of real tokens."""
        if self.config.pooler == "first":
            return hidden[:, 0]
        if attention_mask is None:
            return hidden.mean(1)
        real = attention_mask[..., None].to(hidden.dtype)
        return (hidden * real).sum(1) / real.sum(1)


class BertMaskedWordHead(nn.Module):
    """A transform of the hidden state, then its product with each word's embedding, plus a bias."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        D = config.hidden_size
        self.transform = nn.ModuleDict({"dense": nn.Linear(D, D), "LayerNorm": nn.LayerNorm(D, config.layer_norm_eps)})
        self.activation = _ACTIVATIONS[config.hidden_act]
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, x: Tensor, word_embeddings: Tensor, watch: Watch | None = None) -> Tensor:
        x = seen(watch, "mlm_head.hook_pre", self.transform["dense"](x))
        x = seen(watch, "mlm_head.hook_post", self.activation(x))
        x = seen(watch, "mlm_head.ln.hook_normalized", self.transform["LayerNorm"](x))
        return F.linear(x, word_embeddings, self.bias)


class BertForPreTraining(nn.Module):
    """BERT with its two pre-training heads: masked words and next sentence. Arguments as for BertModel."""

    def __init__(self, config: BertConfig, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.config = config
        with torch.device("meta"):
            self.bert = BertModel(config)
            heads = {"predictions": BertMaskedWordHead(config), "seq_relationship": nn.Linear(config.hidden_size, 2)}
            self.cls: Any = nn.ModuleDict(heads)
            self.pooled_dropout = nn.Dropout(config.classifier_dropout or 0.0)
        initialise(self, config, generator)

    def forward(
        self,
        input_ids: Tensor,
        *inputs: Tensor | None,
        labels: Tensor | None = None,
        next_sentence_label: Tensor | None = None,
        watch: Watch | None = None,
        **options: Any,
    ) -> PretrainingOutput:
        """Encode a batch and score words and sentence pairs; other arguments as for `BertModel.forward`.

        With asked_positions, it scores words only there, (M, V), which saves most of a small model's arithmetic.
        labels: (B, T), or (M,) with asked_positions; -100 where no word is asked. next_sentence_label: (B,), 0 IsNext,
        1 NotNext, -100. The loss is the sum of both means; without one of the two it is None, as in `transformers`. A
        training counts the losses apart, see `Pretraining`."""
        output = self.bert(input_ids, *inputs, watch=watch, **options)
        words = self.score_words(output.last_hidden_state, watch)
        pairs = self.cls["seq_relationship"](self.pooled_dropout(output.pooler_output))
        loss = None
        if labels is not None and next_sentence_label is not None:
            loss = F.cross_entropy(words.flatten(0, -2), labels.flatten()) + F.cross_entropy(pairs, next_sentence_label)
        return PretrainingOutput(output.last_hidden_state, output.pooler_output, words, pairs, loss)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device

    def score_words(self, hidden: Tensor, watch: Watch | None = None) -> Tensor:
        """Logits (..., V) of all words for hidden states (..., D) of any layer. watch: of the head's own numbers."""
        return self.cls["predictions"](hidden, self.bert.embeddings.word_embeddings.weight, watch)


def initialise(module: nn.Module, config: BertConfig, generator: torch.Generator | None) -> None:
    """Draw all parameters of a module. Under `torch.device("meta")` nothing is done: there, the module around it draws
    them all."""
    if torch.get_default_device().type == "meta":
        return
    drawn = {}
    for name, parameter in module.named_parameters():
        values = draw(name, parameter.shape, config, generator).to(torch.get_default_device())
        # An unused table is drawn too, so that the later ones are the same with and without it.
        drawn[name] = values * parameter.requires_grad
    module.load_state_dict(drawn, assign=True)


def draw(name: str, shape: Sequence[int], config: BertConfig, generator: torch.Generator | None = None) -> Tensor:
    """A parameter's initial values: LayerNorm 1, biases 0, all else from N(0, std) cut at two standard deviations.

    Sinusoidal position vectors (Vaswani et al. 2017, section 3.5), the sines first, have that deviation. One position
    further is the same rotation everywhere: a head learns to attend to a neighbour once, not for each position anew."""
    if name.endswith(("bias", "LayerNorm.weight")):
        return torch.full(shape, 0.0 if name.endswith("bias") else 1.0)
    std = config.initializer_range
    values = torch.empty(shape, device=None if generator is None else generator.device)  # maybe not the default device
    nn.init.trunc_normal_(values, std=std, a=-2 * std, b=2 * std, generator=generator)
    if name.endswith("position_embeddings.weight") and config.initial_positions == "sinusoidal":
        positions, width = shape
        half = (width + 1) // 2
        angles = torch.arange(positions)[:, None] * 10000.0 ** (-2 * torch.arange(half) / width)  # (positions, half)
        return torch.cat([angles.sin(), angles.cos()], 1)[:, :width] * std * math.sqrt(2)
    return values
