"""What the Step by step tab shows, as plain values: each vector of the page against the probe."""

import base64
import dataclasses
import json
import math

import numpy as np
import pytest
import torch
import transformers
from helpers import with_head

from balcony.frame.masking import words_value
from balcony.frame.question import Question
from balcony.step_by_step.tab import (
    inputs_value,
    listed,
    norms_of,
    selection_of,
    steps_code,
    steps_rows,
    steps_value,
)
from bert_core import save_checkpoint
from bert_core.errors import InputError
from bert_core.probes.attention import attention
from bert_core.probes.masked_words import fill_mask
from bert_core.probes.sentence_pairs import next_sentence
from bert_core.probes.stages import PARTS, follow
from bert_core.storage.checkpoint import TaskHead
from bert_core.tasks.question_answering import REFUSED

TEXTS = ("hello how are you i am romeo", "hello romeo my name is juliet")
MASKED = ("hello how [MASK] you i am romeo", TEXTS[1])
ASKED = Question(*TEXTS, hidden=(2,), head=(1, 2), tab="step-by-step")


def unpacked(value, name):
    return np.frombuffer(base64.b64decode(value["vectors"][name]), dtype=np.float32)


def test_the_vectors_are_those_of_the_probe(tiny_checkpoint):
    value = steps_value(tiny_checkpoint, ASKED)
    assert (value["token"], value["head"], value["words"]["position"]) == (3, (1, 2), 3)
    found = follow(tiny_checkpoint, *MASKED, layer=1, position=3)
    expected = {name: found.layer[name][3] for name in ("joined", "attended", "inner", "fed", "output")}
    for name, every in (("query", "queries"), ("key", "keys"), ("value", "values")):
        expected |= {name: found.layer[name][2, 3], every: found.layer[name][2].flatten()}
    expected |= {"word": found.embeddings["word"][3], "input": found.states[1, 3], "after2": found.states[2, 3]}
    expected |= {
        "last": found.states[2, 3],
        "pooled": found.pooled,
        "outputGain": norms_of(tiny_checkpoint, 1)["output"].weight.detach(),
    }
    for name, numbers in expected.items():
        np.testing.assert_array_equal(unpacked(value, name), numbers.numpy(), err_msg=name)
    [[(best, probability)]] = fill_mask(tiny_checkpoint, *MASKED, top_k=1)
    assert value["words"]["top"][0][::2] == [best, pytest.approx(probability, abs=1e-5)]
    assert value["words"]["answer"] == "are"
    own = next(p for token, _, p in value["words"]["top"] if token == "are")
    assert value["words"]["loss"] == pytest.approx(-math.log(own), abs=1e-5)
    assert value["words"]["by_layer"][-1] == pytest.approx(own, abs=1e-5)
    assert value["pair"]["probabilities"][0] == pytest.approx(next_sentence(tiny_checkpoint, *MASKED), abs=1e-5)
    json.dumps(value, allow_nan=False)


def test_the_map_has_the_strongest_weight_of_each_head(tiny_checkpoint):
    shown = steps_value(tiny_checkpoint, ASKED)["strongest"]
    weights, tokens = attention(tiny_checkpoint, *MASKED).weights[:, :, 3].max(-1)
    torch.testing.assert_close(torch.tensor(shown), torch.stack([tokens, weights], -1))


def test_what_a_number_is_the_sum_of_gives_the_number(tiny_checkpoint):
    found = follow(tiny_checkpoint, *MASKED, layer=1, position=3)
    expected = {name: found.layer[name][2, 3] for name in ("query", "key", "value")}
    expected |= {name: found.layer[name][3] for name in ("projected", "inner", "fed")}
    expected |= {"word_dense": found.words["dense"], "logits": found.words["logits"]}
    expected |= {"pooled": found.pooled.atanh()}
    for name, numbers in expected.items():
        for index in (0, len(numbers) - 1):
            value = inputs_value(tiny_checkpoint, ASKED, name, index)
            inputs, weights = (torch.tensor(unpacked({"vectors": value}, part)) for part in ("inputs", "weights"))
            assert (inputs @ weights).item() + value["bias"] == pytest.approx(numbers[index].item(), abs=1e-5), name
        with pytest.raises(InputError, match="no such number"):
            inputs_value(tiny_checkpoint, ASKED, name, len(numbers))
    for name in ("scores", "logits"):
        with pytest.raises(InputError, match="no such number"):
            inputs_value(tiny_checkpoint, Question("hello"), name, 0)


def test_parts_set_to_zero_change_the_answer_and_the_whole_models_stands_beside_it(tiny_checkpoint):
    whole = steps_value(tiny_checkpoint, ASKED)
    assert whole["before"] is None
    less = steps_value(tiny_checkpoint, dataclasses.replace(ASKED, off=((1, 2), (7, 0)), zeroed=((0, 2), (0, 9))))
    assert (less["off"], less["zeroed"]) == (((1, 2),), ((0, 2),))
    assert not unpacked(less, "context").any()
    assert less["before"]["probability"] == pytest.approx(math.exp(-whole["words"]["loss"]))
    assert less["words"]["loss"] != pytest.approx(whole["words"]["loss"], abs=1e-3)
    assert len(less["parts"]) == len(PARTS)
    for part, residual, block, total in (
        (1, "input", "projected", "attention_sum"),
        (3, "attended", "fed", "output_sum"),
    ):
        bare = steps_value(tiny_checkpoint, dataclasses.replace(ASKED, zeroed=((0, part),), head=(0, 0)))
        for value in (whole, bare):
            added = unpacked(value, f"{residual}_added") + unpacked(value, block)
            assert added == pytest.approx(unpacked(value, total), abs=1e-6)
        assert not unpacked(bare, f"{residual}_added").any()
        assert unpacked(bare, residual).any()
    typed = steps_value(tiny_checkpoint, Question("hello [MASK] are [MASK]", zeroed=((0, 2), (1, 0))))
    of_whole = fill_mask(tiny_checkpoint, "hello [MASK] are [MASK]", top_k=tiny_checkpoint.tokenizer.get_vocab_size())
    same_word = dict(of_whole[0])[typed["words"]["answer"]]
    assert typed["before"]["probability"] == pytest.approx(same_word, abs=1e-5)


def test_a_question_for_another_model_or_text_shows_the_nearest(tiny_checkpoint):
    chosen = selection_of(tiny_checkpoint, dataclasses.replace(ASKED, head=(9, 9), token=99, mask=5))
    assert (chosen.head, chosen.token, chosen.asked) == ((1, 2), 15, 3)
    nothing_hidden = steps_value(tiny_checkpoint, dataclasses.replace(ASKED, hidden=(), pair=""))
    assert (nothing_hidden["words"], nothing_hidden["token"]) == (None, 1)
    typed = steps_value(tiny_checkpoint, Question("hello [MASK]"))
    assert (typed["words"]["hidden"], typed["words"]["answer"]) == (False, typed["words"]["top"][0][0])
    with pytest.raises(InputError, match="sentence first"):
        steps_value(tiny_checkpoint, Question(" "))


TASKS = {  # the class, its labels, and how many outputs it has
    "text-classification": ("BertForSequenceClassification", ("calm", "glad", "sad"), 3),
    "text-regression": ("BertForSequenceClassification", (), 1),
    "multiple-choice": ("BertForMultipleChoice", (), 1),
    "question-answering": ("BertForQuestionAnswering", (), 2),
    "token-classification": ("BertForTokenClassification", ("O", "B-who", "I-who"), 3),
}
EXAMPLE = Question("are you romeo", "my name is juliet nice meet you too how are you today great thank you", row=1)
EXAMPLE = dataclasses.replace(EXAMPLE, choices=("hello", "nice meet you"), head=(1, 2), tab="step-by-step")


@pytest.fixture(params=TASKS)
def tuned(request, tiny_checkpoint, tmp_path):
    """The task's name, a model here, and its folder in `transformers`."""
    name, labels, outputs = TASKS[request.param]
    generator = torch.Generator().manual_seed(6)
    weight, bias = torch.randn(outputs, 12, generator=generator), torch.randn(outputs, generator=generator)
    missing = TaskHead(name, labels).never
    found = dataclasses.replace(with_head(tiny_checkpoint, TaskHead(name, labels), weight, bias), missing=missing)
    found = dataclasses.replace(found, name=str(tmp_path / "model"))
    save_checkpoint(found, tmp_path / "model")
    return request.param, found, getattr(transformers, name).from_pretrained(tmp_path / "model").eval()


@torch.no_grad()
def test_the_last_stage_of_a_task_has_the_numbers_of_transformers(tuned):
    name, checkpoint, theirs = tuned
    value = steps_value(checkpoint, EXAMPLE)
    task, encode = value["task"], checkpoint.tokenizer.encode
    texts = {"token-classification": (EXAMPLE.text,)}
    pairs = [(EXAMPLE.text, choice) for choice in EXAMPLE.choices] if name == "multiple-choice" else EXAMPLE.texts
    rows = [encode(*each) for each in pairs] if name == "multiple-choice" else [encode(*texts.get(name, pairs))]
    assert value["ids"][:5] == rows[-1].ids[:5]
    assert task["rows"] == {"multiple-choice": 2, "question-answering": 2}.get(name, 1)
    inputs = torch.tensor([value["ids"]]), torch.tensor([value["segments"]])  # longer pairs are cut, or windows
    out = theirs(inputs[0], token_type_ids=inputs[1]) if name != "multiple-choice" else None
    if name == "question-answering":
        logits = torch.stack([out.start_logits, out.end_logits], 2)[0]
        shares = logits.softmax(0)
    elif name == "multiple-choice":
        each = (theirs(torch.tensor([[row.ids]]), token_type_ids=torch.tensor([[row.type_ids]])) for row in rows)
        logits = torch.cat([found.logits[0] for found in each])
        shares = logits.softmax(0)
    else:
        logits = out.logits[0]
        shares = logits.softmax(-1)
    np.testing.assert_allclose(unpacked(value, "task"), logits.flatten(), atol=1e-5)
    np.testing.assert_allclose(unpacked(value, "task_probability"), shares.flatten(), atol=1e-5)
    if name == "text-regression":
        assert task["number"] == pytest.approx(logits.item(), abs=1e-5)
    elif name != "question-answering":
        best = shares[value["token"]] if name == "token-classification" else shares
        assert task["answers"][0] == (task["labels"][best.argmax()], pytest.approx(best.max().item(), abs=1e-5))
    for index in (0, logits.numel() - 1):
        if name == "multiple-choice":
            index = 0
        sums = inputs_value(checkpoint, EXAMPLE, "task", index)
        x, weights = (torch.tensor(unpacked({"vectors": sums}, part)) for part in ("inputs", "weights"))
        wanted = logits[task["row"]] if name == "multiple-choice" else logits.flatten()[index]
        assert (x @ weights).item() + sums["bias"] == pytest.approx(wanted.item(), abs=1e-5)
    for index in (-1, 1 if name == "multiple-choice" else logits.numel()):
        with pytest.raises(InputError, match="no such number"):
            inputs_value(checkpoint, EXAMPLE, "task", index)
    json.dumps(value, allow_nan=False)


def test_a_task_has_python_rows_of_a_file_and_the_whole_models_answer(tuned):
    name, checkpoint, _ = tuned
    question = dataclasses.replace(EXAMPLE, off=((0, 1),), zeroed=((1, 2),))
    value, chosen = steps_value(checkpoint, question), selection_of(checkpoint, question)
    scope = {}
    *setup, last = steps_code(checkpoint, question).strip().split("\n")
    exec("\n".join(setup), scope)
    computed = eval(last.partition("  # ")[0].removeprefix("print(").removesuffix(")"), scope)
    if name == "question-answering":
        assert [text for text, _ in value["task"]["answers"]] == [answer.text for answer in computed[:10]]
        assert value["task"]["answers"][0][1] == pytest.approx(computed[0].probability, abs=1e-5)
        computed = scope["logits"].softmax(0)
    shares = torch.tensor(unpacked(value, "task" if name == "text-regression" else "task_probability"))
    t = slice(3 * chosen.token, 3 * chosen.token + 3) if name == "token-classification" else slice(None)
    torch.testing.assert_close(computed.flatten(), shares[t], rtol=0, atol=1e-5)
    whole = steps_value(checkpoint, EXAMPLE)["task"]
    assert value["before"]["number"] == (whole["number"] and pytest.approx(whole["number"], abs=1e-5))
    wanted = dict(whole["answers"])
    assert {each: wanted[each] for each, _ in value["before"]["answers"]} == pytest.approx(
        dict(value["before"]["answers"]), abs=1e-5
    )
    assert not np.allclose(unpacked(value, "task"), unpacked(steps_value(checkpoint, EXAMPLE), "task"), atol=1e-3)
    rows = [*steps_rows(steps_value(checkpoint, question, listed))]
    own = [row for row in rows if row["name"] == "task"]
    assert [row["value"] for row in own] == pytest.approx(list(unpacked(value, "task")), abs=1e-6)


def test_each_pair_of_ends_has_its_probability_or_its_reason(tiny_checkpoint):
    weight, bias = torch.randn(2, 12, generator=torch.Generator().manual_seed(9)), torch.zeros(2)
    head = TaskHead("BertForQuestionAnswering")
    data = {"sequence_length": 17, "longest_answer": 2, "best_answers": 6}
    tuned = with_head(tiny_checkpoint, head, weight, bias)
    tuned = dataclasses.replace(tuned, missing=head.never, recipe={"data": data})
    found = [steps_value(tuned, dataclasses.replace(EXAMPLE, row=row)) for row in (0, 1)]
    pairs = [pair for value in found for pair in value["task"]["pairs"]]
    reasons = {pair["why"] for pair in pairs}
    assert {*REFUSED} <= reasons
    answers = dict(found[0]["task"]["answers"])
    assert answers == dict(found[1]["task"]["answers"])
    kept = {pair["text"]: pair["probability"] for pair in pairs if pair["probability"] is not None}
    assert kept == {text: answers[text] for text in kept}
    for pair in pairs:
        assert (pair["why"] == "") == (pair["probability"] is not None)
        if "longer" in pair["why"]:
            assert pair["end"] - pair["start"] >= 2
        if "before" in pair["why"]:
            assert pair["end"] < pair["start"]
    for value in found:
        logits = unpacked(value, "task").reshape(-1, 2)
        for pair in value["task"]["pairs"]:
            assert pair["score"] == pytest.approx(logits[pair["start"], 0] + logits[pair["end"], 1], abs=1e-5)
        scores = [pair["score"] for pair in value["task"]["pairs"]]
        assert scores == sorted(scores, reverse=True)


def test_a_task_asks_for_its_example_and_says_what_it_does_not_read(tiny_checkpoint):
    head = TaskHead("BertForMultipleChoice")
    tuned = with_head(tiny_checkpoint, head, torch.ones(1, 12), torch.zeros(1))
    tuned = dataclasses.replace(tuned, missing=head.never)
    value = steps_value(tuned, dataclasses.replace(EXAMPLE, choices=None))
    assert (value["has_choices"], [*steps_rows(value)]) == (True, [])
    assert "at least two choices" in value["hint"]
    long = dataclasses.replace(EXAMPLE, choices=("hello " * 30, "nice"), hidden=(1,), row=9)
    shown = steps_value(tuned, long)
    assert shown["task"]["row"] == 1
    assert shown["tokens"].count("[MASK]") == 0
    assert [note.split(" ")[0] for note in shown["notes"]] == ["This", "There"]
    assert "19 tokens" in shown["notes"][-1]
    assert words_value(tuned, EXAMPLE, None)["hidden"] == []


def test_the_python_of_the_stages_gives_their_numbers(tiny_checkpoint, tmp_path, capsys):
    save_checkpoint(tiny_checkpoint, tmp_path / "model")
    named = dataclasses.replace(tiny_checkpoint, name=str(tmp_path / "model"))
    question, scope = dataclasses.replace(ASKED, off=((0, 1),)), {}
    checked = 0
    for line in steps_code(named, question).strip().split("\n"):
        exec(line, scope)
        result, _, commented = line.partition("  # ")
        if commented.startswith("found."):
            computed = eval(result.removeprefix("print(").removesuffix(")"), scope)
            torch.testing.assert_close(computed, eval(commented.split(" (")[0], scope), rtol=0, atol=1e-5)
            checked += 1
    assert checked == 10
    rows = steps_rows(steps_value(named, question, listed))
    joined = [row["value"] for row in rows if row["name"] == "joined"]
    assert joined == pytest.approx(unpacked(steps_value(named, question), "joined"), abs=1e-6)
