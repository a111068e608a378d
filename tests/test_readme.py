"""The README's map and reading list agree with the source tree; its lines for `transformers` and tutorials run."""

import json
import re
import shlex
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename
from test_boundaries import imports_of

import balcony.app
from bert_core.__main__ import _parser, main
from bert_core.storage.checkpoint import load_checkpoint, save_checkpoint

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
REQUIREMENTS = (ROOT / "requirements.txt").read_text(encoding="utf-8")
HOW_IT_IS_BUILT = README.split("## How it is built")[1].split("\n## ")[0]


def test_a_space_can_read_the_front_matter():
    """Of https://huggingface.co/docs/hub/spaces-config-reference; a Space installs the Gradio that it names."""
    facts = yaml.safe_load(README.split("---\n")[1])
    pinned = dict(line.split("==") for line in REQUIREMENTS.splitlines())
    assert facts["sdk_version"] == metadata.version("gradio") == pinned["gradio"]
    assert (facts["sdk"], facts["title"], facts["license"]) == ("gradio", "Balcony", "mit")
    assert (ROOT / facts["app_file"]).is_file()
    assert facts["python_version"] == re.search(r'python_version = "(.*)"', PROJECT)[1]
    colours = ["red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"]
    assert facts["colorFrom"] in colours
    assert facts["colorTo"] in colours
    assert len(facts["short_description"]) <= 60
    assert len(facts["emoji"]) == 1


@pytest.mark.parametrize("package", ["bert_core", "balcony"])
def test_the_map_shows_every_folder_and_no_other(package):
    block = re.search(rf"^{package}/ .*\n((?:  .*\n)*)", HOW_IT_IS_BUILT, re.MULTILINE)[1]
    shown = [line.split()[0] for line in block.splitlines()]
    assert sorted(shown) == sorted(f"{path.parent.name}/" for path in (ROOT / package).glob("*/__init__.py"))


def test_the_map_shows_every_folder_of_the_root():
    shown = set(re.findall(r"^(\w+)/", HOW_IT_IS_BUILT, re.MULTILINE))
    assert shown == {"bert_core", "balcony", "assets", "checkpoints", "tests", "docs", "benchmarks"}
    assert all((ROOT / folder).is_dir() for folder in shown)


@pytest.mark.parametrize(
    "page",
    ["README.md", *(f"checkpoints/{folder.name}/README.md" for folder in balcony.app.SHIPPED)],
)
def test_lines_for_transformers_run_as_they_stand(page, tiny_checkpoint, tmp_path, monkeypatch):
    save_checkpoint(tiny_checkpoint, tmp_path / "my-model")
    monkeypatch.chdir(tmp_path if page == "README.md" else ROOT)
    text = (ROOT / page).read_text(encoding="utf-8")
    [code] = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "transformers." in block]
    exec(code, {})
    assert "pip install transformers" in text


def test_the_recipe_and_the_probe_to_add_run_as_they_stand(tmp_path, monkeypatch, capsys):
    [recipe] = [block for block in re.findall(r"```json\n(.*?)```", README, re.DOTALL) if "corpus" in block]
    assert len(recipe.splitlines()) <= 10
    path, output = tmp_path / "short.json", tmp_path / "trained"
    path.write_text(recipe, encoding="utf-8")
    assert main(["train", "--recipe", str(path), "--output", str(output), "--set", "training.steps=2"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["steps"] == 2
    monkeypatch.chdir(ROOT)
    [code] = [block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "def movement" in block]
    assert sum(bool(line) for line in code.splitlines()) <= 10
    exec(code, scope := {})
    tokens, moved = scope["movement"](load_checkpoint("checkpoints/romeo-juliet"), "hello how are you i am romeo")
    assert (len(tokens), moved.shape) == (9, (2, 9))


@pytest.mark.parametrize("number", [0, 1], ids=["a program", "a notebook"])
def test_the_lines_for_a_program_run_as_they_stand(number, monkeypatch):
    monkeypatch.chdir(ROOT)
    code = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[number].rstrip()
    *_, last = code.splitlines()
    scope: dict = {}
    exec(code, scope)
    if number:
        assert eval(last, scope)._repr_html_().startswith("<iframe")
    else:
        scope["service"].close()


def test_the_command_line_takes_every_line_for_it():
    blocks = "".join(re.findall(r"```(?:ba)?sh\n(.*?)```", README, re.DOTALL)).replace("\\\n", " ")
    commands = re.findall(r"^\.venv/bin/python -m bert_core (.*)", blocks, re.MULTILINE)
    assert len(commands) >= 7
    for command in commands:
        assert _parser().parse_args(shlex.split(command)).command, command


ANSWERED = {"question": "how", "answers": [{"text": "nice", "answer_start": 0}]}
PARAGRAPHS = [{"context": f"nice romeo {word}", "qas": [ANSWERED]} for word in ("hello", "you", "great", "oh")]
SQUAD = {"data": [{"paragraphs": PARAGRAPHS}]}
IN_THE_FORM_OF = {  # a small file for each that the tutorials read
    "toutiao": "great team_!_sport\nnice romeo_!_story\n" * 3,
    "mnli": "nice_!_great_!_entailment\nnice_!_my name_!_neutral\n" * 3,
    "swag": "sent1,sent2,ending0,ending1,ending2,ending3,label\n" + "hello,you,are,is,am,too,2\n" * 6,
    "train-v1.1": json.dumps(SQUAD),
    "dev-v1.1": json.dumps(SQUAD),
    "example": "romeo B-PER\nis O\n\nhello O\njuliet B-PER\nmeet O\n\n" * 3,
}


def test_the_programs_of_the_tutorials_are_five_lines(tiny_checkpoint, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    save_checkpoint(tiny_checkpoint, "tiny")
    [block] = [block for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) if "-tutorial" in block]
    _, *commands = block.replace("\\\n", " ").splitlines()
    tasks = []
    for command in commands:
        arguments = shlex.split(command)
        assert arguments.pop(0) == "finetune"
        for option in ("--train", "--validation", "--test"):
            if option in arguments:
                name = arguments[arguments.index(option) + 1]
                [text] = [text for start, text in IN_THE_FORM_OF.items() if name.startswith(start)]
                Path(name).write_text(text, encoding="utf-8")
        arguments[arguments.index("--checkpoint") + 1] = "tiny"
        assert main(["finetune", *arguments, "--set", "training.epochs=2"]) == 0
        summary = json.loads(capsys.readouterr().out.splitlines()[-1])
        tasks.append(summary["task"])
        assert summary["steps"] == 2
        assert summary["test"]
    assert tasks == ["text-classification"] * 2 + ["multiple-choice", "question-answering", "token-classification"]


@pytest.mark.parametrize("python", ["cp311", "cp312", "cp313", "cp314"])
@pytest.mark.parametrize("platform", [r"manylinux.*x86_64", r"manylinux.*aarch64", r"macosx.*arm64", "win_amd64"])
def test_pip_finds_a_wheel_for_each_pinned_package(platform, python):
    """In the lock that .ci/wheels writes. Without one pip wants a compiler, and the README's first command fails."""
    pins = [Requirement(line) for line in REQUIREMENTS.splitlines()]
    served = {
        (name, str(version))
        for name, version, _, tags in map(parse_wheel_filename, (ROOT / ".ci/wheels.txt").read_text().split())
        for tag in tags
        if (tag.interpreter in ("py3", python) or tag.abi == "abi3") and re.fullmatch(f"any|{platform}", tag.platform)
    }
    assert served == {(canonicalize_name(pin.name), str(pin.specifier).removeprefix("==")) for pin in pins}


def test_the_package_requires_what_is_pinned_and_each_part_of_it_what_it_imports():
    project = tomllib.loads(PROJECT)["project"]
    pins = {pin.name: pin for line in REQUIREMENTS.splitlines() if (pin := Requirement(line))}
    core, page = (
        {each.name: each for each in map(Requirement, lines)}
        for lines in (project["dependencies"], project["optional-dependencies"]["page"])
    )
    packages = metadata.packages_distributions()

    def imported(package):
        names = {name.split(".")[0] for path in (ROOT / package).rglob("*.py") for name in imports_of(path)}
        return {canonicalize_name(own) for name in names for own in packages.get(name, ())}

    ours = {"balcony", "bert-core", "pydantic-core"}  # pydantic-core is a part of pydantic
    assert {canonicalize_name(name) for name in core} == imported("bert_core") - ours
    assert (
        imported("balcony") - imported("bert_core") - ours - {"jinja2", "filelock"} <= page.keys()
    )  # which torch brings
    assert core.keys() | page.keys() == pins.keys() - {"pytest"}
    for each in (*core.values(), *page.values()):
        [pinned] = pins[each.name].specifier
        assert each.specifier.contains(pinned.version), each
    assert all(f"{name}" in README.split("## Start it")[1].split("\n## ")[0] for name in pins)


def test_the_first_command_is_the_same_in_both_shells():
    section = README.split("## Start it")[1].split("\n## ")[0]
    [posix] = re.findall(r"```sh\n(python3 -m venv.*)\n```", section)
    [windows] = re.findall(r"```powershell\n(.*)\n```", section)
    as_windows = posix.replace("python3 -m", "py -m").replace(".venv/bin/", r".venv\Scripts" "\\").replace(" &&", ";")
    assert windows == as_windows
