"""BERT (Devlin et al. 2018), as google-research/bert defines it and under Hugging Face's tensor names.

Shapes: B batch, T tokens, H heads, D hidden size, F feed-forward size, V vocabulary, M asked positions of a batch, at
which the model predicts the token. Comments give the shapes without packing; for `rows`, see `bert_core.packing`.

Post-LayerNorm: every block is LayerNorm(x + dropout(block(x))). The masked-word head shares its matrix with the word
embeddings. Query, key and value are one matrix product at run time and three tensors in a file.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bert_core.config import BertConfig
from bert_core.errors import checked
from bert_core.packing import ALL_ROWS, AllRows, OnlyAt

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu": F.gelu, "relu": F.relu}

# On a CPU, plain matrix products are faster than the fused kernel, which works in blocks, up to this many tokens; in
# bfloat16 always, 1.7 to 6 times with their gradients.
_SHORT = 32


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

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, rows: AllRows = ALL_ROWS) -> Tensor:
        T = input_ids.shape[1]
        words = self.word_embeddings(rows.pack(input_ids))  # (B, T, D)
        segments = self.token_type_embeddings(rows.pack(token_type_ids))
        positions = rows.position_vectors(self.position_embeddings.weight[:T])
        return self.dropout(self.LayerNorm(words + segments + positions))


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
        self,
        x: Tensor,
        mask: Tensor | None = None,
        rows: AllRows = ALL_ROWS,
        head_scale: Tensor | None = None,
        with_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        qkv = rows.unpack(self.qkv(x))  # (B, T, 3 * D)
        B, T, _ = qkv.shape
        query, key, value = qkv.view(B, T, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)  # (B, H, T, D/H) each
        context, weights = attend(query, key, value, mask, self.dropout_prob if self.training else 0.0, with_weights)
        if head_scale is not None:
            context = context * head_scale.view(-1, self.num_heads, 1, 1)
        return rows.pack(context.transpose(1, 2).flatten(2)), weights  # (B, T, D)

    @staticmethod
    def _split(module: nn.Module, state: dict[str, Tensor], prefix: str, _metadata: dict) -> None:
        for kind in ("weight", "bias"):
            parts = state.pop(f"{prefix}qkv.{kind}").chunk(3)
            state.update({f"{prefix}{name}.{kind}": part for name, part in zip(("query", "key", "value"), parts)})

    @staticmethod
    def _join(module: nn.Module, state: dict[str, Tensor], prefix: str, *_: object) -> None:
        for kind in ("weight", "bias"):
            names = [f"{prefix}{name}.{kind}" for name in ("query", "key", "value")]
            if all(name in state for name in names):
                state[f"{prefix}qkv.{kind}"] = torch.cat([state.pop(name) for name in names])


class ProjectAddNorm(nn.Module):
    """The last part of each block of a layer: LayerNorm(residual + dropout(dense(x)))."""

    def __init__(self, in_features: int, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(in_features, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        return self.LayerNorm(residual + self.dropout(self.dense(x)))


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


class BertLayer(nn.Module):
    """Self-attention, then a feed-forward block, each with its own residual and LayerNorm; see `BertSelfAttention`."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.attention = nn.ModuleDict(
            {"self": BertSelfAttention(config), "output": ProjectAddNorm(config.hidden_size, config)}
        )
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(config.hidden_size, config.intermediate_size)})
        self.output = ProjectAddNorm(config.intermediate_size, config)
        self.activation = _ACTIVATIONS[config.hidden_act]

    def forward(
        self, x: Tensor, mask: Tensor | None = None, rows: AllRows = ALL_ROWS, *attention_options: Any
    ) -> tuple[Tensor, Tensor | None]:
        context, weights = self.attention["self"](x, mask, rows, *attention_options)
        x = self.attention["output"](context, residual=rows.residual(x))
        inner = self.activation(self.intermediate["dense"](x))  # (B, T, F)
        return self.output(inner, residual=x), weights


@checked
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
            self.encoder = nn.ModuleDict(
                {"layer": nn.ModuleList(BertLayer(config) for _ in range(config.num_hidden_layers))}
            )
            self.pooler = nn.ModuleDict({"dense": nn.Linear(config.hidden_size, config.hidden_size)})
        _initialise(self, generator)

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
        packing: AllRows = ALL_ROWS,
    ) -> BertOutput:
        """Encode a batch.

        input_ids: (B, T) token ids. attention_mask: (B, T), 0 at padding; None means no padding.
        token_type_ids: (B, T) segments 0 and 1; None means all 0.
        asked_positions: (M,) positions among all B * T to which last_hidden_state is limited, (M, D). After its
        attention, the last layer then computes only these and each row's first token, unless all hidden states are
        requested.
        head_scale: (layers, H), or (layers, B, H) for each row on its own; factors on the heads' outputs before the
        output projection, so 0 switches a head off. None means all 1 and costs nothing.
        packing: `Packing.of` this attention_mask; hidden states are then those of the N real tokens only, (N, D).
        """
        B, T = input_ids.shape
        layers = cast(nn.ModuleList, self.encoder["layer"])
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(input_ids)
        mask = None
        if attention_mask is not None:
            mask = torch.zeros(B, 1, 1, T, device=input_ids.device)
            mask.masked_fill_(~attention_mask.bool().view(B, 1, 1, T), float("-inf"))
        scales: Iterable[Tensor | None] = [None] * len(layers) if head_scale is None else head_scale
        rows = [packing] * len(layers)
        first = torch.arange(0, B * T, T, device=input_ids.device)
        wanted = None if asked_positions is None else torch.cat([first, asked_positions.to(first.device)])
        if wanted is not None and not output_hidden_states:
            rows[-1] = OnlyAt(packing, wanted)

        x = self.embeddings(input_ids, token_type_ids, packing)
        hidden_states, attentions = [x], []
        for layer, layer_rows, scale in zip(layers, rows, scales):
            x, weights = layer(x, mask, layer_rows, scale, output_attentions)
            hidden_states.append(x)
            attentions.append(weights)

        if wanted is None:
            first_tokens = packing.at(x, first)
        else:
            x = packing.at(x, wanted) if output_hidden_states else x
            first_tokens, x = x.split([B, len(wanted) - B])
        return BertOutput(
            last_hidden_state=x,
            pooler_output=torch.tanh(self.pooler["dense"](first_tokens)),
            hidden_states=tuple(hidden_states) if output_hidden_states else None,
            attentions=tuple(attentions) if output_attentions else None,
        )


class BertMaskedWordHead(nn.Module):
    """A transform of the hidden state, then its product with each word's embedding, plus a bias."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.transform = nn.ModuleDict(
            {
                "dense": nn.Linear(config.hidden_size, config.hidden_size),
                "LayerNorm": nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps),
            }
        )
        self.activation = _ACTIVATIONS[config.hidden_act]
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, x: Tensor, word_embeddings: Tensor) -> Tensor:
        x = self.transform["LayerNorm"](self.activation(self.transform["dense"](x)))
        return F.linear(x, word_embeddings, self.bias)


@checked
class BertForPreTraining(nn.Module):
    """BERT with its two pre-training heads: masked words and next sentence. Arguments as for BertModel."""

    def __init__(self, config: BertConfig, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.config = config
        with torch.device("meta"):
            self.bert = BertModel(config)
            self.cls = nn.ModuleDict(
                {"predictions": BertMaskedWordHead(config), "seq_relationship": nn.Linear(config.hidden_size, 2)}
            )
            self.pooled_dropout = nn.Dropout(config.classifier_dropout or 0.0)
        _initialise(self, generator)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        **options: Any,
    ) -> BertOutput:
        """Encode a batch and score words and sentence pairs; arguments as for `BertModel.forward`.

        With asked_positions, it scores words only there, (M, V), which saves most of a small model's arithmetic.
        """
        output = self.bert(input_ids, attention_mask, token_type_ids, **options)
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
def extend_positions(model: BertForPreTraining, positions: int, generator: torch.Generator) -> None:
    """Let a model read more tokens than before, `positions`: its position vectors stay, and new ones are drawn."""
    config = dataclasses.replace(model.config, max_position_embeddings=positions)
    embeddings = model.bert.embeddings
    old = embeddings.position_embeddings.weight  # (P, D)
    new = old.new_zeros(positions - len(old), config.hidden_size)
    if config.use_position_embeddings:
        draw_weights([("position_embeddings.weight", new)], config.initializer_range, generator)
    embeddings.position_embeddings = nn.Embedding.from_pretrained(
        torch.cat([old, new]), freeze=not config.use_position_embeddings
    )
    model.config = model.bert.config = config


def _initialise(model: "BertModel | BertForPreTraining", generator: torch.Generator | None) -> None:
    """Allocate the parameters and draw them; under `torch.device("meta")` do neither."""
    if torch.get_default_device().type == "meta":
        return
    model.apply(allocate)
    draw_weights(model.named_parameters(), model.config.initializer_range, generator)
    if model.config.initial_positions == "sinusoidal":
        for name, parameter in model.named_parameters():
            if name.endswith("position_embeddings.weight"):
                parameter.data = sinusoids(len(parameter), parameter.shape[1], model.config.initializer_range)
    for parameter in model.parameters():
        if not parameter.requires_grad:  # it was drawn too, so that the later ones are the same with and without it
            parameter.data.zero_()


def allocate(module: nn.Module) -> None:
    """Give a module's own parameters, on the meta device, memory of the CPU. `to_empty` does so too, but its first call
    imports sympy, which takes half a second."""
    for name, parameter in list(module.named_parameters(recurse=False)):
        values = torch.empty(parameter.shape, dtype=parameter.dtype)
        setattr(module, name, nn.Parameter(values, parameter.requires_grad))


def sinusoids(positions: int, width: int, std: float) -> Tensor:
    """Sinusoidal position vectors (positions, width), the sines first (Vaswani et al. 2017, section 3.5), scaled to the
    standard deviation `std`. One position further is the same rotation everywhere, so a head learns to attend to a
    neighbour once and not for each position anew."""
    half = (width + 1) // 2
    angles = torch.arange(positions)[:, None] * 10000.0 ** (-2 * torch.arange(half) / width)  # (P, D/2)
    return torch.cat([angles.sin(), angles.cos()], 1)[:, :width] * std * math.sqrt(2)


@torch.no_grad()
def draw_weights(
    parameters: Iterable[tuple[str, Tensor]], std: float, generator: torch.Generator | None = None
) -> None:
    """Fill parameters in place: weights from N(0, std) cut at two standard deviations, biases 0, LayerNorm 1 and 0."""
    for name, parameter in parameters:
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        elif name.endswith("LayerNorm.weight"):
            nn.init.ones_(parameter)
        else:
            nn.init.trunc_normal_(parameter, std=std, a=-2 * std, b=2 * std, generator=generator)
