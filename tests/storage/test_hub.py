"""Models by name, fetched by the real huggingface_hub from a small Hub on this machine's loopback."""

import errno
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from balcony.models.tab import fetch_model
from bert_core.__main__ import main
from bert_core.errors import CheckpointError
from bert_core.storage import hub
from bert_core.storage.checkpoint import load_checkpoint, save_checkpoint
from bert_core.storage.hub import fetch_checkpoint, is_hub_name

NAME = "somebody/tiny-bert"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class SmallHub(ThreadingHTTPServer):
    """Serves one model as the Hub does. asked: the paths of all requests; read: those of the files that were sent;
    tokens: the credentials in their headers."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.files, self.asked, self.tokens, self.status = files, [], [], 200
        self.headers: dict[str, str] = {}
        self.read: list[str] = []


class _Answers(BaseHTTPRequestHandler):
    server: SmallHub

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        self.server.asked.append(path)
        self.server.tokens.append(self.headers.get("Authorization"))
        files = self.server.files
        resolve = f"/{NAME}/resolve/{COMMIT}/"
        if self.server.status != 200:
            self.answer(b"{}", self.server.status, self.server.headers)
        elif path in (f"/api/models/{NAME}", f"/api/models/{NAME}/revision/main"):
            siblings = [{"rfilename": name, "size": len(data)} for name, data in files.items()]
            self.answer(json.dumps({"id": NAME, "sha": COMMIT, "siblings": siblings}).encode())
        elif path == f"/api/models/{NAME}/tree/{COMMIT}":
            tree = [{"type": "file", "path": name, "size": len(d), "oid": _etag(d)} for name, d in files.items()]
            self.answer(json.dumps(tree).encode())
        elif path.startswith(resolve) and path.removeprefix(resolve) in files:
            data = files[path.removeprefix(resolve)]
            self.server.read += [path] * (self.command == "GET")
            self.answer(data, headers={"ETag": f'"{_etag(data)}"', "X-Repo-Commit": COMMIT})
        else:
            self.answer(b"{}", 404, {"X-Error-Code": "RepoNotFound"})

    def answer(self, data: bytes, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


def _etag(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()


@pytest.fixture
def library(tmp_path, monkeypatch) -> pytest.MonkeyPatch:
    """huggingface_hub with an empty cache, on a machine that holds a credential and has no network."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    use_endpoint(monkeypatch, "http://127.0.0.1:9")
    return monkeypatch


def use_endpoint(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}")
    # The library has created an object with the address that it had before.
    monkeypatch.setattr("huggingface_hub.hf_api.api.endpoint", address)


@pytest.fixture
def small_hub(library, tiny_checkpoint, tmp_path) -> Iterator[SmallHub]:
    save_checkpoint(tiny_checkpoint, tmp_path / "served")
    files = {path.name: path.read_bytes() for path in sorted((tmp_path / "served").iterdir())}
    others = {"pytorch_model.bin": b"\x80\x04", "README.md": b"#", "onnx/model.safetensors": b"x", "tf_model.h5": b""}
    with SmallHub({**files, **others}) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        use_endpoint(library, f"http://127.0.0.1:{server.server_port}")
        yield server
        server.shutdown()
        thread.join()


def test_a_model_is_fetched_by_name_and_only_its_needed_files(small_hub, tiny_checkpoint):
    folder = fetch_checkpoint(NAME)
    assert {path.name for path in folder.iterdir()} == {
        "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
    }  # fmt: skip
    assert not [path for path in small_hub.asked if path.endswith((".bin", ".md", ".h5")) or "onnx" in path]
    loaded = load_checkpoint(folder)
    assert loaded.config == tiny_checkpoint.config


def test_no_credential_is_sent(small_hub):
    fetch_checkpoint(NAME)
    assert len(small_hub.tokens) > 4
    assert set(small_hub.tokens) == {None}


def test_a_downloaded_model_opens_again_without_a_network(small_hub, library):
    folder = fetch_checkpoint(NAME)
    use_endpoint(library, "http://127.0.0.1:9")
    assert fetch_checkpoint(NAME) == folder


def test_without_a_network_the_error_is_one_sentence(library):
    with pytest.raises(
        CheckpointError, match=r"somebody/tiny-bert was not downloaded \(.*; check that it is a public model"
    ):
        fetch_checkpoint(NAME)
    library.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(CheckpointError, match=r"not downloaded .*HF_HUB_OFFLINE"):
        fetch_checkpoint(NAME)


@pytest.mark.parametrize(
    ("status", "headers", "message"),
    [
        (404, {"X-Error-Code": "RepoNotFound"}, "404.*check that it is a public model"),
        (401, {"X-Error-Code": "RepoNotFound"}, "401.*check that it is a public model"),
        (401, {}, "401"),
        (403, {"X-Error-Code": "GatedRepo"}, "403"),
        (500, {}, "500"),
    ],
)
def test_a_model_that_the_hub_refuses_is_a_plain_error(status, headers, message, small_hub):
    small_hub.status, small_hub.headers = status, headers
    with pytest.raises(CheckpointError, match=message) as caught:
        fetch_checkpoint(NAME)
    assert "\n" not in str(caught.value)


def test_the_revision_whose_size_was_checked_is_fetched(small_hub):
    """Between the two, the owner may have put other files in the place of the first ones."""
    fetch_checkpoint(NAME)
    assert [path for path in small_hub.asked if "main" in path] == [f"/api/models/{NAME}/revision/main"]
    assert small_hub.asked[0].endswith("main")
    assert len(small_hub.read) == 4


def test_a_model_over_the_limit_is_not_fetched(small_hub):
    small_hub.files["model.safetensors"] = bytes(2**20)
    with pytest.raises(CheckpointError, match=r"has 1 MB; the limit is 100 kB"):
        fetch_checkpoint(NAME, max_bytes=100 * 2**10)
    assert small_hub.read == []


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_model_without_config_or_safetensors_is_refused(name, small_hub):
    del small_hub.files[name]
    with pytest.raises(CheckpointError, match="choose a model that has both"):
        fetch_checkpoint(NAME)


def test_a_full_disk_is_one_sentence(small_hub, library):
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    library.setattr("huggingface_hub.snapshot_download", fail)
    with pytest.raises(CheckpointError, match=r"was not downloaded \(.*No space left on device\)"):
        fetch_checkpoint(NAME)


@pytest.mark.parametrize(
    "name",
    [
        "", "bert", "a/b/c", "../etc", "a/..", "a/b\n", "a/b?x=1", "a/b@main", "/a/b", "a//b", "http://a/b", "é/b",
        "a/b c",
        "a/" + "b" * 97, "a/b--c", "a\\b", ".a/b", "a/b.", "a/b#", "a/%2e%2e",
    ],
)  # fmt: skip
def test_other_names_send_no_request(name, small_hub):
    assert not is_hub_name(name)
    with pytest.raises(CheckpointError, match="is not a model name of the Hub"):
        fetch_checkpoint(name)
    assert small_hub.asked == []


def test_the_exam_takes_a_name_and_for_a_folder_sends_no_request(small_hub, tmp_path, capsys, monkeypatch):
    text = tmp_path / "text.txt"
    text.write_text("hello romeo\nthank you\n")
    assert main(["exam", NAME, "--corpus", str(text)]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out.splitlines()[-1]).keys() == {"words", "pairs"}
    assert f"Fetching {NAME} from the Hugging Face Hub" in captured.err
    small_hub.asked.clear()
    monkeypatch.chdir(tmp_path)
    assert main(["exam", "served", "--corpus", str(text)]) == 0
    assert main(["exam", str(tmp_path / "served"), "--corpus", str(text), "--max-positions", "19"]) == 0
    assert "17 positions; 18 to 19 are new" in capsys.readouterr().err
    # A wrong name in an existing folder is not taken for a model on the Hub.
    (tmp_path / "models").mkdir()
    assert main(["exam", "models/mine", "--corpus", str(text)]) == 1
    assert "no folder 'mine'" in capsys.readouterr().err
    assert small_hub.asked == []


@pytest.mark.parametrize("keep", [True, False])
def test_the_page_opens_a_model_by_name_and_leaves_nothing_on_a_shared_machine(
    keep, small_hub, tiny_checkpoint, tmp_path
):
    model = fetch_model(NAME, keep=keep)
    assert (model.name, model.config) == ("tiny-bert", tiny_checkpoint.config)
    assert model.model.state_dict().keys() == tiny_checkpoint.model.state_dict().keys()
    assert bool(list(tmp_path.glob("cache/models--*"))) == keep


def test_loading_never_connects(small_hub):
    with pytest.raises(CheckpointError, match="There is no folder"):
        load_checkpoint(Path(NAME))
    assert small_hub.asked == []
    assert not hasattr(hub, "huggingface_hub"), "imported only when needed"
