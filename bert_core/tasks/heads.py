"""BERT with an output layer for a task, under the class and tensor names of Hugging Face (Devlin et al. 2018, 4).

Shapes: B rows of a batch, C choices of an example, T tokens, D hidden size, L labels, M positions.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from bert_core.config import BertConfig
from bert_core.errors import CheckpointError, ConfigError, checked
from bert_core.model import BertModel, Packing, initialise
from bert_core.storage.checkpoint import MAX_OUTPUTS, Checkpoint
from bert_core.storage.weights import TASK_HEADS

_NO_POSITIONS = torch.empty(0, dtype=torch.long)  # the last layer then computes only each row's first token


@checked
class BertForTask(nn.Module):
    """An encoder and one linear layer; base of the classes below.

    outputs: numbers that the layer gives for each row or token. generator: draws the initial weights; None means
    PyTorch's global generator. Under `torch.device("meta")` nothing is drawn.
    """

    has_dropout: ClassVar[bool] = True

    def __init__(self, config: BertConfig, outputs: int, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        if not 1 <= outputs <= MAX_OUTPUTS:
            raise ConfigError(f"outputs is {outputs:,}; it must be a number from 1 to {MAX_OUTPUTS:,}.")
        self.config = config
        self.layer, self.has_pooler = TASK_HEADS[type(self).__name__]
        self.bert = BertModel(config, generator=generator)
        with torch.device("meta"):  # a layer elsewhere would draw from the global generator, as another run's dropout
            self.add_module(self.layer, nn.Linear(config.hidden_size, outputs))
        initialise(self.output_layer, config, generator)
        if not self.has_pooler:
            self.bert.pooler.requires_grad_(False)  # nothing reads it
        dropout = config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout
        self.dropout = nn.Dropout(dropout if self.has_dropout else 0.0)

    @property
    def output_layer(self) -> nn.Linear:
        """The linear layer on the encoder's output."""
        layer = self.get_submodule(self.layer)
        assert isinstance(layer, nn.Linear)
        return layer

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        positions: Tensor | None = None,
        packing: Packing | None = None,
    ) -> Tensor:
        """Encode a batch, (B, T) each, and return the logits: (B, L), or those of every token, (B, T, L).

        positions: (M,) positions among all B * T to which a layer that reads tokens is limited, (M, L). packing: as for
        `BertModel.forward`.
        """
        asked = _NO_POSITIONS if self.has_pooler else positions
        output = self.bert(input_ids, attention_mask, token_type_ids, asked_positions=asked, packing=packing)
        if self.has_pooler:
            return self.output_layer(self.dropout(output.pooler_output))
        return self.output_layer(self.dropout(output.last_hidden_state))


class BertForSequenceClassification(BertForTask):
    """One label for a text or a pair of texts, or one number for regression: logits (B, L)."""


class BertForMultipleChoice(BertForTask):
    """A score for each choice of an example, each in a row with its prompt: logits (B, C)."""

    def __init__(self, config: BertConfig, outputs: int = 1, *, generator: torch.Generator | None = None) -> None:
        super().__init__(config, outputs, generator=generator)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        **options: Any,
    ) -> Tensor:
        """As the base class, with inputs (B, C, T)."""
        choices, T = input_ids.shape[-2:]
        mask, segments = (
            None if each is None else each.reshape(-1, T).contiguous() for each in (attention_mask, token_type_ids)
        )
        return super().forward(input_ids.reshape(-1, T), mask, segments, **options).view(-1, choices)


class BertForQuestionAnswering(BertForTask):
    """A score for each token as the first and as the last one of the answer: logits (B, T, 2)."""

    has_dropout = False

    def __init__(self, config: BertConfig, outputs: int = 2, *, generator: torch.Generator | None = None) -> None:
        super().__init__(config, outputs, generator=generator)


class BertForTokenClassification(BertForTask):
    """A label for each token: logits (B, T, L)."""


MODEL_CLASSES: dict[str, type[BertForTask]] = {
    "text-classification": BertForSequenceClassification,
    "text-regression": BertForSequenceClassification,
    "multiple-choice": BertForMultipleChoice,
    "question-answering": BertForQuestionAnswering,
    "token-classification": BertForTokenClassification,
}


def task_of(checkpoint: Checkpoint) -> str:
    """The task of a fine-tuned model. Raises CheckpointError for a model without a task's output layer."""
    head = checkpoint.head
    if head is None:
        raise CheckpointError(f"{checkpoint.name} is not fine-tuned; it has no output layer for a task.")
    if head.is_regression:
        return "text-regression"
    return next(task for task, kind in MODEL_CLASSES.items() if kind.__name__ == head.architecture)


def learned_columns(checkpoint: Checkpoint | None) -> tuple[str, ...]:
    """The columns from which a fine-tuned model learned, see `TaskData.columns`; () if its recipe does not say."""
    columns = ((checkpoint and checkpoint.recipe) or {}).get("columns")
    if not isinstance(columns, list | tuple) or len(columns) not in (2, 3):
        return ()
    return tuple(columns) if all(isinstance(each, str) for each in columns) else ()


def model_of(checkpoint: Checkpoint) -> BertForTask:
    """A fine-tuned model in eval mode, which shares its weights with the checkpoint. Errors as for `task_of`."""
    kind, head = MODEL_CLASSES[task_of(checkpoint)], checkpoint.head
    assert head is not None
    with torch.device("meta"):
        model = kind(checkpoint.config, len(head.weight))
    encoder = {f"bert.{name}": tensor for name, tensor in checkpoint.model.bert.state_dict().items()}
    model.load_state_dict({**encoder, **head.tensors()}, assign=True)
    return model.eval()
