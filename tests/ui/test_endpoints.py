"""What a program gets through gradio_client."""

import http.client
import json
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

import ui
from bert_core import (
    TrainingService,
    attention,
    fill_mask,
    load_checkpoint,
    load_recipe,
    next_sentence,
    save_checkpoint,
)
from bert_core.config import LOCAL
from bert_core.runs.run import ENDED
from ui.server.workspace import NOT_YOURS

TEXT = "hello [MASK] are you"


@pytest.fixture(scope="module")
def shipped(service: TrainingService, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learned a little, instead of the shipped one."""
    run = service.start(load_recipe("romeo-juliet").override({"training.steps": 20}), seed=3)
    while run.status not in ENDED:
        time.sleep(0.02)
    folder = tmp_path_factory.mktemp("checkpoints") / "romeo-juliet"
    save_checkpoint(run.snapshots[-1].checkpoint(), folder)
    return folder


@pytest.fixture(scope="module")
def client(service: TrainingService, shipped: Path) -> Iterator[Client]:
    app, url, _ = ui.launch(service, shipped=[shipped], server_name="127.0.0.1", prevent_thread_lock=True, quiet=True)
    yield Client(url, verbose=False)
    app.get_blocks().close(verbose=False)


def test_only_the_documented_endpoints_are_public(client: Client) -> None:
    endpoints = client.view_api(return_format="dict")["named_endpoints"]
    names = {
        "fill_mask",
        "next_sentence",
        "attention",
        "start_training",
        "training_status",
        "stop_training",
        "download",
    }
    assert set(endpoints) == {f"/{name}" for name in names}
    parameters = {
        name: [(part["parameter_name"], part.get("parameter_default")) for part in endpoint["parameters"]]
        for name, endpoint in endpoints.items()
    }
    assert parameters["/fill_mask"] == [("text", None), ("text_pair", ""), ("top_k", 5), ("run_id", "")]
    assert parameters["/next_sentence"] == [("sentence_a", None), ("sentence_b", None), ("run_id", "")]
    assert parameters["/attention"] == [("text", None), ("text_pair", ""), ("run_id", "")]
    assert parameters["/download"] == [("run_id", None)]
    assert parameters["/start_training"] == [("recipe", "romeo-juliet"), ("corpus_text", ""), ("seed", 0)]


def test_probes_answer_as_the_library_does(client: Client, shipped: Path) -> None:
    checkpoint = load_checkpoint(shipped)
    [answer] = client.predict(TEXT, api_name="/fill_mask")
    [expected] = fill_mask(checkpoint, TEXT)
    assert [word for word, _ in answer] == [word for word, _ in expected]
    assert [share for _, share in answer] == pytest.approx([share for _, share in expected], abs=1e-6)
    [more] = client.predict(TEXT, "romeo", 7, api_name="/fill_mask")
    assert len(more) == 7
    judged = client.predict("hello romeo", "thank you romeo", api_name="/next_sentence")
    assert judged == pytest.approx(next_sentence(checkpoint, "hello romeo", "thank you romeo"), abs=1e-6)


def test_attention_is_plain_json(client: Client, shipped: Path) -> None:
    answer = client.predict("hello romeo", "how are you", api_name="/attention")
    maps = attention(load_checkpoint(shipped), "hello romeo", "how are you")
    assert answer["tokens"] == list(maps.tokens)
    assert answer["token_type_ids"] == list(maps.token_type_ids)
    layers, heads, size, _ = maps.weights.shape
    assert (len(answer["weights"]), len(answer["weights"][0]), len(answer["weights"][0][0])) == (layers, heads, size)
    assert sum(answer["weights"][0][0][0]) == pytest.approx(1, abs=1e-4)


def wait_for(client: Client, run_id: str, ready: Any) -> dict[str, Any]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        status = client.predict(run_id, api_name="/training_status")
        if ready(status):
            return status
        time.sleep(0.05)
    raise AssertionError(status)


def test_a_run_from_start_to_stop(client: Client) -> None:
    run_id = client.predict(api_name="/start_training")
    assert len(bytes.fromhex(run_id)) == 16
    status = wait_for(client, run_id, lambda status: status["step"] > 0)
    keys = ["status", "reason", "step", "steps", "mlm_loss", "nsp_loss", "mlm_accuracy", "nsp_accuracy"]
    assert list(status) == keys
    assert status["steps"] == load_recipe("romeo-juliet").training.steps
    assert status["nsp_loss"] > 0
    client.predict(run_id, api_name="/stop_training")
    assert wait_for(client, run_id, lambda status: status["status"] in ENDED)["status"] in ("stopped", "finished")


def test_a_run_on_a_text_of_ones_own(client: Client) -> None:
    text = "one two three\nfour five six\nseven eight nine"
    run_id = client.predict("romeo-juliet", text, 5, api_name="/start_training")
    wait_for(client, run_id, lambda status: status["step"] > 0)
    client.predict(run_id, api_name="/stop_training")


def test_a_programs_own_run_is_probed_and_downloaded(client: Client, tmp_path: Path) -> None:
    text = "one two three\nfour five six\nseven eight nine"
    run_id = client.predict("romeo-juliet", text, 5, api_name="/start_training")
    wait_for(client, run_id, lambda status: status["step"] > 0)
    client.predict(run_id, api_name="/stop_training")
    wait_for(client, run_id, lambda status: status["status"] in ENDED)
    packed = client.predict(run_id, api_name="/download")
    zipfile.ZipFile(packed).extractall(tmp_path)
    [folder] = tmp_path.iterdir()
    checkpoint = load_checkpoint(folder)
    [guesses] = client.predict("one [MASK] three", run_id=run_id, api_name="/fill_mask")
    expected = fill_mask(checkpoint, "one [MASK] three")[0]
    assert [word for word, _ in guesses] == [word for word, _ in expected]
    judged = client.predict("one two three", "four five six", run_id, api_name="/next_sentence")
    assert judged == pytest.approx(next_sentence(checkpoint, "one two three", "four five six"), abs=1e-6)
    assert client.predict("one two", "", run_id, api_name="/attention")["tokens"] == ["[CLS]", "one", "two", "[SEP]"]
    for name in ("/fill_mask", "/attention"):
        with pytest.raises(AppError) as caught:
            client.predict("one [MASK]", run_id="0" * 32, api_name=name)
        assert str(caught.value) == NOT_YOURS


@pytest.mark.parametrize("endpoint", ["/training_status", "/stop_training", "/download"])
@pytest.mark.parametrize("run_id", ["", "0" * 32, "../../etc", "é\n"])
def test_an_unknown_id_gives_one_fixed_sentence(client: Client, endpoint: str, run_id: str) -> None:
    with pytest.raises(AppError) as caught:
        client.predict(run_id, api_name=endpoint)
    assert str(caught.value) == NOT_YOURS


@pytest.mark.parametrize(
    ("endpoint", "arguments", "part"),
    [
        ("/fill_mask", ("no mask here",), "MASK"),
        ("/fill_mask", ("[MASK] " * 200,), "64"),
        ("/next_sentence", ("", "hello"), "empty"),
        ("/start_training", ("no-such-recipe",), "no-such-recipe"),
        ("/start_training", ("/etc/passwd.json",), "There is no recipe"),
        ("/start_training", ("romeo-juliet", "", -1), "seed"),
    ],
)
def test_bad_input_gets_its_sentence(client: Client, endpoint: str, arguments: tuple, part: str) -> None:
    with pytest.raises(AppError, match=part):
        client.predict(*arguments, api_name=endpoint)


def test_a_text_that_cannot_be_trained_on_says_why(client: Client) -> None:
    with pytest.raises(AppError, match="plain text"):
        client.predict("romeo-juliet", "a\x00b", api_name="/start_training")
    run_id = client.predict("romeo-juliet", "one sentence only", api_name="/start_training")
    status = wait_for(client, run_id, lambda status: status["status"] in ENDED)
    assert status["status"] == "failed"
    assert "single sentence" in status["reason"]


def ask(client: Client, path: str, question: bytes | None = None) -> Any:
    with urllib.request.urlopen(urllib.request.Request(f"{client.src}{path}", question), timeout=60) as answer:
        return json.loads(answer.read())


def test_a_page_gets_news_of_its_own_run_alone(client: Client) -> None:
    run = client.predict("romeo-juliet", "one two\nthree four\n", 1, api_name="/start_training")
    question = [run, run, False, [0, -1, 0]]  # a program's run id is its visitor's token
    while not (news := ask(client, "balcony/news", json.dumps(question).encode()))["points"]:
        assert news["status"] in ("queued", "running")
        time.sleep(news["poll_ms"] / 1000)
    assert news["cursors"][0] > 0
    stranger = json.dumps(["0" * 32, *question[1:]]).encode()
    assert ask(client, "balcony/news", stranger) == {"error": NOT_YOURS}
    unknown = json.dumps([run, "0" * 32, *question[2:]]).encode()
    assert ask(client, "balcony/news", unknown) == {"error": NOT_YOURS}
    client.predict(run, api_name="/stop_training")


def test_a_malformed_question_is_refused(client: Client) -> None:
    for question in (
        b"",
        b"[",
        b"\xff",
        b"[1, 2]",
        b'["a", "b", false, ["NaN", {}, 1]]',
        b'["a", "b", 1, [Infinity, 0, 0]]',
        b"[" * 100_000 + b"]" * 100_000,
    ):
        with pytest.raises(urllib.error.HTTPError, match="400"):
            ask(client, "balcony/news", question)


def test_health_counts_what_waits_and_what_is_used(client: Client) -> None:
    health = ask(client, "health")
    assert (health["status"], health["queue"]) == ("ok", 0)
    assert health["bytes"] > 0


def test_what_the_page_does_not_need_is_closed(client: Client) -> None:
    for path in ("gradio_api/monitoring", "gradio_api/file=https://example.org/", "docs", "openapi.json"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            ask(client, path)
    connection = http.client.HTTPConnection(client.src.removeprefix("http://").strip("/"), timeout=60)
    connection.putrequest("POST", "/balcony/news")
    connection.putheader("Content-Length", str(LOCAL.upload_bytes // 64 + 1))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()
