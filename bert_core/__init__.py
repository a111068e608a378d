"""Balcony's core: a compact BERT that is trained, saved, opened and looked into, without any user interface.

    from bert_core import TrainingService, fill_mask

    service = TrainingService()
    run = service.start("romeo-juliet", seed=0)
    ...
    fill_mask(run.snapshots[-1].checkpoint(), "hello how [MASK] you", "hello romeo my name is juliet")

Imports run one way: errors <- config <- sentences <- corpus <- tokenization <- encoded <- pretraining_data,
config <- model, {model, pretraining_data} <- training <- distributed <- recipes <- run <- runs,
{model, tokenization} <- checkpoint <- {run, reading}, reading <- {probing, word_probes, pair_probes}.
"""

from bert_core.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from bert_core.config import BertConfig, DataConfig, TokenizerConfig, TrainingConfig
from bert_core.corpus import Corpus, read_corpus
from bert_core.encoded import encode_corpus
from bert_core.errors import BertCoreError
from bert_core.heads import ablation_map, head_facts, rollout
from bert_core.hub import fetch_checkpoint
from bert_core.model import BertForPreTraining, BertModel
from bert_core.pair_probes import pair_matrix
from bert_core.pretraining_data import Batch, PretrainingBatches
from bert_core.probing import (
    attention,
    encode,
    exam,
    fill_mask,
    next_sentence,
    sentence_vector,
    sentence_vectors,
    words_in_contexts,
)
from bert_core.recipes import Recipe, load_recipe, prepare, preview, recipe_names
from bert_core.runs import Run, TrainingService
from bert_core.tokenization import train_tokenizer
from bert_core.training import Trainer
from bert_core.word_probes import layer_lens, leave_one_out, rate_guess, sweep

__all__ = [
    "Batch",
    "BertConfig",
    "BertCoreError",
    "BertForPreTraining",
    "BertModel",
    "Checkpoint",
    "Corpus",
    "DataConfig",
    "PretrainingBatches",
    "Recipe",
    "Run",
    "TokenizerConfig",
    "Trainer",
    "TrainingConfig",
    "TrainingService",
    "ablation_map",
    "attention",
    "encode",
    "encode_corpus",
    "exam",
    "fetch_checkpoint",
    "fill_mask",
    "head_facts",
    "layer_lens",
    "leave_one_out",
    "load_checkpoint",
    "load_recipe",
    "next_sentence",
    "pair_matrix",
    "prepare",
    "preview",
    "rate_guess",
    "read_corpus",
    "recipe_names",
    "save_checkpoint",
    "rollout",
    "sentence_vector",
    "sentence_vectors",
    "sweep",
    "train_tokenizer",
    "words_in_contexts",
]
