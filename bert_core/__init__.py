"""Balcony's core: train, save, load and inspect a small BERT, without a user interface.

    from bert_core import TrainingService, fill_mask

    service = TrainingService()
    run = service.start("romeo-juliet", seed=0)  # trains in the background; wait until run.status is "finished"
    fill_mask(run.snapshots[-1].checkpoint(), "hello how [MASK] you", "hello romeo my name is juliet")

To read: config, data/, model, training/; then storage/ (model folders), probes/ (questions to a model), tasks/, runs/,
show (attention in a notebook or a file), taught (which sentence taught a word)."""

from bert_core.config import VERSION as __version__
from bert_core.config import BertConfig, DataConfig, TokenizerConfig, TrainingConfig
from bert_core.data.batches import Batch, PretrainingBatches
from bert_core.data.corpus import Corpus, read_corpus
from bert_core.data.encoding import encode_corpus
from bert_core.data.tokenizer import train_tokenizer
from bert_core.errors import BertCoreError
from bert_core.model import BertForPreTraining, BertModel
from bert_core.probes.attention import ablation_map, attention, rollout, without_special
from bert_core.probes.explanations import deletion, explain, trial_texts
from bert_core.probes.masked_words import copied, fill_mask, layer_lens, rate_guess, sweep, unmask
from bert_core.probes.patterns import coincidence, head_births, head_names, head_patterns, steepest_fall
from bert_core.probes.sentence_pairs import exam, next_sentence, pair_matrix
from bert_core.probes.stages import activations, carrying, follow, patch_map, without_heads
from bert_core.probes.vectors import encode, sentence_vectors, words_in_contexts
from bert_core.runs.jobs import prepare
from bert_core.runs.recipe import FinetuningRecipe, Recipe, finetuning_recipe, load_recipe, recipe_for, recipe_names
from bert_core.runs.run import Run
from bert_core.runs.service import TrainingService
from bert_core.runs.taught import falls_of, taught
from bert_core.show import show
from bert_core.storage.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from bert_core.storage.hub import fetch_checkpoint
from bert_core.tasks.examples import TaskParts, load_task
from bert_core.tasks.prediction import predict, review, task_logits, task_rows
from bert_core.tasks.question_answering import BertForQuestionAnswering, best_answers, candidates
from bert_core.tasks.texts import BertForMultipleChoice, BertForSequenceClassification
from bert_core.tasks.token_classification import BertForTokenClassification
from bert_core.training import Trainer
