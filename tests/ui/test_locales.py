"""The texts of the page in other languages: the same in each, with the same holes, and none is missing."""

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import bert_core.errors
from balcony.compare.runs_list import settings_of
from balcony.finetune.columns import Chosen, columns_value
from balcony.lessons.lesson_bar import lessons, terms
from balcony.server.served import locales, sources
from balcony.train.settings import in_words, label_of, with_labels, without_options
from bert_core.config import ASSETS, choices
from bert_core.runs.recipe import DEFAULT_RECIPE, FinetuningRecipe, Recipe, finetuning_recipes, load_recipe
from bert_core.tasks.examples import TASKS

ROOT = ASSETS.parent
ERRORS = {name for name in vars(bert_core.errors) if name.endswith("Error")}
SHOWN = {"label", "info", "placeholder"}  # arguments of Gradio's components; a caption is their first one
CAPTIONED = {"Accordion", "Button", "DownloadButton", "Tab", "UploadButton"}
TEXTS = {Path(name).stem: json.loads(text) for name, text in locales().items()}


def holes(text: str) -> Counter[str]:
    """The holes of a text; that of the second number, {2}, counts as one of a number."""
    return Counter(re.sub(r"\{\d+\}", "{}", hole) for hole in re.findall(r"\{\w*\}", text))


def test_the_languages_have_the_same_keys() -> None:
    assert list(TEXTS["zh"]) == list(TEXTS["ko"])


@pytest.mark.parametrize("language", TEXTS)
def test_a_translation_has_the_holes_of_its_key(language: str) -> None:
    assert {key: text for key, text in TEXTS[language].items() if not text or holes(text) != holes(key)} == {}
    numbered = [text for text in TEXTS[language].values() if re.search(r"\{\d", text)]
    for text in numbered:
        numbers = sorted(int(number) for number in re.findall(r"\{(\d+)\}", text))
        assert numbers == list(range(1, len(numbers) + 1)), text


def test_a_key_of_numbers_has_a_hole_for_each_of_them() -> None:
    """The page looks for it with {} in place of every number of a text."""
    keys = [key for key in TEXTS["zh"] if "{}" in key and not re.search(r"\{[a-z]", key, re.IGNORECASE)]
    assert [key for key in keys if re.search(r"\d", key)] == []


@pytest.mark.parametrize(("language", "script"), [("zh", r"[\u4e00-\u9fff]"), ("ko", r"[\uac00-\ud7a3]")])
def test_a_translation_is_in_its_script(language: str, script: str) -> None:
    """But for names, such as PNG, and what is written with marks alone."""
    same = [key for key, text in TEXTS[language].items() if not re.search(script, text)]
    assert [key for key in same if len(re.findall("[a-z]{2,}", key)) > 2] == []


def test_the_files_of_texts_are_served_with_the_scripts() -> None:
    assert set(locales()) == {f"locales/{path.name}" for path in (ASSETS / "locales").iterdir()}


@pytest.mark.parametrize("language", TEXTS)
def test_no_translation_can_end_the_script_of_a_saved_page(language: str) -> None:
    assert [each for pair in TEXTS[language].items() for each in pair if re.search("</|<!--", each)] == []


WORDS = {  # for each term one word, wherever its key has the term
    r"asked (words|positions)": {"zh": "待预测", "ko": "예측 대상"},
    r"(?<!a )pieces?": {"zh": "子词", "ko": "조각"},
    r"segments?(?! packed)": {"zh": "句段", "ko": "세그먼트"},
    r"held[- ]out": {"zh": "留出", "ko": "홀드아웃"},
    r"layers?": {"zh": "层", "ko": "레이어"},
    r"seeds?": {"zh": "种子", "ko": "시드"},
    r"does not follow": {"zh": "不相接", "ko": "이어지지 않"},
    r"test examples": {"zh": "测试样本", "ko": "테스트 예제"},
}
NEVER = {"zh": "被问的|奈特|死记|得分|遮住", "ko": "물어본 단어|라벨|매개변수|그래디언트|더 못 |출력층|주의를"}


@pytest.mark.parametrize("language", TEXTS)
def test_a_term_is_one_word_in_all_texts(language: str) -> None:
    found = [
        (key, text)
        for term, words in WORDS.items()
        for key, text in TEXTS[language].items()
        if re.search(rf"\b{term}\b", re.sub(r"\{\w*\}", "", key), re.IGNORECASE) and words[language] not in text
    ]
    assert found == []
    assert [text for text in TEXTS[language].values() if re.search(NEVER[language], text)] == []


def bare(text: str) -> str:
    """A text or a key with one sign for each number and each hole."""
    return re.sub(r"\{\w*\}|\d+(?:,\d{3})*(?:\.\d+)?", "#", text).strip()


MARK = re.compile(r"\[\[(.+?)(?:\|(.+?))?\]\](?!\])")  # of a term, as in balcony/parts/elements.js


def without_marks(text: str) -> str:
    return MARK.sub(lambda mark: mark[2] or mark[1], text)


KEYS = {bare(text) for key in TEXTS["zh"] for text in (key, without_marks(key))}


def missing(texts: list[str]) -> list[str]:
    """The texts with letters that no key is for."""
    return [text for text in texts if re.search("[A-Za-z]{2}", bare(text)) and bare(text) not in KEYS]


def calls(*folders: str) -> Iterator[tuple[str, ast.Call]]:
    """The calls in the Python files of folders, each with the name of what is called."""
    for path in sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        if path.name == "__main__.py":  # the command line
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                yield getattr(node.func, "id", getattr(node.func, "attr", "")), node


def written(node: ast.expr) -> str | None:
    """A text in a program, with a hole for each of its values; None for what is none."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(each.value) if isinstance(each, ast.Constant) else "{}" for each in node.values)
    return None


def test_every_error_message_has_a_translation() -> None:
    messages = [written(call.args[0]) for name, call in calls("bert_core", "balcony") if name in ERRORS and call.args]
    assert len(messages) > 200
    assert missing([without_options(message) for message in messages if message]) == []


def test_both_parts_of_what_is_wrong_with_a_line_have_a_translation() -> None:
    parts = [written(part) for name, call in calls("bert_core/tasks") if name == "wrong" for part in call.args[1:]]
    texts = [with_labels(part) for part in parts if part and part != "has the question {}{}"]
    assert len(texts) > 8
    assert missing(texts) == []


def test_every_label_of_a_control_has_a_translation() -> None:
    texts = []
    for name, call in calls("balcony"):
        texts += [written(each.value) for each in call.keywords if each.arg in SHOWN]
        texts += [written(each) for each in call.args[name == "Tab" :][:1] if name in CAPTIONED]
    assert len(texts) > 40
    assert missing([text for text in texts if text and "/" not in text]) == []  # a name of the Hub is an example


def test_what_a_recipe_needs_has_a_translation() -> None:
    """In its errors too, which name the recipe."""
    recipes = [load_recipe(path) for path in sorted((ASSETS / "recipes").iterdir())]
    needs = [recipe.corpus.needs for recipe in recipes] + [recipe.needs for recipe in finetuning_recipes()]
    forms = [task.form for task in TASKS.values()]
    assert len(set(needs)) > 8
    assert len(forms) == 5
    assert missing([*forms, *filter(None, needs), *(each.title for each in recipes)]) == []
    assert {
        "The recipe '{A}' comes without a text; give it {B}.",
        "The recipe '{A}' comes without examples; give it {B}.",
    } <= set(TEXTS["zh"])


def test_what_a_column_may_be_has_a_translation() -> None:
    titles = {
        title
        for name, task in TASKS.items()
        if task.usual
        for _, title in columns_value(name, (), None, Chosen())["kinds"]
    }
    assert len(titles) == 7
    assert missing(sorted(titles)) == []


def test_every_stage_of_a_preparation_has_a_translation() -> None:
    """A run shows it on the page. A hole before a comma may stay empty; the last one is a percentage."""
    stages = [written(call.args[0]) for name, call in calls("bert_core") if name == "progress"]
    texts = [re.sub(r"\{\}$", "{}%", stage.replace("{},", ",")) for stage in stages if stage]
    assert len(texts) == 5
    assert missing(texts) == []


def marked(text: str) -> list[str]:
    """The terms that a text marks."""
    return sorted(name.lower() for name, _ in MARK.findall(text))


def test_every_mark_names_a_term_in_all_languages_and_every_term_is_marked() -> None:
    for key, text in TEXTS["zh"].items():
        assert marked(text) == marked(TEXTS["ko"][key]) == marked(key), key
    folders = {"balcony": "*.py", "assets/lessons": "*.json"}
    files = [
        path.read_text(encoding="utf-8") for folder, kind in folders.items() for path in (ROOT / folder).rglob(kind)
    ]
    texts = "\n".join(
        text for source in (*files, *sources().values()) for text in re.findall(r'"[^"\n]*"|`[^`]*`', source)
    )
    written = {*marked(texts)}
    assert {name for key in TEXTS["zh"] for name in marked(key)} <= written == {*terms()}


def test_every_term_and_every_text_of_the_lessons_has_a_translation() -> None:
    texts = [*terms().values()]
    for lesson in lessons().values():
        texts.append(lesson["title"])
        texts += [text for step in lesson["steps"] for text in (step["text"], step["ask"], step["answer"])]
        texts += [choice for step in lesson["steps"] for choice in step["choices"] if re.search("[a-z]{3}", choice)]
    assert [text for text in texts if text not in TEXTS["zh"] and bare(text) not in KEYS and text] == []


@pytest.mark.parametrize("folder", ["recipes", "experiments", "tasks"])
def test_every_title_and_description_has_a_translation(folder: str) -> None:
    found = []

    def collect(value: object, name: str = "") -> None:
        if isinstance(value, str) and name in {"title", "description", "question", "higher", "alike", "lower"}:
            found.append(value)
        for key, each in value.items() if isinstance(value, dict) else ():
            collect(each, key)
        for each in value if isinstance(value, list) else ():
            collect(each, name)

    for path in (ASSETS / folder).glob("*.json"):
        collect(json.loads(path.read_text(encoding="utf-8")))
    assert len(found) > 9
    assert missing(found) == []


def test_every_sentence_in_the_scripts_has_a_translation() -> None:
    """A sentence begins with a capital letter and a second word; what is joined from several is part of a key."""
    found = []
    for name, source in sources().items():
        code = re.sub(r"^\s*(//|/?\*).*$|//\s.*$", "", source, flags=re.MULTILINE)
        for plain, template in re.findall(r'"([^"\n]*)"|`([^`]*)`', code):
            for part in re.split(r"\$\{(?:[^{}]|\{[^{}]*\})*\}", plain or template):
                if re.match("[A-Z][a-z]* [a-z]", without_marks(part)) and not any(bare(part) in key for key in KEYS):
                    found.append((name, part))
    assert found == []


ALGORITHMS = {
    "gelu",
    "gelu_new",
    "relu",
    "tanh",
    "adamw",
    "adam",
    "adadelta",
    "muon",
    "float32",
    "bfloat16",
    "wikitext",
    "wordpiece",
    "bpe",
}


def test_every_label_and_value_of_what_differs_has_a_translation() -> None:
    """They are computed from the names of the settings. Names of algorithms and formats are the same everywhere."""
    recipe = load_recipe(DEFAULT_RECIPE)
    for kind in (Recipe, FinetuningRecipe):
        texts = [label_of(name, kind) for name in kind.settings()]
        texts += [field.description for field in kind.settings().values()]
        assert missing(texts) == []
    settings = settings_of(recipe, recipe.source())
    sections = (type(getattr(recipe, name.split(".")[0])) for name in settings if "." in name)
    fields = {name: field for section in dict.fromkeys(sections) for name, field in section.model_fields.items()}
    few = {choice for name, field in fields.items() for choice in choices(field) if name != "kind"}
    values = {True, False, None, *few} - ALGORITHMS
    phase = ({"start": 20, "steps": 15, "learning_rate": 0.01},)
    assert len(settings) > 50
    assert missing([*map(label_of, settings), *map(in_words, [*values, phase])]) == []
