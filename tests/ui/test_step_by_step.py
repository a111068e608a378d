"""What the Step by step tab shows, as plain values: each vector of the page against the probe."""

import base64
import dataclasses
import json
import math

import numpy as np
import pytest
import torch

from balcony.frame.question import Question
from balcony.step_by_step.tab import (
    LINES,
    STAGES,
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
    expected |= {name: found.layer[name][2].flatten() for name in ("query", "key", "value")}
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
    assert value["words"]["chance"] == pytest.approx(math.log(tiny_checkpoint.tokenizer.get_vocab_size()))
    assert value["pair"]["probabilities"][0] == pytest.approx(next_sentence(tiny_checkpoint, *MASKED), abs=1e-5)
    json.dumps(value, allow_nan=False)


def test_the_map_has_the_strongest_weight_of_each_head_and_the_sizes_of_the_model(tiny_checkpoint):
    shown, config = steps_value(tiny_checkpoint, ASKED)["map"], tiny_checkpoint.config
    weights, tokens = attention(tiny_checkpoint, *MASKED).weights[:, :, 3].max(-1)
    torch.testing.assert_close(torch.tensor(shown["strongest"]), torch.stack([tokens, weights], -1))
    parts = shown["parameters"]
    assert parts["all"] == config.parameter_count()
    rest = sum(parts[name] for name in ("embeddings", "words", "pooler", "pair"))
    assert parts["all"] == rest + config.num_hidden_layers * parts["layer"]
    assert 0 < parts["attention"] < parts["layer"]


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


def test_each_stage_has_python_that_runs_and_gives_its_numbers(tiny_checkpoint, tmp_path):
    assert [key for key, _, _ in STAGES] == [*LINES]
    save_checkpoint(tiny_checkpoint, tmp_path / "model")
    named = dataclasses.replace(tiny_checkpoint, name=str(tmp_path / "model"))
    question = dataclasses.replace(ASKED, off=((0, 1),))
    value, chosen = steps_value(named, question), selection_of(named, question)
    for key in LINES:
        scope = {}
        *setup, last = value["code"][key].strip().split("\n")
        exec("\n".join(setup), scope)
        result, _, commented = last.partition("  # ")
        computed = eval(result.removeprefix("print(").removesuffix(")"), scope)
        if commented.startswith("found."):
            torch.testing.assert_close(computed, eval(commented.split(" (")[0], scope), rtol=0, atol=1e-5)
    exec(steps_code(named, chosen, *LINES), {})
    rows = steps_rows(steps_value(named, question, listed))
    joined = [row["value"] for row in rows if row["name"] == "joined"]
    assert joined == pytest.approx(unpacked(value, "joined"), abs=1e-6)
