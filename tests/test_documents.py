"""The map in docs agrees with the source tree; what README and docs show to type runs, and their links lead on."""

import ast
import json
import math
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

import balcony.__main__
import balcony.app
from bert_core.__main__ import _parser, main
from bert_core.config import LOCAL, PUBLIC
from bert_core.storage.checkpoint import load_checkpoint, save_checkpoint

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
REQUIREMENTS = (ROOT / "requirements.txt").read_text(encoding="utf-8")
PAGES = sorted(str(path.relative_to(ROOT)) for folder in (ROOT, ROOT / "docs") for path in folder.glob("*.md"))
TRANSLATED = {page: re.sub(r"\.(zh|ko)\.md$", ".md", page) for page in PAGES if re.search(r"\.(zh|ko)\.md$", page)}


def page_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


MAP = page_of("docs/architecture.md").split("## The map")[1].split("\n## ")[0]
CONTRIBUTING = page_of("CONTRIBUTING.md")


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
    block = re.search(rf"^{package}/ .*\n((?:  .*\n)*)", MAP, re.MULTILINE)[1]
    shown = [line.split()[0] for line in block.splitlines()]
    assert sorted(shown) == sorted(f"{path.parent.name}/" for path in (ROOT / package).glob("*/__init__.py"))


def test_the_map_shows_every_folder_of_the_root():
    shown = set(re.findall(r"^(\w+)/", MAP, re.MULTILINE))
    assert shown == {"bert_core", "balcony", "assets", "checkpoints", "tests", "docs", "benchmarks"}
    assert all((ROOT / folder).is_dir() for folder in shown)


@pytest.mark.parametrize(
    "page",
    ["docs/command-line.md", *(f"checkpoints/{folder.name}/README.md" for folder in balcony.app.SHIPPED)],
)
def test_lines_for_transformers_run_as_they_stand(page, tiny_checkpoint, tmp_path, monkeypatch):
    save_checkpoint(tiny_checkpoint, tmp_path / "my-model")
    monkeypatch.chdir(tmp_path if page.startswith("docs") else ROOT)
    text = (ROOT / page).read_text(encoding="utf-8")
    [code] = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "transformers." in block]
    exec(code, {})
    assert "pip install transformers" in text


def test_the_recipe_and_the_probe_to_add_run_as_they_stand(tmp_path, monkeypatch, capsys):
    [recipe] = [block for block in re.findall(r"```json\n(.*?)```", CONTRIBUTING, re.DOTALL) if "corpus" in block]
    path, output = tmp_path / "short.json", tmp_path / "trained"
    path.write_text(recipe, encoding="utf-8")
    assert main(["train", "--recipe", str(path), "--output", str(output), "--set", "training.steps=2"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["steps"] == 2
    monkeypatch.chdir(ROOT)
    [code] = [block for block in re.findall(r"```python\n(.*?)```", CONTRIBUTING, re.DOTALL) if "def movement" in block]
    exec(code, scope := {})
    tokens, moved = scope["movement"](load_checkpoint("checkpoints/romeo-juliet"), "hello how are you i am romeo")
    assert (len(tokens), moved.shape) == (9, (2, 9))


def blocks(text: str) -> list[tuple[str, str]]:
    """The language and the lines of each block of code."""
    return re.findall(r"^```(\w+)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def commands(text: str) -> list[list[str]]:
    """The arguments of each command line in the blocks for a shell, an alias resolved."""
    lines = "".join(code for kind, code in blocks(text) if kind in ("sh", "bash")).replace("\\\n", " ")
    for name, meant in re.findall(r'^alias (\w+)="(.*)"$', lines, re.MULTILINE):
        lines = re.sub(rf"^{name} ", f"{meant} ", lines, flags=re.MULTILINE)
    return [shlex.split(line) for line in re.findall(r"^\.venv/bin/python -m bert_core (.*)", lines, re.MULTILINE)]


@pytest.mark.parametrize(
    ("page", "least"), [("docs/command-line.md", 4), ("docs/tasks.md", 9), ("docs/tutorials.md", 12)]
)
def test_the_command_line_takes_every_line_for_it(page, least):
    found = commands(page_of(page))
    assert len(found) >= least
    for arguments in found:
        assert _parser().parse_args(arguments).command, arguments


ANSWERED = {"question": "how", "answers": [{"text": "nice", "answer_start": 0}]}
PARAGRAPHS = [{"context": f"nice romeo {word}", "qas": [ANSWERED]} for word in ("hello", "you", "great", "oh")]
SQUAD = {"data": [{"paragraphs": PARAGRAPHS}]}
IN_THE_FORM_OF = {  # a small file for each that the tutorials read
    "toutiao": "great team 明月照花_!_sport\nnice romeo 春风入山_!_story\n" * 3,
    "mnli": "nice_!_great_!_entailment\nnice_!_my name_!_neutral\n" * 3,
    "swag": "sent1,sent2,ending0,ending1,ending2,ending3,label\n" + "hello,you,are,is,am,too,2\n" * 6,
    "train-v1.1": json.dumps(SQUAD),
    "dev-v1.1": json.dumps(SQUAD),
    "example": "romeo B-PER\nis O\n\nhello O\njuliet B-PER\nmeet O\n\n" * 3,
    "msr": "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n" + "1\t1\t2\there it is\tit is here\n0\t3\t4\toh\tyou\n" * 3,
    "wiki": " = Romeo = \n\n" + " Romeo meets Juliet . They talk . They <unk> at night . \n\n" * 30,
    "books": "romeo meets juliet .\nthey talk .\nit is night .\nthe house is dark .\n" * 40,
}


SMALL = ("model.hidden_size=24", "model.num_hidden_layers=1", "model.intermediate_size=24")
FEWER = {"train": ["--set", "training.steps=3", *SMALL], "finetune": ["--set", "training.epochs=2"]}


def run_command(arguments: list[str], capsys: pytest.CaptureFixture) -> dict:
    """The result of a command in few steps of a small model; files that it names and does not find are small ones."""
    found = _parser().parse_args(arguments)
    for option in ("train", "validation", "test", "corpus", "input"):
        named = getattr(found, option, None) or []
        for path in named if isinstance(named, list) else [named]:
            if path.exists():
                continue
            [text] = [text for start, text in IN_THE_FORM_OF.items() if path.name.startswith(start)]
            path.write_text(text, encoding="utf-8")
    arguments = ["tiny" if argument.startswith("google-bert/") else argument for argument in arguments]
    assert main([*arguments, *FEWER.get(arguments[0], [])]) == 0, arguments
    said = capsys.readouterr().out.splitlines()
    return json.loads(said[-1]) if said else {}


def run_lines(code: str, scope: dict) -> None:
    """Run a block of Python; where a line ends in a comment after a value, that is the value's text."""
    lines = code.splitlines()
    for part in ast.parse(code).body:
        if isinstance(part, ast.Expr):
            value = eval(compile(ast.Expression(part.value), code, "eval"), scope)
            _, mark, said = lines[part.end_lineno - 1].partition("  # ")
            assert not mark or str(value) == said, lines[part.end_lineno - 1]
        else:
            exec(compile(ast.Module([part], []), code, "exec"), scope)


@pytest.mark.parametrize("page", ["README.md", "docs/python.md", "docs/tutorials.md"])
def test_what_a_page_shows_to_type_runs_in_its_order(page, tiny_checkpoint, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    save_checkpoint(tiny_checkpoint, "tiny")
    for folder in ("assets", "checkpoints"):
        Path(folder).symlink_to(ROOT / folder)
    scope: dict = {}
    shown = 0
    for kind, code in blocks(page_of(page)):
        if kind == "python":
            run_lines(code, scope)
            shown += 1
        for arguments in commands(f"```{kind}\n{code}```\n"):
            run_command(arguments, capsys)
            shown += 1
    assert shown
    if "service" in scope:
        scope["service"].close()


@pytest.mark.parametrize("page", ["README.zh.md", "README.ko.md"])
def test_a_translated_readme_shows_the_same_to_type(page):
    ours = blocks(page_of(page))
    assert [kind for kind, _ in ours] == ["sh", "powershell", "python"]
    assert ours == blocks(README)[:3]


@pytest.mark.parametrize("page", [page for page in TRANSLATED if page.startswith("docs")])
def test_a_translated_page_shows_the_same_to_type_under_as_many_headings(page):
    ours, theirs = (page_of(each) for each in (page, TRANSLATED[page]))
    assert [re.sub(r"  # .*", "", code) for _, code in blocks(ours)] == [
        re.sub(r"  # .*", "", code) for _, code in blocks(theirs)
    ]
    headings, tables = r"^#+ ", r"^\|"
    for each in (headings, tables):
        assert re.findall(each, ours, re.MULTILINE) == re.findall(each, theirs, re.MULTILINE)


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_a_file_and_a_heading(page):
    text = re.sub(r"^```.*?^```", "", page_of(page), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        path = (ROOT / page).parent / name if name else ROOT / page
        assert path.exists(), target
        assert not anchor or anchor in anchors(path.read_text(encoding="utf-8")), target


@pytest.mark.parametrize("page", [page for page in PAGES if "tutorials" in page])
def test_a_page_of_docs_names_what_the_page_shows(page):
    """*Batch* in English, “批次” in Chinese, ‘배치’ in Korean: tabs, settings and buttons as they are shown."""
    language = page in TRANSLATED and page.split(".")[-2]
    text = re.sub(r"^```.*?^```|`[^`]*`", "", page_of(page), flags=re.DOTALL | re.MULTILINE)
    texts = json.loads((ROOT / f"assets/locales/{language or 'zh'}.json").read_text(encoding="utf-8"))
    found = texts.values() if language else texts
    known = {re.sub(r"\[\[(?:[^|\]]+\|)?(.+?)\]\](?!\])", r"\1", each) for each in found}  # without marks of terms
    quotes = {"zh": r"“([^”]+)”", "ko": r"‘([^’]+)’", False: r"(?<!\*)\*([^*\n]+)\*(?!\*)"}
    named = re.findall(quotes[language], text)
    assert len(named) > 40
    assert sorted(set(named) - known) == []


def test_the_programs_of_the_tutorials_are_five_lines(tiny_checkpoint, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    save_checkpoint(tiny_checkpoint, "tiny")
    results = [
        run_command(each, capsys)
        for each in commands(page_of("docs/tasks.md"))
        if f"{each[2:3]}".endswith("-tutorial']")
    ]
    assert [result["task"] for result in results] == [
        *["text-classification"] * 2, "multiple-choice", "question-answering", "token-classification"
    ]  # fmt: skip
    assert all(result["test"] and result["steps"] == 2 for result in results)


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
    assert all(name in page_of("docs/deploy.md").split("## What is installed")[1].split("\n## ")[0] for name in pins)


UNITS = {"MB": 2**20, "GB": 2**30, "million": 10**6, "s": 1, "minutes": 60, "": 1}


def test_the_docs_have_the_limits_of_the_program():
    table = page_of("docs/deploy.md").split("## The limits")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    [head, *rows] = rows
    assert head[-2:] == ["`--limits public`", "`--limits local`"]
    for column, limits in ((1, PUBLIC), (2, LOCAL)):
        said = []
        for row in rows:
            number, _, unit = row[column].replace(",", "").partition(" ")
            said.append(math.inf if number == "what" else float(number) * UNITS[unit])
        assert said == list(vars(limits).values())


def test_the_docs_have_every_option_of_the_page(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["app.py", "--help"])
    with pytest.raises(SystemExit):
        balcony.__main__.arguments()
    options = set(re.findall(r"^  (--[\w-]+)", capsys.readouterr().out, re.MULTILINE))
    table = page_of("docs/deploy.md").split("## The options")[1].split("\n## ")[0]
    assert len(options) > 8
    assert options == set(re.findall(r"`(--[\w-]+)", "".join(line.split(" | ")[0] for line in table.splitlines())))


def test_the_first_command_is_the_same_in_both_shells():
    section = README.split("## Start it")[1].split("\n## ")[0]
    [posix] = re.findall(r"```sh\n(python3 -m venv.*)\n```", section)
    [windows] = re.findall(r"```powershell\n(.*)\n```", section)
    as_windows = posix.replace("python3 -m", "py -m").replace(".venv/bin/", r".venv\Scripts" "\\").replace(" &&", ";")
    assert windows == as_windows
