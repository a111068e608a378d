"""The four task classes equal those of `transformers` on the same weights, in logits, loss and files."""

import dataclasses

import pytest
import torch
import transformers
from helpers import with_head

from bert_core.probes.stages import without_heads
from bert_core.storage.checkpoint import TaskHead, load_checkpoint, save_checkpoint
from bert_core.storage.weights import TASK_HEADS
from bert_core.tasks.examples import TASKS
from bert_core.tasks.prediction import task_logits, task_rows
from bert_core.tasks.question_answering import BertForQuestionAnswering
from bert_core.tasks.task import TaskBatch
from bert_core.tasks.texts import BertForMultipleChoice, BertForSequenceClassification
from bert_core.tasks.token_classification import BertForTokenClassification

CLASSES = {
    "BertForSequenceClassification": (BertForSequenceClassification, 3),
    "BertForMultipleChoice": (BertForMultipleChoice, 1),
    "BertForQuestionAnswering": (BertForQuestionAnswering, 2),
    "BertForTokenClassification": (BertForTokenClassification, 5),
}


def pair(name, config, outputs=None):
    """Our model and that of `transformers` with the same random weights, both in eval mode."""
    kind, usual = CLASSES[name]
    outputs = outputs or usual
    ours = kind(config, outputs, generator=torch.Generator().manual_seed(1)).eval()
    with torch.no_grad():
        for i, parameter in enumerate(ours.parameters()):
            parameter.add_(torch.empty_like(parameter).normal_(0, 0.3, generator=torch.Generator().manual_seed(i)))
    sizes = {key: value for key, value in config.content().items() if key != "classifier_dropout"}
    theirs = getattr(transformers, name)(transformers.BertConfig(**sizes, num_labels=outputs)).eval()
    result = theirs.load_state_dict(ours.state_dict(), strict=False)
    assert not result.missing_keys
    assert all("pooler" in key for key in result.unexpected_keys)
    return ours, theirs


def batch_for(name, config, target=None):
    """Rows of 7, 4 and 6 tokens; for choices, three examples of two rows each."""
    rows = 6 if name == "BertForMultipleChoice" else 3
    ids = torch.randint(5, config.vocab_size, (rows, 7), generator=torch.Generator().manual_seed(3))
    mask = torch.ones_like(ids)
    mask[1, 4:], mask[2, 6:] = 0, 0
    segments = (torch.arange(7) > 3).long() * mask
    if rows == 6:
        ids, mask, segments = (each.view(3, 2, 7) for each in (ids, mask, segments))
    return TaskBatch(ids, segments, mask, target)


def inputs_of(batch):
    return {name: getattr(batch, name) for name in ("input_ids", "attention_mask", "token_type_ids")}


def assert_same(ours, theirs):
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def numbers(task, logits, target):
    """The loss and the accuracy."""
    sums, counts = task.numbers(logits, target)
    return sums / counts


@pytest.mark.parametrize(("task", "target"), [("text-classification", [2, 0, 1]), ("multiple-choice", [1, 0, 1])])
def test_labels_and_choices_equal_transformers(task, target, tiny_config):
    name = TASKS[task].model.__name__
    ours, theirs = pair(name, tiny_config)
    batch = batch_for(name, tiny_config, torch.tensor(target))
    wanted = theirs(**inputs_of(batch), labels=batch.target)
    logits = batch.logits(ours, "cpu")
    assert_same(logits, wanted.logits)
    assert_same(numbers(TASKS[task], logits, batch.target)[0], wanted.loss)


def test_regression_equals_transformers(tiny_config):
    ours, theirs = pair("BertForSequenceClassification", tiny_config, outputs=1)
    batch = batch_for("BertForSequenceClassification", tiny_config, torch.tensor([0.5, -1.0, 4.0]))
    loss, accuracy = numbers(TASKS["text-regression"], batch.logits(ours, "cpu"), batch.target)
    assert_same(loss, theirs(**inputs_of(batch), labels=batch.target).loss)
    assert accuracy.isnan()


def test_answers_equal_transformers(tiny_config):
    ours, theirs = pair("BertForQuestionAnswering", tiny_config)
    batch = batch_for("BertForQuestionAnswering", tiny_config)
    wanted, real = theirs(**inputs_of(batch)), batch.attention_mask.bool()
    logits = batch.logits(ours, "cpu")
    assert_same(logits[real], torch.stack([wanted.start_logits, wanted.end_logits], 2)[real])
    assert logits[~real].eq(-torch.inf).all()  # the model of transformers can start an answer in the padding

    whole = dataclasses.replace(
        batch, attention_mask=torch.ones(3, 7).long(), target=torch.tensor([[1, 4], [0, 0], [2, 2]])
    )
    starts, ends = whole.target.unbind(1)
    wanted = theirs(**inputs_of(whole), start_positions=starts, end_positions=ends)
    task = TASKS["question-answering"]
    assert_same(numbers(task, whole.logits(ours, "cpu"), whole.target)[0], wanted.loss)


def test_tags_equal_transformers(tiny_config):
    ours, theirs = pair("BertForTokenClassification", tiny_config)
    batch = batch_for("BertForTokenClassification", tiny_config)
    positions = batch.attention_mask.flatten().nonzero().squeeze(1)[::2]
    labels = torch.full((21,), -100)
    labels[positions] = torch.randint(0, 5, (len(positions),), generator=torch.Generator().manual_seed(4))
    wanted = theirs(**inputs_of(batch), labels=labels.view(3, 7))
    logits = dataclasses.replace(batch, positions=positions).logits(ours, "cpu")
    assert_same(logits, wanted.logits.flatten(0, 1)[positions])
    assert_same(numbers(TASKS["token-classification"], logits, labels[positions])[0], wanted.loss)
    assert_same(batch.logits(ours, "cpu")[batch.attention_mask.bool()], wanted.logits[batch.attention_mask.bool()])


def folder_with_head(checkpoint, name, folder, labels=None):
    outputs = 1 if labels == () else CLASSES[name][1]
    if labels is None:
        labels = tuple(f"name {i}" for i in range(outputs)) if "Classification" in name else ()
    generator = torch.Generator().manual_seed(5)
    weight, bias = torch.randn(outputs, 12, generator=generator), torch.randn(outputs, generator=generator)
    missing = frozenset({"mlm", "nsp", *([] if TASK_HEADS[name][1] else ["pooler"])})
    tuned = with_head(checkpoint, TaskHead(name, labels), weight, bias)
    save_checkpoint(dataclasses.replace(tuned, missing=missing), folder)
    return tuned, missing


@pytest.mark.parametrize("name", CLASSES)
def test_a_written_folder_opens_in_transformers_as_its_class_and_back_here(name, tiny_checkpoint, tmp_path):
    tuned, missing = folder_with_head(tiny_checkpoint, name, tmp_path)
    head, layer = tuned.head, TASK_HEADS[name][0]
    theirs, report = getattr(transformers, name).from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    if head.labels:
        assert theirs.config.id2label == dict(enumerate(head.labels))
        assert theirs.config.label2id == {label: i for i, label in enumerate(head.labels)}

    again = load_checkpoint(tmp_path)
    assert (again.missing, again.notes, again.head.labels) == (missing, (), head.labels)
    assert torch.equal(again.tensors[f"{layer}.weight"], tuned.tensors[f"{layer}.weight"])

    theirs.save_pretrained(tmp_path / "theirs")
    (tmp_path / "tokenizer.json").rename(tmp_path / "theirs" / "tokenizer.json")
    back = load_checkpoint(tmp_path / "theirs")
    assert (back.head.architecture, back.head.labels, back.missing) == (name, head.labels, missing)
    assert torch.equal(back.tensors[f"{layer}.bias"], tuned.tensors[f"{layer}.bias"])


INPUTS = {
    "text-classification": ("hello romeo", "nice meet you today"),
    "text-regression": ("hello romeo my name",),
    "multiple-choice": ("hello", "romeo my name", "are you today", "great"),
    "question-answering": ("how are you", "hello romeo my name is juliet nice meet you too how are you today great"),
    "token-classification": ("hello romeo my name is juliet nice meet you too how are you today great my team won",),
}


@torch.no_grad()
@pytest.mark.parametrize("task", INPUTS)
def test_the_logits_of_an_examples_rows_equal_transformers_with_parts_set_to_zero_too(task, tiny_checkpoint, tmp_path):
    name, texts = TASKS[task].model.__name__, INPUTS[task]
    tuned, _ = folder_with_head(tiny_checkpoint, name, tmp_path, labels=() if task == "text-regression" else None)
    theirs = getattr(transformers, name).from_pretrained(tmp_path).eval()
    rows = task_rows(tuned, texts if len(texts) > 1 else texts[0])
    choices = len(texts) - 1 if task == "multiple-choice" else 1
    assert len(rows) == {"multiple-choice": 3, "question-answering": 2, "token-classification": 2}.get(task, 1)
    every = [dataclasses.replace(row, positions=None, words=None) for row in rows]
    found = task_logits(tuned, every, choices)
    inputs = [dict(zip(("input_ids", "token_type_ids"), map(torch.tensor, row.inputs))) for row in rows]
    if choices > 1:  # all rows of the example at once, padded
        batch = TaskBatch.of(rows, tuned.config.pad_token_id, choices)
        assert_same(torch.from_numpy(found[0]), theirs(**inputs_of(batch)).logits[0])
    else:
        for own, row in zip(found, inputs, strict=True):
            wanted = theirs(**{key: each[None] for key, each in row.items()})
            of_row = torch.stack([wanted.start_logits, wanted.end_logits], 2) if "answer" in task else wanted.logits
            assert_same(torch.from_numpy(own), of_row[0])
    if "token" in task:
        for own, asked, row in zip(found, task_logits(tuned, rows), rows, strict=True):
            assert_same(torch.from_numpy(asked), torch.from_numpy(own[row.positions]))
    with torch.no_grad():
        for block in (theirs.bert.encoder.layer[1].output.dense, theirs.bert.embeddings.position_embeddings):
            for parameter in block.parameters():
                parameter.zero_()
    less = task_logits(without_heads(tuned, [], [(1, 2), (0, 4)]), every[:choices], choices)
    assert not torch.allclose(torch.from_numpy(less[0]), torch.from_numpy(found[0]), atol=1e-3)
    wanted = theirs(**inputs_of(TaskBatch.of(every[:choices], tuned.config.pad_token_id, choices)))
    of_row = torch.stack([wanted.start_logits, wanted.end_logits], 2) if "answer" in task else wanted.logits
    assert_same(torch.from_numpy(less[0]), of_row[0])


@pytest.mark.parametrize("name", CLASSES)
def test_building_a_model_draws_nothing_from_the_global_generator(name, tiny_config):
    """Another thread may be training with dropout, which draws from it."""
    kind, outputs = CLASSES[name]
    before = torch.get_rng_state()
    kind(tiny_config, outputs, generator=torch.Generator().manual_seed(1))
    with torch.device("meta"):
        kind(tiny_config, outputs)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_folder_of_a_regression_model_is_known_as_one(tiny_checkpoint, tmp_path):
    head = TaskHead("BertForSequenceClassification")
    tuned = with_head(tiny_checkpoint, head, torch.ones(1, 12), torch.zeros(1))
    save_checkpoint(dataclasses.replace(tuned, missing=frozenset({"mlm", "nsp"})), tmp_path)
    assert transformers.BertForSequenceClassification.from_pretrained(tmp_path).config.problem_type == "regression"
    assert load_checkpoint(tmp_path).head.is_regression
