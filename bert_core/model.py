"""BERT (Devlin et al. 2018), as google-research/bert defines it and under Hugging Face's tensor names.

Shapes: B batch, T tokens, H heads, D hidden size, F feed-forward size, V vocabulary, N asked positions in a batch.

Post-LayerNorm: every block is LayerNorm(x + dropout(block(x))). The masked-word head shares its matrix with the word
embeddings. Query, key and value are one matrix product at run time and three tensors in a file.
"""

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bert_core.config import BertConfig
from bert_core.packing import Packing

# Up to so many tokens, three plain products are faster on a processor than the fused kernel, which works in blocks.
_SHORT = 32


@dataclass
class BertOutput:
    """What a forward pass gives; what was not asked for is None.

    last_hidden_state: (B, T, D), or (N, D) at asked positions. pooler_output: (B, D). prediction_logits: (B, T, V), or
    (N, V). seq_relationship_logits: (B, 2), column 0 is IsNext. hidden_states: layers + 1 of (B, T, D), the embeddings
    first. attentions: one (B, H, T, T) per layer, rows sum to 1.
    """

    last_hidden_state: Tensor
    pooler_output: Tensor | None = None
    prediction_logits: Tensor | None = None
    seq_relationship_logits: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None


def _table(rows: int, width: int) -> nn.Embedding:
    # An nn.Embedding draws its numbers when it is made, which on the meta device takes PyTorch seconds of imports.
    return nn.Embedding.from_pretrained(torch.empty(rows, width), freeze=False)


def _rows(x: Tensor, places: Tensor, packing: Packing | None = None) -> Tensor:
    """Vectors at some of all B * T places, (M, D), of (B, T, D) or, packed, (N, D)."""
    return x.flatten(0, -2).index_select(0, places if packing is None else packing.number[places])


class BertEmbeddings(nn.Module):
    """Sum of word, position and segment vectors, normalised."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.word_embeddings = _table(config.vocab_size, config.hidden_size)
        self.position_embeddings = _table(config.max_position_embeddings, config.hidden_size)
        self.token_type_embeddings = _table(config.type_vocab_size, config.hidden_size)
        # What is not used is zero and never learns; it is added all the same, so that any BERT gives the same numbers.
        self.position_embeddings.weight.requires_grad_(config.use_position_embeddings)
        self.token_type_embeddings.weight.requires_grad_(config.use_token_type_embeddings)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, packing: Packing | None = None) -> Tensor:
        positions = self.position_embeddings.weight[: input_ids.shape[1]]  # (T, D)
        if packing is not None:
            input_ids, token_type_ids = (each.flatten()[packing.real] for each in (input_ids, token_type_ids))
            positions = F.embedding(packing.real % packing.shape[1], positions)
        summed = self.word_embeddings(input_ids) + self.token_type_embeddings(token_type_ids) + positions
        return self.dropout(self.LayerNorm(summed))  # (B, T, D), or (N, D) packed


class BertSelfAttention(nn.Module):
    """Scaled dot-product attention in H heads of size D / H.

    Written out, it gives the weights too and takes a mask to add, (B * H, 1, T); otherwise PyTorch's fused kernel
    takes a mask of what may be seen, (B, 1, 1, T). places: as in `BertLayer`.
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
        mask: Tensor | None,
        written_out: bool,
        head_scale: Tensor | None = None,
        packing: Packing | None = None,
        places: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        qkv = self.qkv(x) if packing is None else packing.unpack(self.qkv(x))
        B, T, width = qkv.shape
        H, D = self.num_heads, width // 3
        by_head = qkv.view(B, T, 3, H, D // H).permute(2, 0, 3, 1, 4)  # (3, B, H, T, D/H)
        dropout = self.dropout_prob if self.training else 0.0
        weights = None
        if written_out:
            query, key, value = by_head.reshape(3, B * H, T, D // H)
            scale, bias = (D // H) ** -0.5, query.new_zeros(1, 1, 1) if mask is None else mask
            scores = torch.baddbmm(bias, query, key.transpose(1, 2), alpha=scale)
            weights = F.dropout(scores.softmax(-1), dropout)
            context = (weights @ value).view(B, H, T, -1)
            weights = weights.view(B, H, T, T)
        else:
            context = F.scaled_dot_product_attention(*by_head, attn_mask=mask, dropout_p=dropout)
        if head_scale is not None:  # (H,) or (B, H)
            context = context * head_scale.view(-1, H, 1, 1)
        context = context.transpose(1, 2).reshape(B, T, D)
        if places is not None:
            return _rows(context, places), weights
        return context if packing is None else packing.pack(context), weights

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
    """The end of both blocks of a layer: LayerNorm(residual + dropout(dense(x)))."""

    def __init__(self, in_features: int, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(in_features, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        return self.LayerNorm(residual + self.dropout(self.dense(x)))


class BertLayer(nn.Module):
    """Self-attention, then a feed-forward block, each with its own residual and LayerNorm.

    places: (M,) places among all B * T; what comes after the attention is then done for those alone, and their vectors
    are given, (M, D).
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.attention = nn.ModuleDict(
            {"self": BertSelfAttention(config), "output": ProjectAddNorm(config.hidden_size, config)}
        )
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(config.hidden_size, config.intermediate_size)})
        self.output = ProjectAddNorm(config.intermediate_size, config)
        self.activation = {"gelu": F.gelu, "relu": F.relu}[config.hidden_act]

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None,
        written_out: bool,
        head_scale: Tensor | None = None,
        packing: Packing | None = None,
        places: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        context, weights = self.attention["self"](x, mask, written_out, head_scale, packing, places)
        if places is not None:
            x = _rows(x, places, packing)
        x = self.attention["output"](context, residual=x)
        inner = self.activation(self.intermediate["dense"](x))  # (..., F)
        return self.output(inner, residual=x), weights


class BertModel(nn.Module):
    """The encoder and its pooler.

    config: sizes. generator: source of the initial weights; None draws from PyTorch's global generator. Under
    `torch.device("meta")` nothing is drawn or allocated, for weights that are loaded afterwards.
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
        packing: Packing | None = None,
    ) -> BertOutput:
        """Encode a batch.

        input_ids: (B, T) token ids. attention_mask: (B, T), 0 where padding stands; None means no padding.
        token_type_ids: (B, T) segments 0 and 1; None means all 0.
        asked_positions: (N,) places among all B * T where last_hidden_state is wanted, (N, D). What comes after the
        last layer's attention is then done for those and the first tokens alone, unless all hidden states are wanted.
        head_scale: (layers, H), or (layers, B, H) for each row its own; what each head reads is multiplied by it
        before the output projection, so 0 switches a head off. None means all 1 and costs nothing.
        packing: of this attention_mask; hidden states are then those of the real tokens only, (real tokens, D).
        """
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(input_ids)
        written_out = output_attentions or (input_ids.device.type == "cpu" and input_ids.shape[1] <= _SHORT)
        mask = None if attention_mask is None else attention_mask.bool()[:, None, None, :]  # (B, 1, 1, T)
        if mask is not None and written_out:
            hidden = torch.zeros(mask.shape, device=mask.device).masked_fill_(~mask, float("-inf"))
            mask = hidden.expand(-1, self.config.num_attention_heads, 1, -1).flatten(0, 1)  # (B * H, 1, T)
        B, T = input_ids.shape
        first = torch.arange(0, B * T, T, device=input_ids.device)
        places = None if asked_positions is None else torch.cat([first, asked_positions.to(first.device)])
        x = self.embeddings(input_ids, token_type_ids, packing)
        hidden_states, attentions = [x], []
        last = self.encoder["layer"][-1]
        for i, layer in enumerate(self.encoder["layer"]):
            only = places if layer is last and not output_hidden_states else None
            x, weights = layer(x, mask, written_out, None if head_scale is None else head_scale[i], packing, only)
            hidden_states.append(x)
            attentions.append(weights if output_attentions else None)
        if places is not None and output_hidden_states:
            x = _rows(x, places, packing)
        of_pairs, x = (_rows(x, first, packing), x) if places is None else x.split([B, len(places) - B])
        return BertOutput(
            last_hidden_state=x,
            pooler_output=torch.tanh(self.pooler["dense"](of_pairs)),
            hidden_states=tuple(hidden_states) if output_hidden_states else None,
            attentions=tuple(attentions) if output_attentions else None,
        )


class BertMaskedWordHead(nn.Module):
    """A transform of the hidden state, then a score for each word by its embedding."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.transform = nn.ModuleDict(
            {
                "dense": nn.Linear(config.hidden_size, config.hidden_size),
                "LayerNorm": nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps),
            }
        )
        self.activation = {"gelu": F.gelu, "relu": F.relu}[config.hidden_act]
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
        *,
        asked_positions: Tensor | None = None,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
        head_scale: Tensor | None = None,
        packing: Packing | None = None,
    ) -> BertOutput:
        """Encode a batch and score words and sentence pairs.

        asked_positions: (N,) places among all B * T; words are then scored there alone, (N, V), which saves most of the
        arithmetic of a small model. Other arguments as for BertModel.
        """
        output = self.bert(
            input_ids,
            attention_mask,
            token_type_ids,
            asked_positions=asked_positions,
            output_hidden_states=output_hidden_states,
            output_attentions=output_attentions,
            head_scale=head_scale,
            packing=packing,
        )
        output.prediction_logits = self.score_words(output.last_hidden_state)
        output.seq_relationship_logits = self.cls["seq_relationship"](self.pooled_dropout(output.pooler_output))
        return output

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    def score_words(self, hidden: Tensor) -> Tensor:
        """Scores (..., V) of every word of the vocabulary for hidden states (..., D) of any layer."""
        return self.cls["predictions"](hidden, self.bert.embeddings.word_embeddings.weight)


@torch.no_grad()
def extend_positions(model: BertForPreTraining, positions: int, generator: torch.Generator) -> None:
    """Let a model read `positions` tokens, more than before: the vectors it has stay first, the new ones are drawn."""
    config = dataclasses.replace(model.config, max_position_embeddings=positions)
    embeddings = model.bert.embeddings
    old = embeddings.position_embeddings.weight  # (P, D)
    new = old.new_empty(positions - len(old), config.hidden_size)
    if config.use_position_embeddings:
        draw_weights([("position_embeddings.weight", new)], config.initializer_range, generator)
    else:
        new.zero_()
    embeddings.position_embeddings = nn.Embedding.from_pretrained(
        torch.cat([old, new]), freeze=not config.use_position_embeddings
    )
    model.config = model.bert.config = config


def _initialise(model: nn.Module, generator: torch.Generator | None) -> None:
    """Allocate the parameters and draw them; under `torch.device("meta")` do neither."""
    if torch.get_default_device().type == "meta":
        return
    model.to_empty(device="cpu")
    draw_weights(model.named_parameters(), model.config.initializer_range, generator)
    if model.config.initial_positions == "sinusoidal":
        for name, parameter in model.named_parameters():
            if name.endswith("position_embeddings.weight"):
                parameter.data = sinusoids(*parameter.shape, model.config.initializer_range)
    for parameter in model.parameters():
        if not parameter.requires_grad:  # drawn like the others, so that these are the same with and without it
            parameter.data.zero_()


def sinusoids(positions: int, width: int, std: float) -> Tensor:
    """Position vectors (positions, width) of waves from 2 pi to 20,000 pi long (Vaswani et al. 2017, section 3.5), with
    the sines first. One place further is the same turn everywhere, so that looking at a neighbour is learned once and
    not for each place."""
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
