"""Files that are downloaded and uploaded: names of files, and zips of models, also malicious ones."""

import dataclasses
import functools
import pickle
import re
import stat
import zipfile
from pathlib import Path

import pytest
import torch
from helpers import make_batch, with_head

from balcony.server.files import file_name, folder_name, pack, save_to_share, unpack
from bert_core.config import LOCAL
from bert_core.errors import CheckpointError
from bert_core.probes.masked_words import fill_mask
from bert_core.storage.checkpoint import TaskHead, load_checkpoint, save_checkpoint
from bert_core.storage.weights import TASK_HEADS

ONE_MEGABYTE = dataclasses.replace(LOCAL, upload_bytes=2**16)  # of the files in a zip


@pytest.fixture
def folder(tiny_checkpoint, tmp_path) -> Path:
    """A written checkpoint."""
    save_checkpoint(tiny_checkpoint, tmp_path / "tiny")
    return tmp_path / "tiny"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Romeo & Juliet", "Romeo-Juliet"),
        ("con", "con-"),
        ("LPT1.txt", "LPT1-.txt"),
        ("com².tar.gz", "com²-.tar.gz"),
        ("console", "console"),
        ("a:b?c*", "a-b-c"),
        ("ends.", "ends"),
        ("Łódź", "Łódź"),
        ("...", "model"),
        ("x" * 300, "x" * 100),
        ("北" * 300, "北" * 33),
    ],
)
def test_a_file_name_is_one_that_every_system_takes(name, expected):
    assert file_name(name) == expected


def test_no_part_of_a_file_name_is_cut_off_by_a_long_one():
    assert file_name("Your run: <b>../../x</b>", "", "שלום", "guesses") == "Your-run-b-..-..-x-b-שלום-guesses"
    name = file_name("北" * 300, "x y" * 300, "attention")
    assert re.fullmatch("北{22}-x-yx.*-attention", name)
    assert len(name.encode()) < 250
    assert file_name("", "") == "model"


@pytest.mark.parametrize("architecture", [None, *TASK_HEADS])
def test_the_lines_in_the_readme_of_a_download_open_it(architecture, tiny_checkpoint, tmp_path, monkeypatch, capsys):
    model = tiny_checkpoint
    if architecture:
        head = TaskHead(architecture, ("yes", "no") if "Classification" in architecture else ())
        weight = torch.zeros(head.outputs, model.config.hidden_size)
        model = with_head(model, head, weight, torch.zeros(head.outputs))
    path = tmp_path / f"{folder_name('Your text, step 20')}.zip"
    pack(functools.partial(save_to_share, model), path)
    zipfile.ZipFile(path).extractall(tmp_path)
    monkeypatch.chdir(tmp_path)
    card = (tmp_path / path.stem / "README.md").read_text(encoding="utf-8")
    [lines] = re.findall("```python\n(.*?)```", card, re.DOTALL)
    assert sum(bool(line) for line in lines.splitlines()) == 4
    exec(lines, {})
    said = capsys.readouterr().out
    if architecture is None:
        token, probability = said.split()[:2]
        assert fill_mask(model, "hello [MASK] are you")[0][0] == (token, pytest.approx(float(probability), abs=1e-5))
    else:
        assert "logits" in said
    unpack(path, tmp_path / "again")  # the page opens it


def test_a_folder_is_named_after_its_model():
    assert folder_name("../Romeo & Juliet") == "Romeo-Juliet"


@torch.no_grad()
def test_a_packed_model_unpacks_to_the_same(tiny_checkpoint, tmp_path):
    pack(functools.partial(save_checkpoint, tiny_checkpoint), tmp_path / "model.zip")
    with zipfile.ZipFile(tmp_path / "model.zip") as archive:
        assert {name.split("/")[0] for name in archive.namelist()} == {"model"}
    unpack(tmp_path / "model.zip", tmp_path / "model")
    ids = make_batch(tiny_checkpoint.config)["input_ids"]
    logits = load_checkpoint(tmp_path / "model").model(ids).prediction_logits
    assert torch.equal(logits, tiny_checkpoint.model(ids).prediction_logits)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "model.zip"]


def make_zip(path: Path, files: dict[str, bytes], **attributes: object) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            for key, value in attributes.items():
                setattr(info, key, value)
            archive.writestr(info, data)


@pytest.mark.parametrize("top", ["", "model/"])
def test_only_files_of_a_model_are_taken_out(top, folder, tmp_path):
    files = {top + path.name: path.read_bytes() for path in folder.iterdir()}
    extra = {
        top + "README.md": b"card",
        top + "run.py": b"import os",
        "__MACOSX/config.json": b"x",
        top + "a/b/config.json": b"x",
    }
    make_zip(tmp_path / "in.zip", {**extra, **files})
    unpack(tmp_path / "in.zip", tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {path.name for path in folder.iterdir()}
    assert load_checkpoint(tmp_path / "out").notes == ()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"../config.json": b"{}"}, "holds the path '../config.json'"),
        ({"/etc/config.json": b"{}"}, "holds the path"),
        ({"a/../../config.json": b"{}"}, "holds the path"),
        ({"..\\config.json": b"{}"}, "holds the path"),
        ({"C:config.json": b"{}"}, "holds the path"),
        ({"a/config.json": b"{}", "b/config.json": b"{}"}, "several folders"),
        ({"readme.txt": b"hello"}, r"has no config\.json"),
        ({}, r"has no config\.json"),
        ({f"{i}.txt": b"" for i in range(1001)}, "1,001 files; the limit is 1,000"),
        ({"config.json": b"{}", "model.safetensors": b"\0" * 2_000_000}, "more than the limit of 1 MB"),
    ],
)
def test_malicious_archives_are_refused_and_leave_nothing(files, message, tmp_path):
    make_zip(tmp_path / "in.zip", files)
    with pytest.raises(CheckpointError, match=message):
        unpack(tmp_path / "in.zip", tmp_path / "out" / "model", ONE_MEGABYTE)
    assert not (tmp_path / "out" / "model").exists()
    assert not (tmp_path / "config.json").exists()


def test_links_encryption_and_damage_are_refused(tmp_path):
    path = tmp_path / "in.zip"

    def refused(message: str) -> None:
        with pytest.raises(CheckpointError, match=message):
            unpack(path, tmp_path / "out")
        assert not (tmp_path / "out").exists()

    make_zip(path, {"config.json": b"/etc/passwd"}, external_attr=(stat.S_IFLNK | 0o777) << 16)
    refused("holds the link 'config.json'")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("config.json", "{}")
    refused("unusual way")
    make_zip(path, {"config.json": b'{"a": 1}' * 1000})
    data = bytearray(path.read_bytes())
    path.write_bytes(data[: len(data) // 2])
    refused("damaged or not a plain zip")
    damaged = data.copy()
    damaged[50] ^= 0xFF
    path.write_bytes(damaged)
    refused("damaged or not a plain zip")
    encrypted = data.copy()
    encrypted[6] |= 1
    encrypted[data.rindex(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(encrypted)
    refused("damaged or not a plain zip")
    path.write_bytes(pickle.dumps({"config.json": "{}"}))
    refused("damaged or not a plain zip")
    path.unlink()
    refused(r"in\.zip cannot be unpacked")


def test_a_long_list_of_files_is_refused_before_it_is_read(tmp_path, monkeypatch):
    path = tmp_path / "in.zip"
    make_zip(path, {f"{i:04000}": b"" for i in range(260)})
    monkeypatch.setattr("zipfile.ZipInfo", lambda *_: pytest.fail("the list was read"))
    with pytest.raises(
        CheckpointError, match=r"in\.zip has a list of files of 1 MB; the limit is 1 MB\. Pack one model"
    ):
        unpack(path, tmp_path / "out")


def test_a_zip_over_the_limit_is_refused_before_a_file_is_written(tmp_path, monkeypatch):
    make_zip(tmp_path / "in.zip", {"config.json": b"{}", "model.safetensors": bytes(2**20)})
    monkeypatch.setattr("shutil.copyfileobj", lambda *_: pytest.fail("a file was written"))
    with pytest.raises(CheckpointError, match="more than the limit of 1 MB"):
        unpack(tmp_path / "in.zip", tmp_path / "out", ONE_MEGABYTE)


def test_a_wrong_size_in_an_archive_does_not_get_past_the_limit(tmp_path):
    make_zip(tmp_path / "in.zip", {"config.json": b" " * 3_000_000})
    data = bytearray((tmp_path / "in.zip").read_bytes())
    directory = data.rindex(b"PK\x01\x02")
    data[directory + 24 : directory + 28] = (10).to_bytes(4, "little")
    (tmp_path / "in.zip").write_bytes(data)
    with pytest.raises(CheckpointError):
        unpack(tmp_path / "in.zip", tmp_path / "out", ONE_MEGABYTE)
    assert not (tmp_path / "out").exists()


def test_unpacking_never_writes_into_an_existing_folder(folder, tmp_path):
    make_zip(tmp_path / "in.zip", {"config.json": b"{}"})
    with pytest.raises(CheckpointError, match="cannot be unpacked"):
        unpack(tmp_path / "in.zip", folder)
    assert load_checkpoint(folder).config.hidden_size == 12
