"""A run as a zip: that it continues with the same numbers, and what is refused."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import wait

from balcony.server.workspace import Workspace
from balcony.train.exam import exam_value
from balcony.train.saved_run import OTHER_TEXT, File, report_file, resumed, state_file
from bert_core import load_recipe
from bert_core.data.corpus import Corpus
from bert_core.errors import BertCoreError, CheckpointError, CorpusError, RunError
from bert_core.runs.run import Run
from bert_core.storage.checkpoint import pack_checkpoint

RECIPE = load_recipe("romeo-juliet").override({"training.steps": 24, "training.learning_rate": 0.004})
OWN_TEXT = Corpus.from_text("one two three\nfour five six\nseven eight nine\nten eleven", name="Your text")


@pytest.fixture
def kept(tmp_path: Path) -> Callable[[File], str]:
    """Writes a file and returns its path."""

    def keep(file: File) -> str:
        name, write = file
        write(tmp_path / name)
        return str(tmp_path / name)

    return keep


def of_visitor(run: Run) -> Workspace:
    space = Workspace("token")
    space.add_run(run)
    return space


def losses(run: Run) -> list[tuple[int, float, float]]:
    return [(row.step, row.mlm_loss, row.nsp_loss) for row in run.history()]


@pytest.mark.parametrize("text", [None, OWN_TEXT], ids=["the recipe's own text", "a text of one's own"])
def test_a_run_continues_from_its_zip_with_the_same_numbers(service, kept, text: Corpus | None) -> None:
    whole = service.start(RECIPE, text, seed=6)
    wait(lambda: whole.status == "finished")
    run = service.start(RECIPE, text, seed=6, paused=True)
    for step in range(1, 10):
        wait(lambda: run.status == "paused")
        run.step()
        wait(lambda step=step: run.progress().step == step)
    path = kept(state_file(of_visitor(run), run))
    assert (
        Path(path).name == f"rate-0.004-{'Your-text' if text else 'Romeo-and-Juliet-quick'}-step-9-training-state.zip"
    )
    kinds = []
    again = resumed(service.resume, path, lambda recipe: kinds.append(recipe.text_kind) or text)
    wait(lambda: again.status == "finished")
    assert losses(again) == losses(whole)
    assert kinds == ["auto"]
    assert of_visitor(again).title_of(again) == of_visitor(run).title_of(run)
    run.stop()


def test_a_run_on_another_text_asks_for_it(service, kept) -> None:
    run = service.start(RECIPE, OWN_TEXT, seed=6)
    wait(lambda: run.status == "finished")
    path = kept(state_file(of_visitor(run), run))
    with pytest.raises(CorpusError) as caught:
        resumed(service.resume, path, lambda recipe: None)
    assert str(caught.value) == OTHER_TEXT
    with pytest.raises(CorpusError, match="Your poem is not the text"):
        resumed(service.resume, path, lambda recipe: Corpus.from_text("a b c\nd e f", name="Your poem"))


def test_what_cannot_be_saved_is_refused_with_a_reason(service, kept) -> None:
    run = service.start(RECIPE, seed=6)
    wait(lambda: run.status == "finished")
    run.give_up()
    with pytest.raises(RunError, match="no longer kept"):
        kept(state_file(of_visitor(run), run))


def test_a_zip_that_is_not_a_saved_run_is_refused(service, tiny_checkpoint, tmp_path) -> None:
    holiday, model, escape = (tmp_path / f"{name}.zip" for name in ("holiday", "model", "escape"))
    with zipfile.ZipFile(holiday, "w") as archive:
        archive.writestr("beach.jpg", b"sand")
    pack_checkpoint(tiny_checkpoint, model)
    with zipfile.ZipFile(escape, "w") as archive:
        archive.writestr("../training_state.json", b"{}")
    (tmp_path / "letter.zip").write_bytes(b"Dear Juliet")
    before = set(tmp_path.rglob("*"))
    for path, message in (
        (holiday, "config.json"),
        (model, "without its training state"),
        (escape, "path"),
        (tmp_path / "letter.zip", "damaged or not a plain zip"),
    ):
        with pytest.raises(CheckpointError, match=message):
            resumed(service.resume, str(path), lambda recipe: None)
    assert set(tmp_path.rglob("*")) == before
    assert issubclass(CheckpointError, BertCoreError)


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("recipe.json", lambda facts: facts | {"title": "long " * 60_000}, "larger than the limit of 256 kB"),
        ("training_state.json", lambda facts: facts | {"step": 1_000_001}, "the limit is 1,000,000"),
        ("training_state.json", lambda facts: facts | {"step": 3}, "do not belong together"),
        ("training_state.json", lambda facts: facts | {"sha256": {}}, "do not belong together"),
        (
            "tokenizer_config.json",
            lambda facts: facts | {"saved": "at another step"},
            "not the file that was saved with",
        ),
    ],
)
def test_a_zip_that_would_fill_the_memory_is_refused(service, kept, tmp_path, file, change, message) -> None:
    run = service.start(RECIPE, seed=6)
    wait(lambda: run.status == "finished")
    run.continue_for(2_000_000)
    run.stop()
    honest, hostile = Path(kept(state_file(of_visitor(run), run))), tmp_path / "hostile.zip"
    with zipfile.ZipFile(honest) as source, zipfile.ZipFile(hostile, "w") as target:
        for info in source.infolist():
            content = source.read(info)
            if info.filename.endswith(f"/{file}"):
                content = json.dumps(change(json.loads(content)))
            target.writestr(info.filename, content)
    with pytest.raises(CheckpointError, match=message):
        resumed(service.resume, str(hostile), lambda recipe: None)


def test_the_report_is_that_of_the_run(service, kept) -> None:
    space = Workspace("token")
    run = service.start(RECIPE, seed=6)
    wait(lambda: run.status == "finished")
    space.add_run(run)
    path, (_, verdict) = Path(kept(report_file(space, run))), exam_value(space, run)["verdict"]
    assert path.name == "rate-0.004-Romeo-and-Juliet-quick-step-24-report.html"
    text = path.read_text(encoding="utf-8")
    assert verdict in text
    assert f"MLM loss {run.history()[-1].mlm_loss:.4f}" in text
