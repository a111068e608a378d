"""The README's map and reading list agree with the source tree; lines for `transformers` run as they stand."""

import re
from pathlib import Path

import pytest

from bert_core.storage.checkpoint import save_checkpoint

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
MODELS = "romeo-juliet", "english-mini"
HOW_IT_IS_BUILT = README.split("## How it is built")[1].split("\n## ")[0]


def lines_of_code(path: Path) -> int:
    """Lines of a file, or of all files in a folder, that are neither blank nor comments."""
    files = path.rglob("*.py") if path.is_dir() else [path]
    lines = [line.strip() for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return sum(bool(line) and not line.startswith("#") for line in lines)


@pytest.mark.parametrize("package", ["bert_core", "ui"])
def test_the_map_shows_every_folder_and_no_other(package):
    block = re.search(rf"^{package}/ .*\n((?:  .*\n)*)", HOW_IT_IS_BUILT, re.MULTILINE)[1]
    shown = [line.split()[0] for line in block.splitlines()]
    assert sorted(shown) == sorted(f"{path.parent.name}/" for path in (ROOT / package).glob("*/__init__.py"))


def test_the_map_shows_every_folder_of_the_root():
    shown = set(re.findall(r"^(\w+)/", HOW_IT_IS_BUILT, re.MULTILINE))
    assert shown == {"bert_core", "ui", "assets", "checkpoints", "tests", "benchmarks"}
    assert all((ROOT / folder).is_dir() for folder in shown)


def test_the_reading_list_has_the_lines_that_it_states():
    paths, total = [], re.search(r"([\d,]+) lines of Python", HOW_IT_IS_BUILT)[1]
    for item in re.findall(r"^\d\. (.*):", HOW_IT_IS_BUILT, re.MULTILINE):
        first, *others = re.findall(r"`([^`]+)`", item)
        paths += [ROOT / first, *((ROOT / first).parent / other for other in others)]
    assert [path.name for path in paths] == [
        *("config.py", "data", "model.py", "packing.py", "losses.py", "optimizer.py", "trainer.py")
    ]
    assert int(total.replace(",", "")) == pytest.approx(sum(map(lines_of_code, paths)), rel=0.02)


@pytest.mark.parametrize(
    "page", ["README.md", "checkpoints/romeo-juliet/README.md", "checkpoints/english-mini/README.md"]
)
def test_lines_for_transformers_run_as_they_stand(page, tiny_checkpoint, tmp_path, monkeypatch):
    save_checkpoint(tiny_checkpoint, tmp_path / "my-model")
    monkeypatch.chdir(tmp_path if page == "README.md" else ROOT)
    text = (ROOT / page).read_text(encoding="utf-8")
    [code] = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "transformers." in block]
    exec(code, {})
    assert "pip install transformers" in text
