"""BERT (Devlin et al. 2018), as google-research/bert defines it and under Hugging Face's tensor names.

Shapes: B batch, T tokens, N computed positions of the B * T (see `Packing`), M asked positions, at which the model
predicts the token, H heads, D hidden size, F feed-forward size, V vocabulary. Positions are counted through the whole
batch, 0 to B * T - 1.

Post-LayerNorm: every block is LayerNorm(x + dropout(block(x))). The masked-word head shares its matrix with the word
embeddings. Query, key and value are one matrix product at run time and three tensors in a file; `separate_projections`
makes them three modules.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bert_core.config import BertConfig

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "relu": F.relu,
    "tanh": torch.tanh,
    "linear": lambda x: x,
}

_PROJECTIONS = ("query", "key", "value")

# On a CPU, plain matrix products are faster than the fused kernel, which works in blocks, up to this many tokens; in
# bfloat16 always, 1.7 to 6 times with their gradients.
_SHORT = 32


@dataclass(frozen=True)
class Packing:
    """The positions of a batch that the model computes, everywhere but in attention: a third to a half is padding.

    shape: (B, T). real: (N,) the computed positions in order; None means all. number: (B * T,) the index in `real` of
    each position; for padding, that of the real token before it.
    """

    shape: tuple[int, int]
    real: Tensor | None = None
    number: Tensor | None = None

    @classmethod
    def of(cls, attention_mask: Tensor, device: torch.device | str = "cpu") -> "Packing":
        """The packing of a (B, T) mask on the CPU: 1 at real tokens, with which each row begins, and 0 at padding."""
        B, T = attention_mask.shape
        flat = attention_mask.flatten().bool()
        if flat.all():
            return cls((B, T))
        return cls((B, T), flat.nonzero().squeeze(1).to(device), (flat.cumsum(0) - 1).to(device))

    def pack(self, padded: Tensor) -> Tensor:
        """The computed positions, (N, C), of a (B, T, C) tensor; of a (B, T) tensor (N,)."""
        flat = padded.flatten(0, 1)
        return flat if self.real is None else flat.index_select(0, self.real)

    def unpack(self, packed: Tensor) -> Tensor:
        """An (N, C) tensor as (B, T, C); padding gets a copy of a real token, which the attention mask hides."""
        flat = packed if self.number is None else packed.index_select(0, self.number)
        return flat.view(*self.shape, -1)

    def index(self, positions: Tensor) -> Tensor:
        """Where the vectors of these positions are in a packed tensor."""
        return positions if self.number is None else self.number[positions]


@dataclass
class BertOutput:
    """The output of a forward pass; fields that were not requested are None.

    last_hidden_state: (B, T, D), or (M, D) at asked positions. pooler_output: (B, D). prediction_logits: (B, T, V), or
    (M, V). seq_relationship_logits: (B, 2), column 0 is IsNext. hidden_states: layers + 1 of (B, T, D), the embeddings
    first. attentions: one (B, H, T, T) per layer, after dropout; without dropout, rows sum to 1.
    """

    last_hidden_state: Tensor
    pooler_output: Tensor
    prediction_logits: Tensor | None = None
    seq_relationship_logits: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None


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

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, packing: Packing) -> Tensor:
        positions = torch.arange(input_ids.shape[1], device=input_ids.device).expand_as(input_ids)  # (B, T)
        words = self.word_embeddings(packing.pack(input_ids))  # (N, D)
        segments = self.token_type_embeddings(packing.pack(token_type_ids))
        x = words + segments + self.position_embeddings(packing.pack(positions))
        return self.dropout(self.LayerNorm(x))


class BertSelfAttention(nn.Module):
    """Scaled dot-product attention in H heads of size D / H.

    mask: (B, 1, 1, T), added to the scores: 0 at real tokens, -inf at padding; None means no padding. head_scale: (H,)
    or (B, H), factors on the heads' outputs; None means 1. with_weights: return the weights too, (B, H, T, T).
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.dropout_prob = config.attention_probs_dropout_prob
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.register_state_dict_post_hook(self._split)
        self.register_load_state_dict_pre_hook(self._join)

    def forward(
        self, x: Tensor, mask: Tensor | None, packing: Packing, head_scale: Tensor | None, with_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        qkv = packing.unpack(self.project(x))  # (N, D) -> (B, T, 3 * D)
        B, T, _ = qkv.shape
        query, key, value = qkv.view(B, T, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)  # (B, H, T, D/H) each
        context, weights = attend(query, key, value, mask, self.dropout_prob if self.training else 0.0, with_weights)
        if head_scale is not None:
            context = context * head_scale.view(-1, self.num_heads, 1, 1)
        return packing.pack(context.transpose(1, 2).flatten(2)), weights  # (N, D)

    def project(self, x: Tensor) -> Tensor:
        """Query, key and value of the vectors x (N, D), side by side, (N, 3 * D)."""
        if hasattr(self, "qkv"):
            return self.qkv(x)
        return torch.cat([self.get_submodule(name)(x) for name in _PROJECTIONS], -1)

    @staticmethod
    def _split(_: nn.Module, state: dict[str, Tensor], prefix: str, *__: object) -> None:
        for kind in ("weight", "bias"):
            if f"{prefix}qkv.{kind}" in state:
                parts = state.pop(f"{prefix}qkv.{kind}").chunk(3)
                state.update({f"{prefix}{name}.{kind}": part for name, part in zip(_PROJECTIONS, parts)})

    @staticmethod
    def _join(module: nn.Module, state: dict[str, Tensor], prefix: str, *__: object) -> None:
        for kind in ("weight", "bias"):
            names = [f"{prefix}{name}.{kind}" for name in _PROJECTIONS]
            if hasattr(module, "qkv") and all(name in state for name in names):
                state[f"{prefix}qkv.{kind}"] = torch.cat([state.pop(name) for name in names])


def separate_projections(model: nn.Module) -> nn.Module:
    """Make query, key and value in each layer of a model modules of their own, under the names of its state dict, and
    return it: what finds modules by these names, such as LoRA and `torch.func.functional_call`, then works. A step
    takes a little longer, and a training state that was saved before does not fit, since the order is another."""
    for attention in [each for each in model.modules() if isinstance(each, BertSelfAttention) and hasattr(each, "qkv")]:
        for name, weight, bias in zip(_PROJECTIONS, attention.qkv.weight.chunk(3), attention.qkv.bias.chunk(3)):
            part = nn.Linear(weight.shape[1], len(weight), device="meta")
            part.weight, part.bias = (
                nn.Parameter(each.detach().clone(), each.requires_grad) for each in (weight, bias)
            )
            attention.add_module(name, part)
        del attention.qkv
    return model


def attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float, with_weights: bool
) -> tuple[Tensor, Tensor | None]:
    """dropout(softmax(query key^T / sqrt(D/H) + mask)) value, (B, H, T, D/H), and on request its weights, (B, H, T, T).

    PyTorch's fused kernel computes it, unless the weights are requested or plain products are faster.
    """
    is_plain_faster = query.device.type == "cpu" and (query.shape[2] <= _SHORT or query.dtype == torch.bfloat16)
    if not (with_weights or is_plain_faster):
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout), None
    B, H, T, width = query.shape
    query, key, value = (each.reshape(B * H, T, width) for each in (query, key, value))
    bias = query.new_zeros(1, 1, 1) if mask is None else mask.expand(-1, H, -1, -1).reshape(B * H, 1, T)
    scores = torch.baddbmm(bias, query, key.transpose(1, 2), alpha=width**-0.5)
    weights = F.dropout(scores.softmax(-1), dropout)
    return (weights @ value).view(B, H, T, width), weights.view(B, H, T, T) if with_weights else None


class ProjectAddNorm(nn.Module):
    """The last part of each block of a layer: LayerNorm(residual + dropout(dense(x)))."""

    def __init__(self, in_features: int, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(in_features, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        return self.LayerNorm(residual + self.dropout(self.dense(x)))


class BertLayer(nn.Module):
    """Self-attention, then a feed-forward block, each with its own residual and LayerNorm. kept: (M,) indices of the
    vectors that are needed after attention; None means all."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        parts = {"self": BertSelfAttention(config), "output": ProjectAddNorm(config.hidden_size, config)}
        self.attention: Any = nn.ModuleDict(parts)
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(config.hidden_size, config.intermediate_size)})
        self.output = ProjectAddNorm(config.intermediate_size, config)
        self.activation = _ACTIVATIONS[config.hidden_act]

    def forward(self, x: Tensor, *attention_inputs: object, kept: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        context, weights = self.attention.self(x, *attention_inputs)
        if kept is not None:
            context, x = context.index_select(0, kept), x.index_select(0, kept)
        x = self.attention.output(context, residual=x)
        inner = self.activation(self.intermediate["dense"](x))  # (N, F)
        return self.output(inner, residual=x), weights


class BertModel(nn.Module):
    """The encoder and its pooler.

    generator: draws the initial weights; None means PyTorch's global generator. Under `torch.device("meta")` nothing is
    drawn or allocated, for weights that are loaded afterwards.
    """

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
        asked_positions: Tensor | None = None,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
        head_scale: Tensor | None = None,
        packing: Packing | None = None,
    ) -> BertOutput:
        """Encode a batch.

        input_ids: (B, T). attention_mask: (B, T), 0 at padding; None means no padding. token_type_ids: (B, T) segments
        0 and 1; None means all 0. asked_positions: (M,) positions to which last_hidden_state is limited, (M, D); after
        its attention, the last layer then computes only these and each row's first token, unless all hidden states are
        requested or pooled. head_scale: (layers, H), or (layers, B, H) for each row; factors on the heads' outputs
        before the output projection, so 0 switches a head off. packing: `Packing.of` this attention_mask, to compute no
        padding; the hidden states of padding then mean nothing.
        """
        B, T = input_ids.shape
        packing = packing or Packing((B, T))
        token_type_ids = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        mask = kept = None
        if attention_mask is not None:
            mask = torch.where(attention_mask.bool().view(B, 1, 1, T), 0.0, -math.inf)
        if asked_positions is not None:  # after the first token of each row
            first = torch.arange(0, B * T, T, device=input_ids.device)
            kept = packing.index(torch.cat([first, asked_positions.to(first.device)]))
        scales = [None] * len(self.encoder.layer) if head_scale is None else head_scale

        x = self.embeddings(input_ids, token_type_ids, packing)  # (N, D)
        hidden_states, attentions = [x], []
        limit = kept if self.config.pooler == "first" and not output_hidden_states else None
        for layer, scale in zip(self.encoder.layer, scales):
            kept_here = limit if layer is self.encoder.layer[-1] else None
            x, weights = layer(x, mask, packing, scale, output_attentions, kept=kept_here)
            hidden_states.append(x)
            attentions.append(weights)

        if limit is not None:
            read, x = x.split([B, len(limit) - B])
        else:
            whole = packing.unpack(x)
            read, x = self.read_by_pooler(whole, attention_mask), whole if kept is None else x.index_select(0, kept[B:])
        return BertOutput(
            last_hidden_state=x,
            pooler_output=torch.tanh(self.pooler["dense"](read)),
            hidden_states=tuple(map(packing.unpack, hidden_states)) if output_hidden_states else None,
            attentions=tuple(attentions) if output_attentions else None,
        )

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

    def forward(self, x: Tensor, word_embeddings: Tensor) -> Tensor:
        x = self.transform["LayerNorm"](self.activation(self.transform["dense"](x)))
        return F.linear(x, word_embeddings, self.bias)


class BertForPreTraining(nn.Module):
    """BERT with its two pre-training heads: masked words and next sentence. Arguments as for BertModel."""

    def __init__(self, config: BertConfig, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.config = config
        with torch.device("meta"):
            self.bert = BertModel(config)
            heads = {"predictions": BertMaskedWordHead(config), "seq_relationship": nn.Linear(config.hidden_size, 2)}
            self.cls = nn.ModuleDict(heads)
            self.pooled_dropout = nn.Dropout(config.classifier_dropout or 0.0)
        initialise(self, config, generator)

    def forward(self, input_ids: Tensor, *inputs: Tensor | None, **options: object) -> BertOutput:
        """Encode a batch and score words and sentence pairs; arguments as for `BertModel.forward`.

        With asked_positions, it scores words only there, (M, V), which saves most of a small model's arithmetic.
        """
        output = self.bert(input_ids, *inputs, **options)
        output.prediction_logits = self.score_words(output.last_hidden_state)
        output.seq_relationship_logits = self.cls["seq_relationship"](self.pooled_dropout(output.pooler_output))
        return output

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device

    def score_words(self, hidden: Tensor) -> Tensor:
        """Logits (..., V) of all words for hidden states (..., D) of any layer."""
        return self.cls["predictions"](hidden, self.bert.embeddings.word_embeddings.weight)


@torch.no_grad()
def initialise(module: nn.Module, config: BertConfig, generator: torch.Generator | None) -> None:
    """Draw all parameters of a module on the meta device; where that is PyTorch's default device, leave them there."""
    if torch.get_default_device().type != "meta":
        for name, parameter in list(module.named_parameters()):
            values = draw(name, parameter.shape, config, generator).to(torch.get_default_device())
            # An unused table is drawn too, so that the later ones are the same with and without it.
            set_parameter(module, name, values * parameter.requires_grad, parameter.requires_grad)


def set_parameter(module: nn.Module, name: str, values: Tensor, requires_grad: bool = False) -> None:
    """Replace a parameter; the new one shares the memory of `values`."""
    owner, _, attribute = name.rpartition(".")
    setattr(module.get_submodule(owner), attribute, nn.Parameter(values, requires_grad))


def draw(name: str, shape: Sequence[int], config: BertConfig, generator: torch.Generator | None = None) -> Tensor:
    """A parameter's initial values: LayerNorm 1, biases 0, all else from N(0, std) cut at two standard deviations.

    Sinusoidal position vectors (Vaswani et al. 2017, section 3.5), the sines first, have that deviation. One position
    further is the same rotation everywhere: a head learns to attend to a neighbour once, not for each position anew.
    """
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
