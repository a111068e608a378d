"""What a program gets through gradio_client."""

import http.client
import json
import re
import struct
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError
from helpers import wait

import balcony.app
from balcony.server.workspace import NOT_YOURS
from bert_core import (
    TrainingService,
    attention,
    fill_mask,
    load_checkpoint,
    load_recipe,
    next_sentence,
    save_checkpoint,
)
from bert_core.config import ASSETS, LOCAL
from bert_core.runs.run import ENDED

TEXT = "hello [MASK] are you"


@pytest.fixture(scope="module")
def shipped(service: TrainingService, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learned a little, instead of the first shipped one."""
    run = service.start(load_recipe("romeo-juliet").override({"training.steps": 20}), seed=3)
    run.wait()
    folder = tmp_path_factory.mktemp("checkpoints") / "romeo-juliet"
    save_checkpoint(run.snapshots[-1].checkpoint(), folder)
    return folder


@pytest.fixture(scope="module")
def client(service: TrainingService, shipped: Path) -> Iterator[Client]:
    folders = [shipped, *balcony.app.SHIPPED[1:]]
    app, url, _ = balcony.launch(
        service, shipped=folders, server_name="127.0.0.1", prevent_thread_lock=True, quiet=True
    )
    yield Client(url, verbose=False)
    app.get_blocks().close(verbose=False)


@pytest.fixture(autouse=True)
def own_page(client: Client) -> None:
    """Each test asks as a page of its own: all of them together ask more than one page may."""
    client.reset_session()


def test_a_server_that_nobody_uses_leaves_the_processor_to_others(client: Client) -> None:
    def used() -> float:
        before = time.process_time()
        time.sleep(0.3)
        return time.process_time() - before

    assert min(used() for _ in range(5)) < 0.01, "processor seconds in 0.3 s"


def test_only_the_documented_endpoints_are_public(client: Client) -> None:
    endpoints = client.view_api(return_format="dict")["named_endpoints"]
    names = {
        "fill_mask",
        "next_sentence",
        "attention",
        "classify",
        "answer",
        "tag",
        "start_finetuning",
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
    assert parameters["/classify"] == [("text", None), ("text_pair", ""), ("run_id", "")]
    assert parameters["/answer"] == [("question", None), ("context", None), ("run_id", "")]
    assert parameters["/tag"] == [("text", None), ("run_id", "")]
    assert parameters["/start_finetuning"] == [("recipe", "subjects"), ("seed", 0)]
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
    return wait(lambda: ready(status := client.predict(run_id, api_name="/training_status")) and status, every=0.1)


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
    for recipe in ("romeo-juliet", "by-size"):
        run_id = client.predict(recipe, text, 5, api_name="/start_training")
        assert wait_for(client, run_id, lambda status: status["step"] > 0)["mlm_loss"] > 0
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


TRIED = [
    ("subjects", "/classify", ("hello romeo", "")),
    ("who-when-where", "/answer", ("who are you?", "Hello, I am Romeo.")),
    ("persons-and-places", "/tag", ("Hello, I am Romeo.",)),
]


@pytest.mark.parametrize(("recipe", "endpoint", "texts"), TRIED)
def test_a_task_is_learned_and_answered(client: Client, recipe: str, endpoint: str, texts: tuple[str, ...]) -> None:
    run_id = client.predict(recipe, api_name="/start_finetuning")
    status = wait_for(client, run_id, lambda status: status["step"] > 0)
    assert list(status)[4:] == ["loss", {"/tag": "f1", "/answer": "f1"}.get(endpoint, "accuracy")]
    client.predict(run_id, api_name="/stop_training")
    wait_for(client, run_id, lambda status: status["status"] in ENDED)
    found = client.predict(*texts, run_id, api_name=endpoint)
    if endpoint == "/classify":
        assert found["label"] == max(found["probabilities"], key=found["probabilities"].get)
        assert sum(found["probabilities"].values()) == pytest.approx(1, abs=1e-5)
    elif endpoint == "/answer":
        start = found["start"]
        assert texts[1][start : start + len(found["answer"])] == found["answer"] != ""
    else:
        assert all(texts[0][each["start"] : each["end"]] == each["text"] for each in found["entities"])
    for other in {each[1:] for each in TRIED} - {(endpoint, texts)}:
        with pytest.raises(AppError, match="give it"):
            client.predict(*other[1], run_id, api_name=other[0])


def test_the_english_model_learns_the_task(client: Client) -> None:
    run_id = client.predict("subjects", 3, api_name="/start_finetuning")
    wait_for(client, run_id, lambda status: status["step"] > 0)
    client.predict(run_id, api_name="/stop_training")
    wait_for(client, run_id, lambda status: status["status"] in ENDED)
    with zipfile.ZipFile(client.predict(run_id, api_name="/download")) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("recipe.json")]
        assert json.loads(archive.read(name))["start"] == "checkpoints/english-mini"


@pytest.mark.parametrize(("recipe", "endpoint", "texts"), TRIED)
def test_a_task_needs_a_model_that_has_learned_it(
    client: Client, recipe: str, endpoint: str, texts: tuple[str, ...]
) -> None:
    with pytest.raises(AppError, match="give the run_id of a run that /start_finetuning began"):
        client.predict(*texts, api_name=endpoint)
    with pytest.raises(AppError, match=NOT_YOURS):
        client.predict(*texts, "0" * 32, api_name=endpoint)


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
        ("/fill_mask", (None,), "text is None; it must be a text."),
        ("/fill_mask", (["[MASK]"],), "text is of the type list; it must be a text."),
        ("/fill_mask", ("[MASK]", None), "text_pair is None; it must be a text."),
        ("/fill_mask", ("[MASK]", "", "5"), "top_k is '5'; it must be a whole number."),
        ("/fill_mask", ("[MASK]", "", 2.5), "top_k is 2.5; it must be a whole number."),
        ("/fill_mask", ("[MASK]", "", 5, 3), "run_id is 3; it must be a text."),
        ("/next_sentence", ("one", 2), "sentence_b is 2; it must be a text."),
        ("/attention", ({"text": "one"},), "text is of the type dict; it must be a text."),
        ("/classify", (1,), "text is 1; it must be a text."),
        ("/answer", ("who", False), "context is False; it must be a text."),
        ("/tag", (None,), "text is None; it must be a text."),
        ("/start_training", (7,), "recipe is 7; it must be a text."),
        ("/start_training", ("romeo-juliet", ["one"]), "corpus_text is of the type list; it must be a text."),
        ("/start_training", ("romeo-juliet", "", "0"), "seed is '0'; it must be a whole number."),
        ("/start_finetuning", ([],), "recipe is of the type list; it must be a text."),
        ("/training_status", (None,), "run_id is None; it must be a text."),
        ("/stop_training", ([1],), "run_id is of the type list; it must be a text."),
        ("/download", (0,), "run_id is 0; it must be a text."),
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

    def news(visitor: str, run_id: str) -> Any:
        sent = {"visitor": visitor, "question": {}, "asks": [["news", run_id, [0, -1, 0]]]}
        index, found = ask(client, "balcony/ask", json.dumps(sent).encode())
        assert index == 0
        return found

    found = wait(lambda: (fresh := news(run, run))["points"] and fresh, every=0.1)  # a program's run is its own visitor
    assert found["cursors"][0] > 0
    assert news("0" * 32, run) == {"error": NOT_YOURS}
    assert news(run, "0" * 32) == {"error": NOT_YOURS}
    client.predict(run, api_name="/stop_training")


def test_a_malformed_question_is_refused(client: Client) -> None:
    for question in (
        b"",
        b"[",
        b"\xff",
        b"[1, 2]",
        b'{"visitor": "a", "asks": [["models"]]}',
        b'{"visitor": "a", "question": {}, "asks": [[]]}',
        b"[" * 100_000 + b"]" * 100_000,
    ):
        with pytest.raises(urllib.error.HTTPError, match="400"):
            ask(client, "balcony/ask", question)


def test_health_counts_what_waits_and_what_is_used(client: Client) -> None:
    run_id = client.predict("romeo-juliet", "one two\nthree four\n", 1, api_name="/start_training")
    wait_for(client, run_id, lambda status: status["step"] > 0)
    health = ask(client, "health")
    client.predict(run_id, api_name="/stop_training")
    assert (health["status"], health["queue"]) == ("ok", 0)
    assert health["bytes"] > 0


def test_what_the_page_does_not_need_is_closed(client: Client) -> None:
    for path in (
        *("gradio_api/monitoring", "gradio_api/file=https://example.org/", "file=/etc/passwd", "docs", "redoc"),
        *("openapi.json", "gradio_api/run-history/records", "gradio_api/runs", "gradio_api/mcp/"),
    ):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            ask(client, path)
    connection = http.client.HTTPConnection(client.src.removeprefix("http://").strip("/"), timeout=60)
    connection.putrequest("POST", "/balcony/ask")
    connection.putheader("Content-Length", str(LOCAL.upload_bytes // 64 + 1))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_on_loopback_the_page_has_the_names_of_this_machine_alone(client: Client) -> None:
    def status_at(host: str) -> int:
        connection = http.client.HTTPConnection(client.src.removeprefix("http://").strip("/"), timeout=60)
        connection.request("GET", "/health", headers={"Host": host})
        found = connection.getresponse().status
        connection.close()
        return found

    assert {status_at(host) for host in ("127.0.0.1:7860", "localhost", "[::1]:7860", "LOCALHOST:1")} == {200}
    hosts = ("attacker.example:7860", "127.0.0.1.nip.io", "10.0.0.1", "[::2]", "")
    assert {status_at(host) for host in hosts} == {400}


def test_a_malformed_request_is_refused_and_gets_nothing_back(client: Client) -> None:
    body = json.dumps({"session_hash": "s", "fn_index": 0, "data": ["secret"]}).encode()
    request = urllib.request.Request(urllib.parse.urljoin(client.src, "gradio_api/run/predict"), body)
    request.add_header("Content-Type", "application/json")
    with pytest.raises(urllib.error.HTTPError, match="500") as failure:
        urllib.request.urlopen(request, timeout=60)
    answer = failure.value.read()
    assert b"secret" not in answer
    assert b"Traceback" not in answer


def test_the_page_installs_as_an_app_with_its_own_mark(client: Client) -> None:
    def get(path: str) -> bytes:
        with urllib.request.urlopen(urllib.parse.urljoin(client.src, path), timeout=60) as answer:
            return answer.read()

    assert b'<link rel="manifest" href="manifest.json"' in get("")
    manifest = json.loads(get("manifest.json"))
    assert (manifest["name"], manifest["display"]) == ("Balcony", "standalone")
    assert {icon["sizes"] for icon in manifest["icons"]} == {"192x192", "512x512"}
    for icon in manifest["icons"]:
        picture = get(icon["src"])
        sides = struct.unpack(">II", picture[16:24])
        assert picture.startswith(b"\x89PNG")
        assert "x".join(map(str, sides)) == icon["sizes"]
    assert get("favicon.ico") == (ASSETS / "icon.png").read_bytes()
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get("pwa_icon/20000")


def test_the_page_of_docs_runs_and_names_every_endpoint_with_its_arguments(client):
    text = (Path(__file__).resolve().parents[2] / "docs/api.md").read_text(encoding="utf-8")
    [code] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    address = re.search(r"http://127.0.0.1:\d+", code)[0]
    exec(code.replace(address, client.src), scope := {})
    [guesses], [of_the_run] = scope["guesses"], scope["guesses_of_the_run"]
    assert len(guesses) == len(of_the_run) == 5
    assert max(of_the_run, key=lambda guess: guess[1])[0] in scope["text"]
    shown = dict(re.findall(r"^\| `(/\w+)\((.*?)\)` \|", text, re.MULTILINE))
    served = client.view_api(return_format="dict", print_info=False)["named_endpoints"]
    assert shown.keys() == served.keys()
    for name, arguments in shown.items():
        names = [each.split("=")[0] for each in arguments.split(", ")]
        assert names == [each["parameter_name"] for each in served[name]["parameters"]], name
