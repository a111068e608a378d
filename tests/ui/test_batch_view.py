"""The batch of a step as the page gets it, against the batches of training."""

import json
from collections import Counter

import pytest
import torch
from helpers import finished

from balcony.batch.rows import interleaved
from balcony.batch.tab import PAIRS_SHOWN, batch_rows, batch_value
from balcony.server.workspace import Workspace
from bert_core import TrainingService, load_recipe
from bert_core.data.corpus import Corpus
from bert_core.errors import RunError
from bert_core.runs.jobs import prepare
from bert_core.runs.run import Run

RECIPE = load_recipe("romeo-juliet").override({"training.steps": 20, "data.batch_size": 7, "data.mask_share": 0.6})


@pytest.fixture(scope="module")
def run(service: TrainingService) -> Run:
    return finished(service.start(RECIPE, seed=4))


@pytest.fixture
def space(run: Run) -> Workspace:
    space = Workspace("token")
    space.add_run(run)
    return space


def test_the_batch_of_a_step_is_shown_with_the_guesses_of_the_model_after_it(space: Workspace, run: Run) -> None:
    at = run.snapshots[-2].step
    value = batch_value(space, run, at, 0)
    assert (value["step"], value["pairs"], len(value["rows"])) == (at, 7, PAIRS_SHOWN)
    batch = prepare(RECIPE, seed=4).batches[at - 1]
    tokenizer = run.snapshots[0].empty.tokenizer
    order = interleaved(batch.next_sentence_label)
    assert [row["asks"][0]["label"] for row in value["rows"]].count("IsNext") == PAIRS_SHOWN / 2
    for row, ids, labels in zip(value["rows"], batch.input_ids[order], batch.labels[order]):
        assert row["tokens"] == [tokenizer.id_to_token(int(i)) for i in ids]
        words = [each for each in row["asks"] if "at" in each]
        assert [each["at"] for each in words] == [i for i, label in enumerate(labels) if label >= 0]
        for guess in words:
            assert guess["label"] == tokenizer.id_to_token(int(labels[guess["at"]]))
            assert (guess["guess"] == guess["label"]) == guess["is_right"]
            assert 0 <= guess["probability"] <= 1
            assert guess["loss"] >= 0
    assert batch_value(space, run, None, 0)["step"] == 20
    assert json.loads(json.dumps(value, allow_nan=False))["rows"] == value["rows"]


def test_the_sizes_are_those_of_the_whole_batch_and_the_asked_words_are_found_by_their_numbers(
    space: Workspace, run: Run
) -> None:
    value = batch_value(space, run, 20, 0)
    batch, model = prepare(RECIPE, seed=4).batches[19], run.snapshots[-1].checkpoint().model
    positions, labels = batch.asked()
    inputs = batch.input_ids, batch.attention_mask, batch.token_type_ids
    with torch.no_grad():
        vectors = model.bert(*inputs).last_hidden_state.flatten(0, 1)
        asked = model.bert(*inputs, asked_positions=positions).last_hidden_state
    torch.testing.assert_close(vectors[positions], asked, rtol=1e-4, atol=1e-5)
    pairs, length = batch.input_ids.shape
    names = ("input_ids", "token_type_ids", "attention_mask", "labels")
    assert value["sizes"] == [*([name, f"{pairs} × {length}"] for name in names), ["next_sentence_label", f"{pairs}"]]
    found = dict(zip(positions.tolist(), labels.tolist(), strict=True))
    for row in value["rows"] + batch_value(space, run, 20, PAIRS_SHOWN)["rows"]:
        for guess in (each for each in row["asks"] if "at" in each):
            label = found.pop(row["number"] * value["length"] + guess["at"])
            assert guess["label"] == run.snapshots[0].empty.tokenizer.id_to_token(label)
    assert found == {}, "every asked word of the batch is in one of its pairs"


def test_the_answer_to_compare_with_is_the_most_frequent_token_of_the_training_text(space: Workspace, run: Run) -> None:
    value = batch_value(space, run, None, 0)
    assert run.job is not None
    counts = Counter(run.job.batches.encoded.ids.tolist())
    [(most, _)] = counts.most_common(1)
    token = run.snapshots[0].empty.tokenizer.id_to_token(most)
    labels = [each["label"] for row in value["rows"] for each in row["asks"] if "at" in each]
    assert value["always"] == [token, labels.count(token)]


def test_the_untrained_model_is_shown_the_first_batch(space: Workspace, run: Run) -> None:
    value = batch_value(space, run, 0, 0)
    assert value["step"] == 0
    assert [row["ids"] for row in value["rows"]] == [row["ids"] for row in batch_value(space, run, 1, 0)["rows"]]


def test_a_large_batch_is_shown_in_parts(space: Workspace, run: Run) -> None:
    last = batch_value(space, run, 20, PAIRS_SHOWN)
    assert len(last["rows"]) == 7 - PAIRS_SHOWN
    assert batch_value(space, run, 20, 2 * PAIRS_SHOWN)["rows"] == []


def test_the_legend_has_the_fractions_of_the_run(space: Workspace, run: Run) -> None:
    legend = dict(batch_value(space, run, 20, 0)["legend"])
    assert ["60%" in legend["masked"], "10%" in legend["replaced"], "30%" in legend["kept"]] == [True] * 3
    kinds = {kind for row in batch_value(space, run, 20, 0)["rows"] for kind in row["kinds"]}
    assert kinds <= set(legend)


def test_the_batch_as_a_table(space: Workspace, run: Run) -> None:
    value = batch_value(space, run, 20, PAIRS_SHOWN)
    rows = [*batch_rows(value)]
    assert [row["shown"] for row in rows] == [token for row in value["rows"] for token in row["tokens"]]
    assert [row["example"] for row in rows] == sorted(row["example"] for row in rows)
    pairs = [(row["example"], row["label"]) for row in rows if row["position"] == 0]
    assert pairs == [(number, row["asks"][0]["label"]) for number, row in enumerate(value["rows"], 5)]
    for row in rows:
        is_asked = row["kind"] in ("masked", "replaced", "kept") or row["position"] == 0
        assert is_asked == (row["label"] is not None) == (row["loss"] is not None)


def test_a_run_without_pairs_shows_sentences_alone_and_a_packed_run_several_in_a_segment(
    service: TrainingService,
) -> None:
    changed = {"training.steps": 2, "data.batch_size": 4}
    lone = Corpus.from_text("one a\n\ntwo b\n\nthree c d", "lines")
    packed = RECIPE.override(changed | {"data.segments": "packed"})
    for recipe, corpus, segments in (
        (RECIPE.override(changed | {"training.nsp_weight": 0}), lone, {0}),
        (packed, None, {0, 1}),
    ):
        run = finished(service.start(recipe, corpus))
        assert run.reason == ""
        space = Workspace("token")
        space.add_run(run)
        value = batch_value(space, run, None, 0)
        assert {segment for row in value["rows"] for segment in row["segments"]} == segments
        labels = {row["label"] for row in batch_rows(value) if row["position"] == 0}
        assert labels == ({None} if corpus else {"IsNext", "NotNext"})
    assert max(row["tokens"].count("[SEP]") for row in value["rows"]) == 2
    assert max(len(row["tokens"]) for row in value["rows"]) > 30


def test_a_run_without_weights_or_batches_is_refused(space: Workspace, run: Run, service: TrainingService) -> None:
    waiting = Run(RECIPE, service)
    with pytest.raises(RunError, match="in a moment"):
        batch_value(space, waiting, None, 0)
    waiting.stop()
    with pytest.raises(RunError, match="ended before its first batch"):
        batch_value(space, waiting, None, 0)
