"""The page's plain Python: masking by position, thinning of curves, changed settings, news of a run."""

import csv
import dataclasses
import itertools
import json
import math
import re
import zipfile
from types import SimpleNamespace

import pytest
import torch
from helpers import make_model, wait
from safetensors.torch import load_file

from balcony.app import open_workspaces
from balcony.frame.masking import mask_words, words_value
from balcony.frame.page import sentences
from balcony.frame.page_request import PageRequest, corpus_of
from balcony.frame.question import Question
from balcony.frame.shown_model import shown_model
from balcony.masked_words.closer_view import (
    EXPLAINED,
    LENS,
    SWEEP,
    closer_code,
    closer_rows,
    closer_value,
    tried_on_text,
    tried_value,
)
from balcony.masked_words.tab import (
    beside_value,
    first_right,
    guess_rows,
    guesses_code,
    guesses_value,
    look_closer,
)
from balcony.models.tab import model_facts, open_files
from balcony.next_sentence.tab import verdict_value
from balcony.parts.export import BYTE_ORDER_MARK, curve_rows, file_text
from balcony.parts.first_right import FirstRight
from balcony.parts.notes import PAIRS_ONLY
from balcony.server.news import POINTS_LIVE, poll_delay, run_news, status_line, thin
from balcony.server.workspace import Model, Workspace
from balcony.server.workspaces import Workspaces
from balcony.train import monitor
from balcony.train.form import encoding_of
from balcony.train.monitor import JUDGED_LIVE, GuessBoard, baselines, run_guesses
from balcony.train.preview import preview
from balcony.train.tab import preview_value
from bert_core import TrainingService, load_checkpoint, load_recipe, save_checkpoint
from bert_core.config import CHECKPOINTS, BertConfig
from bert_core.data.corpus import Corpus
from bert_core.data.tokenizer import SPECIAL_TOKENS, Scheme, build_tokenizer
from bert_core.errors import CheckpointError, InputError
from bert_core.probes.explanations import deletion, explain, trial_texts
from bert_core.probes.masked_words import fill_mask, rate_guess
from bert_core.probes.stages import without_heads
from bert_core.runs.jobs import prepare
from bert_core.storage.checkpoint import Checkpoint
from bert_core.training import HELD_OUT, StepRow


def row(step: int, mlm_loss: float, nsp_loss: float = 0.7) -> SimpleNamespace:
    return SimpleNamespace(step=step, mlm_loss=mlm_loss, nsp_loss=nsp_loss, mlm_accuracy=0.25, nsp_accuracy=0.5)


@pytest.fixture(scope="module")
def pieces() -> Checkpoint:
    """A model that reads "unkind" as two pieces."""
    tokens = (*SPECIAL_TOKENS, "say", "un", "##kind", "kind", "##s")
    tokenizer = build_tokenizer({token: i for i, token in enumerate(tokens)}, Scheme("WordPiece", "bert"))
    config = BertConfig(vocab_size=len(tokens), hidden_size=12, num_attention_heads=3, max_position_embeddings=17)
    return Checkpoint(make_model(config), tokenizer)


def test_masks_replace_the_words_in_both_sentences(tiny_checkpoint: Checkpoint) -> None:
    masked, words = mask_words(tiny_checkpoint, Question("No, no, Romeo!", "how [MASK] you?", hidden=(1, 2, 3)))
    assert masked.texts == ("No, [MASK], [MASK]!", "[MASK] [MASK] you?")
    assert [(word.word.text, word.index, word.mask) for word in words] == [
        ("no", 1, 0),
        ("Romeo", 2, 1),
        ("how", 3, 2),
        ("[MASK]", None, 3),
    ]


def test_a_word_of_several_pieces_gets_as_many_masks_and_each_piece_its_own_guesses(pieces: Checkpoint) -> None:
    asked = Question("Say unkind please", hidden=(1,))
    picker = words_value(pieces, asked, None)
    assert picker["hidden"] == [0], "at first the longest word that is one piece"
    assert (picker["words"], picker["cuts"]) == (["Say", "unkind", "please"], [[0], [0, 2], [0]])
    assert picker["known"] == [True, True, False]
    assert mask_words(pieces, asked)[0].text == "Say [MASK] [MASK] please"
    [mask] = guesses_value(pieces, asked)["masks"]
    assert [piece["answer"][0] for piece in mask["pieces"]] == ["un", "##kind"]


def test_an_edit_keeps_the_masks_of_words_that_stayed(tiny_checkpoint: Checkpoint) -> None:
    before = words_value(tiny_checkpoint, Question("hello my name", "how are you"), None) | {"hidden": [0, 2, 5]}
    assert words_value(tiny_checkpoint, Question("hello your name", "how are you"), before)["hidden"] == [0, 2, 5]
    assert words_value(tiny_checkpoint, Question("hi my", "how are you"), before)["hidden"] == [4]
    assert words_value(tiny_checkpoint, Question("hello my name"), before)["hidden"] == [0, 2]


@pytest.mark.parametrize(
    ("text", "pair", "hidden"),
    [
        ("so hello my name", "how are you", [1, 3, 6]),  # a word typed before hidden words
        ("hello my own name", "well how are you", [0, 3, 7]),
        ("my name", "are you", [1, 3]),  # a hidden word and one before another taken away
        ("name my hello", "how are you", [2, 5]),  # of words that changed places one stays the same
        ("my my name", "you are you you", [2, 5]),
    ],
)
def test_a_hidden_word_stays_hidden_wherever_an_edit_moves_it(
    tiny_checkpoint: Checkpoint, text: str, pair: str, hidden: list[int]
) -> None:
    before = words_value(tiny_checkpoint, Question("hello my name", "how are you"), None) | {"hidden": [0, 2, 5]}
    assert words_value(tiny_checkpoint, Question(text, pair), before)["hidden"] == hidden


def test_a_guess_of_ones_own_gets_as_many_masks_as_it_has_pieces(pieces: Checkpoint) -> None:
    own = guesses_value(pieces, Question("say kind", hidden=(1,), guess="unkind"))["masks"][0]["own"]
    alone = rate_guess(pieces, "unkind", "say [MASK] [MASK]")
    assert (own["pieces"], own["ranks"]) == (["un", "##kind"], list(alone.ranks))
    assert own["probability"] == pytest.approx(alone.probability)
    unknown = guesses_value(pieces, Question("say kind", hidden=(1,), guess="zyzzyva"))["masks"][0]["own"]
    assert "never learned" in unknown["error"]


def test_the_closer_views_agree_with_the_guesses(tiny_checkpoint: Checkpoint) -> None:
    asked = Question("hello my name", "how are you", hidden=(0, 2), view=LENS, mask=1)
    masks = guesses_value(tiny_checkpoint, asked)["masks"]
    lens = closer_value(tiny_checkpoint, asked)
    assert (lens["masks"], lens["mask"], lens["watched"]) == (["hello", "name"], 1, "name")
    token, probability = masks[1]["pieces"][0]["guesses"][0]
    assert lens["rows"][-1]["best"] == [token, pytest.approx(probability)]
    assert len(lens["rows"]) == tiny_checkpoint.config.num_hidden_layers + 1
    guess = closer_value(tiny_checkpoint, dataclasses.replace(asked, view=EXPLAINED, mask=7))
    assert [word["word"] for word in guess["words"]] == ["my", "how", "are", "you"]
    assert (guess["answer"], math.exp(guess["log_probability"])) == (token, pytest.approx(probability))
    other = closer_value(tiny_checkpoint, dataclasses.replace(asked, view=EXPLAINED, guess="are"))
    rated = rate_guess(tiny_checkpoint, "are", "[MASK] my [MASK]", "how are you", mask=1)
    assert (other["answer"], other["log_probability"]) == ("are", pytest.approx(rated.log_probability))
    strange = closer_value(tiny_checkpoint, dataclasses.replace(asked, view=EXPLAINED, guess="zyzzyva"))
    assert (strange["answer"], strange["text"].split(" is")[0]) == (token, "“zyzzyva”")
    assert "Click a word" in closer_value(tiny_checkpoint, Question("hello", view=EXPLAINED))["text"]


def test_the_lens_says_what_it_cannot_follow(tiny_checkpoint: Checkpoint) -> None:
    def shown(text: str, guess: str = "") -> tuple[str, str]:
        value = closer_value(tiny_checkpoint, Question(text, hidden=(1,), guess=guess, view=LENS))
        return value["watched"], value["text"]

    [[likeliest, _]] = fill_mask(tiny_checkpoint, "hello [MASK]", top_k=1)[0]
    refused = "“{}” is not one word of this model"
    assert shown("hello zyzzyva") == (likeliest, "")
    answer, text = shown("hello zyzzyva", "are you")
    assert answer == likeliest
    assert text.startswith(refused.format("are you"))
    answer, text = shown("hello name", "zyzzyva")
    assert answer == "name"
    assert text.startswith(refused.format("zyzzyva"))
    for typed in ("hello zyzzyva", "hello name"):
        answer, text = shown(typed, " Are ")
        assert answer.lower() == "are"
        assert "is not one word" not in text


def test_the_layers_follow_the_first_piece_of_a_hidden_word(pieces: Checkpoint) -> None:
    value = closer_value(pieces, Question("Say Unkind please", hidden=(1,), view=LENS))
    assert "The first of its 2 pieces is shown." in value["text"]
    rated = rate_guess(pieces, "un", "Say [MASK] [MASK] please")
    assert value["watched"] == "un"
    assert value["rows"][-1]["cells"][value["candidates"].index("un")] == pytest.approx(rated.probability)
    assert value["rows"][-1]["rank"] == rated.ranks[0]


def test_a_sweep_agrees_with_hiding_each_word_alone(tiny_checkpoint: Checkpoint) -> None:
    value = closer_value(tiny_checkpoint, Question("hello my zyzzyva", "how", hidden=(0,), view=SWEEP))
    assert [word["probability"] is None for word in value["words"]] == [False, False, True, False]
    alone = rate_guess(tiny_checkpoint, "my", "hello [MASK] zyzzyva", "how")
    assert value["words"][1]["probability"] == pytest.approx(alone.probability, rel=1e-4)
    rows = closer_rows(value)
    assert [row["word"] for row in rows] == ["hello", "my", "zyzzyva", "how"]
    assert (rows[2]["probability"], rows[3]["sentence"]) == (None, 2)


def test_a_view_of_no_word_has_no_numbers(tiny_checkpoint: Checkpoint) -> None:
    value = closer_value(tiny_checkpoint, Question("hello", view=LENS))
    with pytest.raises(InputError, match="Click a word"):
        file_text("csv", {"": value}, closer_rows)


def test_thin_gives_means_and_ends_at_the_last_step() -> None:
    rows = [row(step, mlm_loss=step) for step in range(1, 12)]
    points = thin(rows, 4)
    assert [point[0] for point in points] == [3, 6, 9, 11]
    assert [point[1] for point in points] == [2, 5, 8, 10.5]
    assert thin([], 4) == []
    assert len(thin(rows, 100)) == len(rows)


def test_what_was_never_asked_for_is_left_out_of_the_mean() -> None:
    assert thin([row(1, math.nan), row(2, 4.0)], 1)[0][1] == 4.0
    [point] = thin([row(1, math.nan)], 1)
    assert point[1] is None
    assert json.loads(json.dumps(point, allow_nan=False)) == point


def test_of_an_uploaded_file_that_is_not_utf_8_the_likely_encoding_is_chosen(tmp_path) -> None:
    path = tmp_path / "old.txt"
    for content, likely in (
        ("тише едешь, дальше будешь".encode("cp1251"), "windows-1251"),
        ("Le garçon est allé à l’école très tôt. Où est la clé ?".encode("cp1252"), "windows-1252"),
        ("ü\n".encode(), None),
        ("ü\n".encode("utf-16"), "utf-16"),
    ):
        path.write_bytes(content)
        update = encoding_of(None, str(path))
        assert (update["value"], update["visible"]) == (likely, likely is not None)
    path.write_bytes("ü and a\n".encode("utf-16-le"))  # without its mark, nothing is likely, and a person knows
    assert (encoding_of(str(path))["value"], encoding_of(str(path))["visible"]) == (None, True)
    assert not encoding_of(None)["visible"]
    assert not encoding_of(str(tmp_path / "gone"))["visible"]


def test_the_parameters_of_a_model_are_those_of_its_file(tiny_checkpoint: Checkpoint, tmp_path) -> None:
    save_checkpoint(tiny_checkpoint, tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    facts = model_facts(Model("tiny", "here", tiny_checkpoint))
    shown = {name: (shape, weights) for name, shape, weights in facts["parameters"]}
    assert shown == {
        name: (" × ".join(map(str, tensor.shape)), f"{tensor.numel():,}") for name, tensor in saved.items()
    }
    total = sum(int(weights.replace(",", "")) for _, weights in shown.values())
    assert dict(facts["facts"])["[[parameter|Parameters]]"] == f"{total:,}"


def test_the_files_of_a_folder_are_opened_without_those_that_are_no_part_of_a_model(tiny_checkpoint, tmp_path) -> None:
    save_checkpoint(tiny_checkpoint, tmp_path)
    for name in ("preprocessor_config.json", "pytorch_model.bin", "generation_config.json"):
        (tmp_path / name).write_bytes(b"\x80\x04")
    opened = open_files(sorted(tmp_path.iterdir()))
    assert opened.name == "2 layers of 12"
    assert fill_mask(opened, "how [MASK] you") == fill_mask(tiny_checkpoint, "how [MASK] you")
    with pytest.raises(CheckpointError, match=r"no config\.json among generation_config\.json; choose a \.zip"):
        open_files([tmp_path / "generation_config.json"])
    with pytest.raises(CheckpointError, match=r"but 'pytorch_model\.bin'\. Weights in \.bin.*are never opened"):
        open_files([tmp_path / "pytorch_model.bin"])
    (tmp_path / "added_tokens.json").write_bytes(b"\x80\x04")
    with pytest.raises(CheckpointError, match=r"^added_tokens\.json is not valid JSON"):
        open_files(sorted(tmp_path.iterdir()))


@pytest.mark.parametrize("is_zip", [False, True])
def test_a_folder_without_weights_opens_and_one_with_a_pickle_does_not(is_zip, tiny_checkpoint, tmp_path) -> None:
    def opened() -> Checkpoint:
        files = sorted(folder.iterdir())
        if is_zip:
            with zipfile.ZipFile(tmp_path / "bare.zip", "w") as archive:
                for file in files:
                    archive.write(file, f"bare/{file.name}")
        return open_files([tmp_path / "bare.zip"] if is_zip else files)

    folder = tmp_path / "files"
    save_checkpoint(tiny_checkpoint, folder)
    (folder / "model.safetensors").unlink()
    facts = model_facts(Model("bare", "random weights", opened()))
    assert ["State", "random weights"] in facts["facts"]
    assert facts["notes"] == ["All weights are random; only the tokenizer and the sizes are those of the files."]
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04")
    with pytest.raises(CheckpointError, match=r"no model\.safetensors, but 'pytorch_model\.bin'"):
        opened()


@pytest.fixture(scope="module")
def finished(service: TrainingService):
    run = service.start(load_recipe("romeo-juliet").override({"training.steps": 40}), seed=2)
    run.wait()
    return run


def test_a_question_for_news_gets_what_is_new_in_a_kilobyte(service: TrainingService, finished) -> None:
    space = Workspaces(service, {}).enter(None)
    space.add_run(finished)
    first = run_news(space, finished.id)
    assert first["cursors"] == [40, 40, 0]
    assert len(first["points"]) == 40
    assert first["precision"] == "float32"
    assert first["snapshots"] == [snapshot.step for snapshot in finished.snapshots]
    live = run_news(space, finished.id, 5, 30)
    assert len(live["points"]) <= POINTS_LIVE
    assert {len(point) for point in live["points"]} == {1 + 9}
    assert len(json.dumps(live, separators=(",", ":"))) <= 1024
    nothing = run_news(space, finished.id, *first["cursors"])
    assert (nothing["points"], nothing["snapshots"], nothing["cursors"]) == ([], [], first["cursors"])


def test_the_first_guesses_bring_what_does_not_change(service: TrainingService, finished) -> None:
    space = Workspaces(service, {}).enter(None)
    space.add_run(finished)
    first = run_guesses(space, finished, None, first=True)
    assert first["step"] == 40
    assert len(first["sentences"]) == len(first["words"]) == 5
    assert first["baselines"].keys() == {"uniform", "unigram", "coin"}
    early = run_guesses(space, finished, 1, first=False)
    assert early.keys() == {"step", "words"}
    assert early["step"] < 40
    assert early["words"] != first["words"]


@pytest.mark.parametrize(
    ("changed", "milliseconds"),
    [
        ({"step": 0}, 120),
        ({}, 400),
        ({"sharing": 30}, 900),
        ({"step": 0, "sharing": 30}, 120),
        ({"status": "queued", "step": 0, "sharing": 30, "runs_ahead": 2}, 120),
        ({"status": "queued", "step": 0, "runs_ahead": 30}, 900),
        ({"status": "paused", "sharing": 3}, 2_000),
        ({"status": "finished"}, 60_000),
    ],
)
def test_a_page_asks_less_often_in_a_crowd_but_soon_for_its_first_loss(finished, changed, milliseconds) -> None:
    running = {"status": "running", "step": 7, "sharing": 1}
    assert poll_delay(dataclasses.replace(finished.progress(), **(running | changed))) == milliseconds


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"runs_ahead": 2}, "2 runs are prepared before yours."),
        ({"runs_ahead": 1}, "One run is prepared before yours."),
        (
            {"lacking": 3 * 10**6, "wait_seconds": 3.6},
            "Waiting for 3 MB of memory until other runs have ended, about 4 s.",
        ),
        ({"preparing": "training the tokenizer"}, "Preparing: training the tokenizer."),
        ({}, "Preparing."),
        ({"status": "running", "sharing": 1}, ""),
        ({"status": "running", "sharing": 2}, "Sharing the machine with 1 other."),
        ({"status": "running", "sharing": 3}, "Sharing the machine with 2 others."),
        ({"status": "paused", "sharing": 3}, ""),
    ],
)
def test_the_status_line_says_what_a_run_waits_for(finished, changed, sentence) -> None:
    queued = {"status": "queued", "runs_ahead": 0, "wait_seconds": None, "preparing": ""}
    assert status_line(dataclasses.replace(finished.progress(), **{**queued, **changed})) == sentence


def test_the_header_does_not_wait_for_the_model_of_a_run_that_has_ended(service: TrainingService) -> None:
    workspaces = Workspaces(service, {})
    space = workspaces.enter(None)
    run = workspaces.start(space, load_recipe("romeo-juliet"), Corpus.from_text("one sentence only\n", "lines"))
    wait(lambda: run.status == "failed")
    line = shown_model(workspaces, space, run.id, None)
    assert (line["detail"], line["steps"]) == ("ended before it had a model", [])


def test_a_longer_text_brings_its_held_out_curve(service: TrainingService) -> None:
    words = ("one", "two", "three", "four", "five", "six", "seven")
    text = "\n\n".join("\n".join(f"{a} {b} {c}" for b in words) for a, c in zip(words * 2, words[3:] * 4, strict=False))
    recipe = load_recipe("romeo-juliet").override({"training.steps": 30})
    run = service.start(recipe, Corpus.from_text(text, "lines"), seed=1).wait()
    wait(run.evaluations)
    space = Workspaces(service, {}).enter(None)
    space.add_run(run)
    news = run_news(space, run.id)
    assert [point[0] for point in news["held"]] == [point.step for point in run.evaluations()[: len(news["held"])]]
    assert {len(point) for point in news["held"]} == {5}
    assert news["cursors"][2] == len(news["held"])


def test_a_loss_is_compared_with_baselines(finished) -> None:
    vocabulary = finished.snapshots[-1].empty.config.vocab_size
    found = baselines(Corpus.from_text("hello romeo\nhello juliet\n", "lines"), finished.snapshots[-1])
    # hello stands for half of the words, the other two for a quarter each: 1/2 ln 2 + 2 x 1/4 ln 4.
    losses = {"uniform": math.log(vocabulary), "unigram": 1.5 * math.log(2), "coin": math.log(2)}
    assert {name: baseline["loss"] for name, baseline in found.items()} == pytest.approx(losses, abs=1e-4)
    assert found["coin"]["label"] == "coin toss (ln 2 = 0.69)"
    assert found["uniform"]["label"].startswith(f"uniform guess (ln {vocabulary} = ")


def test_the_numbers_of_a_run_are_given_as_files(finished) -> None:
    rows, held_out = finished.history(), [StepRow(step=20, **dict(zip(HELD_OUT, (1.5, 0.5, 0.25, math.nan))))]
    run = SimpleNamespace(history=lambda: rows, evaluations=lambda: held_out)
    *training, last = curve_rows(run)
    assert [row["mlm_loss"] for row in training] == [row.mlm_loss for row in rows]
    measured = {"mlm_loss": 1.5, "nsp_loss": 0.5, "mlm_accuracy": 0.25, "nsp_accuracy": None}
    assert last == {"part": "held-out", "step": 20, **measured}
    table = file_text("csv", {"": [*training, last]}, iter).removeprefix(BYTE_ORDER_MARK)
    table = list(csv.DictReader(table.splitlines()))
    assert [float(row["grad_norm"]) for row in table[:-1]] == [row.grad_norm for row in rows]
    assert (table[-1]["mlm_loss"], table[-1]["nsp_accuracy"], table[-1]["grad_norm"]) == ("1.5", "", "")


def test_typed_masks_and_clicked_words_are_answered_in_reading_order(finished) -> None:
    checkpoint = finished.snapshots[-1].checkpoint()
    asked = Question("hello [MASK] my name", "[MASK] you", hidden=(2, 0))
    shown = words_value(checkpoint, asked, None)
    assert (shown["words"], shown["typed"]) == (["hello", "my", "name", "you"], [(0, 1), (1, 3)])
    value = guesses_value(checkpoint, asked)
    assert [mask["word"] for mask in value["masks"]] == ["hello", "", "name", ""]
    assert all(len(mask["pieces"][0]["guesses"]) == 5 for mask in value["masks"])


def test_guesses_are_given_as_files(finished) -> None:
    checkpoint = finished.snapshots[-1].checkpoint()
    asked = Question("hello my name", "[MASK] you", hidden=(2, 0))
    shown = guesses_value(checkpoint, asked)["masks"]
    rows = [*guess_rows({"masks": shown})]
    assert len(rows) == 3 * 5
    assert [row["token"] for row in rows[::5]] == [mask["pieces"][0]["guesses"][0][0] for mask in shown]
    with pytest.raises(InputError, match="Click words"):
        guesses_code(checkpoint, Question("hello my name"))
    with pytest.raises(InputError, match="Click words"):
        file_text("json", {"": guesses_value(checkpoint, Question("hello my name"))}, guess_rows)


def test_another_model_guesses_the_same_hidden_words(tiny_checkpoint: Checkpoint, tiny_config, pieces) -> None:
    other = dataclasses.replace(tiny_checkpoint, module=make_model(tiny_config, seed=1))
    asked = Question("how are you", "i am [MASK]", hidden=(1, 3))
    assert beside_value(tiny_checkpoint, other, asked)["masks"] == guesses_value(other, asked)["masks"]
    beside = beside_value(pieces, tiny_checkpoint, Question("say unkind", hidden=(1,)))
    assert len(beside["masks"][0]["pieces"]) == 1, "the other model has no such word"


def test_hidden_words_are_found_by_their_place_where_another_model_splits_the_text_otherwise() -> None:
    dialogue, english = (load_checkpoint(CHECKPOINTS / name) for name in ("romeo-juliet", "english-mini"))
    asked = Question("Hello, my name is [MASK].", "Don't you know Romeo?", hidden=(1, 4, 7))
    value = beside_value(dialogue, english, asked)
    assert [mask["word"] for mask in value["masks"]] == ["my", "", "Don", "'", "t", "Romeo"]
    value = beside_value(english, dialogue, dataclasses.replace(asked, hidden=(2, 11)))
    assert [mask["word"] for mask in value["masks"]] == ["my", "", "Romeo"]
    for hidden, word in ((5, "."), (6, "Don")):
        with pytest.raises(InputError, match=f"does not read “{re.escape(word)}” as a word of its own"):
            beside_value(english, dialogue, dataclasses.replace(asked, hidden=(hidden,)))


@pytest.mark.parametrize("kind", [LENS, EXPLAINED, SWEEP])  # of other words: test_swapped_words.py
def test_the_python_of_a_closer_view_gives_the_same_numbers(tiny_checkpoint: Checkpoint, tmp_path, kind: str) -> None:
    save_checkpoint(tiny_checkpoint, tmp_path / "model")
    named = dataclasses.replace(tiny_checkpoint, name=str(tmp_path / "model"))
    asked = Question("how 'are' you", "i am romeo", hidden=(0, 2), guess="juliet", view=kind, mask=1, off=((1, 2),))
    scope: dict = {}
    exec(closer_code(named, asked), scope)
    found, shown = scope["found"], closer_value(without_heads(tiny_checkpoint, [(1, 2)]), asked)
    if kind == LENS:
        assert shown["candidates"] == list(found.candidates)
        torch.testing.assert_close(torch.tensor([row["cells"] for row in shown["rows"]]), found.probabilities)
    elif kind == EXPLAINED:
        assert shown["answer"] == found.answer[0]
        torch.testing.assert_close(torch.tensor([word["shares"] for word in shown["words"]]), found.shares.T)
        assert scope["trial"].counts == (0, 1, 2, 3, 4)
    else:
        assert [word["probability"] for word in shown["words"]] == [
            pytest.approx(word.own.probability) if word.own else None for word in found
        ]
    if kind != SWEEP:
        with pytest.raises(InputError, match="hidden word"):
            closer_code(named, Question("how are you", view=kind))


@pytest.mark.parametrize("off", [(), ((0, 1), (1, 2))])
def test_the_python_of_guesses_gives_the_same_numbers(tiny_checkpoint: Checkpoint, tmp_path, off) -> None:
    save_checkpoint(tiny_checkpoint, tmp_path / "model")
    named = dataclasses.replace(tiny_checkpoint, name=str(tmp_path / "model"))
    scope: dict = {}
    asked = Question("how are you", "i am romeo", hidden=(1,), off=off)
    exec(guesses_code(named, asked), scope)
    answering = without_heads(tiny_checkpoint, off)
    shown = guesses_value(answering, asked)["masks"][0]["pieces"][0]["guesses"]
    for (word, probability), (expected, exact) in zip(scope["guesses"][0], shown, strict=True):
        assert (word, probability) == (expected, pytest.approx(exact, rel=1e-5))


def test_a_model_of_pairs_gets_a_note_with_a_single_sentence(tiny_checkpoint: Checkpoint) -> None:
    assert PAIRS_ONLY in guesses_value(tiny_checkpoint, Question("how are you", hidden=(0,)))["notes"]
    assert PAIRS_ONLY not in guesses_value(tiny_checkpoint, Question("how are you", "i am romeo", hidden=(0,)))["notes"]
    words_alone = dataclasses.replace(tiny_checkpoint, missing=frozenset({"nsp"}))
    assert guesses_value(words_alone, Question("how are you", hidden=(0,)))["notes"] == []


def test_each_hidden_word_has_its_rank_among_all_and_one_that_the_vocabulary_lacks_says_so(finished) -> None:
    checkpoint = finished.snapshots[0].checkpoint()  # which knows nothing yet, so that most words are far down
    asked = Question("Hello zyzzyva my name is", "[MASK] romeo", hidden=(0, 1, 2, 3, 4))
    value = guesses_value(checkpoint, asked)
    texts, ranks = mask_words(checkpoint, asked)[0].texts, []
    for number, mask in enumerate(value["masks"]):
        [piece] = mask["pieces"]
        assert mask["is_lacking"] == (number == 1)
        if number in (1, 5):
            assert piece["answer"] is None
            continue
        token, probability, rank = piece["answer"]
        alone = rate_guess(checkpoint, token, *texts, mask=number)
        assert (token, (rank,)) == (mask["word"].lower(), alone.ranks)
        assert probability == pytest.approx(alone.probability, rel=1e-4)
        ranks.append(rank)
    assert max(ranks) > 5, "at least one is not in the list"
    assert value["sentences"] == [["", 0, " ", 1, " ", 2, " ", 3, " ", 4, ""], ["", 5, " romeo"]]
    other = beside_value(checkpoint, checkpoint, asked)
    assert "zyzzyva" in other["notes"][0], "which the words above do not say of the second model"


def test_a_note_on_the_text_is_said_once() -> None:
    recipe = load_recipe("romeo-juliet")
    corpus = Corpus.from_text("w" * 300 + " one\ntwo three\n", "lines", "The text")
    assert len(corpus.notes) == 1
    assert preview_value(preview(recipe, corpus), corpus)["notes"] == list(corpus.notes)


def test_a_sentence_that_repeats_is_asked_once() -> None:
    corpus = Corpus.from_text("one two\nthree four\none two\nthree four\none two\n", "lines", "The text")
    prepared = prepare(load_recipe("romeo-juliet"), corpus)
    board = GuessBoard(corpus, Checkpoint(prepared.first_model().eval(), prepared.tokenizer))
    assert ["".join(parts) for *parts, _, _ in board.sentences] == ["one two", "three four"]


def test_a_word_is_first_right_at_the_first_kept_step_with_that_guess(service: TrainingService, finished) -> None:
    space = Workspaces(service, {}).enter(None)
    space.add_run(finished)
    steps = [snapshot.step for snapshot in finished.snapshots]
    words = {step: run_guesses(space, finished, step, first=False)["words"] for step in steps}
    first = [next((step for step in steps if words[step][k][2]), None) for k in range(5)]
    assert run_guesses(space, finished, None, first=False)["first_right"] == first
    assert set(first) - {None}
    workspaces = Workspaces(service, {})
    hidden = Question("Hello, my name is Romeo. [MASK]", hidden=(4,), model=finished.id)
    value = first_right(PageRequest(workspaces, space, hidden))["steps"]
    texts = ("Hello, my name is [MASK]. [MASK]",)
    right = (
        step
        for step in steps
        if fill_mask(workspaces.model(space, finished.id, step).checkpoint, *texts)[0][0][0] == "romeo"
    )
    assert value == [next(right, None), False]


def test_a_request_judges_a_few_steps_and_says_no_step_too_late(service: TrainingService, finished) -> None:
    corpus, newest = finished.job.source, finished.snapshots[-1]
    whole = GuessBoard(corpus, newest.checkpoint()).first_right.steps(finished)
    asks = GuessBoard(corpus, newest.checkpoint()).first_right
    judged = 0
    while (found := asks.steps(finished, 2)) != whole:
        assert all(step in (None, right) for step, right in zip(found, whole, strict=True))
        assert 0 < len(asks.right) - judged <= 2
        judged = len(asks.right)
    space = Workspaces(service, {}).enter(None)
    recipe = load_recipe("romeo-juliet").override({"training.steps": 1000})
    live = Workspaces(service, {}).start(space, recipe)
    wait(lambda: len(live.snapshots) > 9)
    live.pause()
    for count in range(1, 4):
        live.status = "running"  # the answer is that of a run that trains
        run_guesses(space, live, None, first=False)
        assert len(monitor._boards[live].first_right.right) == count * JUDGED_LIVE
    live.status = "paused"
    live.stop()


def test_a_run_that_keeps_its_end_alone_cannot_tell_when_a_word_was_right(finished) -> None:
    kept = SimpleNamespace(snapshots=finished.snapshots[-1:])
    assert FirstRight([], [], []).steps(kept) is None


def test_the_board_guesses_as_fill_mask_does(tiny_checkpoint: Checkpoint) -> None:
    corpus = Corpus.from_text("Hello you\nMy name is Romeo\nHow are you\nThank\n", "lines")
    board = GuessBoard(corpus, tiny_checkpoint)
    after = dict(itertools.pairwise(corpus.sentences))
    assert len(board.sentences) == 3, "a last one would stand alone"
    for (before, word, end, pair, number), [guess, probability, right] in zip(
        board.sentences, board.at(tiny_checkpoint)
    ):
        text = f"{before}{word}{end}"
        masked, _ = mask_words(tiny_checkpoint, Question(text, pair, hidden=(number,)))
        assert masked.texts == (f"{before}[MASK]{end}", after[text]), "what Masked words asks"
        [[(token, expected)]] = fill_mask(tiny_checkpoint, f"{before}[MASK]{end}", after.get(text), top_k=1)
        assert (guess, probability) == (token, pytest.approx(expected, abs=1e-6))
        assert right == (token == word.lower())


def test_sentences_that_are_too_long_for_the_model_are_asked_alone_or_not_at_all(tiny_checkpoint: Checkpoint) -> None:
    assert tiny_checkpoint.config.max_position_embeddings == 17
    corpus = Corpus.from_text("hello you " * 4 + "\n" + "my name " * 5 + "\n" + "how are " * 9 + "\n", "lines")
    board = GuessBoard(corpus, tiny_checkpoint)
    assert [before[:2] or word[:2] for before, word, *_ in board.sentences] == ["he", "my"]
    assert len(board.at(tiny_checkpoint)) == 2


def test_a_model_of_labelled_pairs_is_asked_about_its_own_label(tiny_checkpoint: Checkpoint) -> None:
    verdict = verdict_value(tiny_checkpoint, Question("how are you", "i am romeo"))
    assert verdict["labels"] == ["IsNext", "NotNext"]
    assert verdict["probability"] >= 0.5
    pairs = dataclasses.replace(tiny_checkpoint, recipe={"corpus": {"pair_label": "Paraphrase"}})
    verdict = verdict_value(pairs, Question("how are you", "i am romeo"))
    assert verdict["labels"] == ["Paraphrase", "not Paraphrase"]
    assert "class Paraphrase" in verdict["sentence"]


@pytest.mark.parametrize(
    ("model", "first"),
    [("", "Hello, how are you? I am Romeo."), ("english-mini", "The old house"), ("chinese-poems", "雨后山村")],
)
def test_a_model_offers_sentences_of_its_own_text(model, first):
    space = Workspace("token")
    corpus = corpus_of(space, model)
    assert corpus.sentences[0].startswith(first)
    found = sentences(PageRequest(SimpleNamespace(), space, {}), model)
    assert [*found["first"]] == found["all"][:2] == corpus.sentences[:2]


def test_explanations_are_tried_on_the_guess_without_the_heads_that_are_off_and_on_the_text(
    service: TrainingService,
) -> None:
    asked = Question("hello how are you", "i am romeo", hidden=(2,), view=EXPLAINED, guess="is", off=((0, 1), (1, 2)))
    request = PageRequest(open_workspaces(service), Workspace(""), asked)
    model = without_heads(request.checkpoint, asked.off)
    texts = ("hello how [MASK] you", "i am romeo")
    saved = look_closer(request)["masked-closer"]
    torch.testing.assert_close(
        torch.tensor([word["shares"] for word in saved["words"]]), explain(model, *texts, answer="is").shares.T
    )
    expected = deletion(model, explain(model, *texts, answer="is"))
    trial = tried_value(request)
    assert trial["curves"] == expected.curves.tolist()
    assert trial["slower"] == expected.slower.tolist()
    text = trial_texts(model, request.corpus)
    rows = [deletion(model, explain(model, each)).deviations.tolist() for each in text]
    assert tried_on_text(request) == {"rows": rows}
    rows = closer_rows(saved)
    assert [(row["sentence"], row["word"]) for row in rows[:3]] == [(1, "hello"), (1, "how"), (1, "you")]
    assert rows[0]["left_out"] == saved["words"][0]["shares"][0]
    with pytest.raises(InputError, match="hide"):
        tried_value(dataclasses.replace(request, given=dataclasses.replace(asked, hidden=())))
