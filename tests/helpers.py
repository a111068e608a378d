"""Functions that several test modules share. Sizes are odd on purpose: nothing fits by accident."""

import torch

from bert_core.config import BertConfig
from bert_core.model import BertForPreTraining


def make_model(config: BertConfig, seed: int = 0) -> BertForPreTraining:
    """A model in eval mode in which every number is random, biases and LayerNorms too."""
    generator = torch.Generator().manual_seed(seed)
    model = BertForPreTraining(config, generator=generator).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.empty_like(parameter).normal_(0, 0.2, generator=generator))
    return model


def make_batch(config: BertConfig, seed: int = 0) -> dict[str, torch.Tensor]:
    """Three inputs of seven tokens (B=3, T=7), the first padded by three and the second by one."""
    generator = torch.Generator().manual_seed(seed)
    mask = torch.ones(3, 7, dtype=torch.long)
    mask[0, 4:], mask[1, 6:] = 0, 0
    return {
        "input_ids": torch.randint(5, config.vocab_size, (3, 7), generator=generator),
        "attention_mask": mask,
        "token_type_ids": torch.randint(0, 2, (3, 7), generator=generator),
    }
