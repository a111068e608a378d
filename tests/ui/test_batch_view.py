"""The batch of a step as the page gets it, against the batches of training."""

import json
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from helpers import finished

from balcony.batch.rows import interleaved, shapes
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
    assert (value["step"], value["pairs"], value["label"], len(value["rows"])) == (at, 7, "IsNext", PAIRS_SHOWN)
    batch = prepare(RECIPE, seed=4).batches[at - 1]
    tokenizer = run.snapshots[0].empty.tokenizer
    order = interleaved(batch.next_sentence_label)
    assert sum(row["is_next"] for row in value["rows"]) == PAIRS_SHOWN / 2
    for row, ids, labels in zip(value["rows"], batch.input_ids[order], batch.labels[order]):
        assert row["tokens"] == [tokenizer.id_to_token(int(i)) for i in ids]
        assert set(row["guesses"]) == {str(i) for i, label in enumerate(labels) if label >= 0}
        for position, guess in row["guesses"].items():
            assert guess["label"] == tokenizer.id_to_token(int(labels[int(position)]))
            assert (guess["token"] == guess["label"]) == guess["is_right"]
            assert 0 <= guess["probability"] <= 1
            assert guess["loss"] >= 0
    assert batch_value(space, run, None, 0)["step"] == 20
    assert json.loads(json.dumps(value, allow_nan=False))["rows"] == value["rows"]


def test_the_shapes_are_those_of_the_whole_batch_and_the_asked_words_are_found_by_their_numbers(
    space: Workspace, run: Run
) -> None:
    value = batch_value(space, run, 20, 0)
    batch, model = prepare(RECIPE, seed=4).batches[19], run.snapshots[-1].checkpoint().model
    positions, labels = batch.asked()
    inputs = batch.input_ids, batch.attention_mask, batch.token_type_ids
    with torch.no_grad():
        scores = model(*inputs, asked_positions=positions)
        vectors = model.bert(*inputs).last_hidden_state.flatten(0, 1)
        asked = model.bert(*inputs, asked_positions=positions).last_hidden_state
    torch.testing.assert_close(vectors[positions], asked, rtol=1e-4, atol=1e-5)
    real = {name: getattr(batch, name) for name in ("input_ids", "token_type_ids", "attention_mask", "labels")}
    real |= {"next_sentence_label": batch.next_sentence_label, "vectors": vectors, "asked positions": positions}
    real |= {"asked vectors": asked, "word scores": scores.prediction_logits}
    real |= {"pair scores": scores.seq_relationship_logits}
    assert {name: size for name, _, size, _ in value["shapes"]} == {
        name: " × ".join(f"{length:,}" for length in each.shape) for name, each in real.items()
    }
    configs = [RECIPE.model.replace(pooler=each) for each in ("first", "mean")]
    models: Any = [SimpleNamespace(config=each) for each in configs]
    said = [shapes(batch, each)[-1][-1] for each in models]
    assert ["[CLS]" in said[0], "mean" in said[0], "[CLS]" in said[1], "mean" in said[1]] == [True, False, False, True]
    found = dict(zip(positions.tolist(), labels.tolist(), strict=True))
    for row in value["rows"] + batch_value(space, run, 20, PAIRS_SHOWN)["rows"]:
        for at, guess in row["guesses"].items():
            label = found.pop(row["number"] * value["length"] + int(at))
            assert guess["label"] == run.snapshots[0].empty.tokenizer.id_to_token(label)
    assert found == {}, "every asked word of the batch is in one of its pairs"


def test_the_answer_to_compare_with_is_the_most_frequent_token_of_the_training_text(space: Workspace, run: Run) -> None:
    value = batch_value(space, run, None, 0)
    assert run.job is not None
    counts = Counter(run.job.batches.encoded.ids.tolist())
    [(most, _)] = counts.most_common(1)
    token = run.snapshots[0].empty.tokenizer.id_to_token(most)
    labels = [guess["label"] for row in value["rows"] for guess in row["guesses"].values()]
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
    labels = {pair: "IsNext" if row["is_next"] else "NotNext" for pair, row in enumerate(value["rows"], 5)}
    assert {row["pair"]: row["label"] for row in rows} == labels
    for row in rows:
        assert (row["kind"] in ("masked", "replaced", "kept")) == (row["true"] is not None) == (row["loss"] is not None)


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
        assert {row["label"] for row in batch_rows(value)} == ({None} if corpus else {"IsNext", "NotNext"})
    assert max(row["tokens"].count("[SEP]") for row in value["rows"]) == 2
    assert max(len(row["tokens"]) for row in value["rows"]) > 30


def test_a_run_without_weights_or_batches_is_refused(space: Workspace, run: Run, service: TrainingService) -> None:
    waiting = Run(RECIPE, service)
    with pytest.raises(RunError, match="in a moment"):
        batch_value(space, waiting, None, 0)
    waiting.stop()
    with pytest.raises(RunError, match="ended before its first batch"):
        batch_value(space, waiting, None, 0)
