"""Whatever a stranger asks with another visitor's run id, session or model, no byte of it comes back and nothing stops.

The test walks the app's own lists of events, functions and routes, so that a new one is covered.
"""

import itertools
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from helpers import wait

import balcony.app
from balcony.frame.answers import MOST_ASKED, Answers
from balcony.handlers import MALFORMED, SURPRISE
from balcony.server.workspace import Model, Workspace
from balcony.server.workspaces import Workspaces
from bert_core import TrainingService, load_recipe
from bert_core.data.corpus import Corpus
from bert_core.runs.run import Run

SECRET = "zyzzyva"
SESSION = "thesessionofalice"


@pytest.fixture(scope="module")
def owner(service: TrainingService) -> Iterator[tuple[str, Answers, Workspace, Run]]:
    """A server with a visitor, whose text has a secret word."""
    made: list[Answers] = []

    class Remembered(Answers):
        def __init__(self, workspaces: Workspaces) -> None:
            super().__init__(workspaces)
            made.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(balcony.app, "Answers", Remembered)
        app, url, _ = balcony.launch(service, server_name="127.0.0.1", prevent_thread_lock=True, quiet=True)
    [answers] = made
    workspaces = answers.workspaces
    text = Corpus([[f"{SECRET} {word} {SECRET}s {word}" for word in ("one", "two", "three", "four")]])
    space = workspaces.enter(None)
    run = workspaces.start(space, load_recipe("romeo-juliet"), text, paused=True)
    run.step()
    wait(lambda: run.steps_done and run.status == "paused")
    found = space.checkpoint(run)
    assert found is not None
    space.add_model(Model(SECRET, SECRET, found[1]))
    yield url, answers, space, run
    app.get_blocks().close(verbose=False)


@pytest.fixture(autouse=True)
def expected(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing that a client may send is an error that nobody expected."""
    yield
    assert [record.getMessage() for record in caplog.get_records("call") if record.name == "balcony"] == []


def ask(url: str, path: str, content: Any = None) -> str:
    body = None if content is None else json.dumps(content).encode()
    try:
        request = urllib.request.Request(f"{url}{path}", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read().decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        return error.read().decode("utf-8", "replace")


def uploaded_file(url: str, name: str) -> str:
    """The path of an uploaded file of four words."""
    form = b'--b\r\nContent-Disposition: form-data; name="files"; filename="%s"\r\n\r\na b\nc d\n\r\n--b--\r\n'
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    request = urllib.request.Request(f"{url}gradio_api/upload", form % name.encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as sent:
        [path] = json.load(sent)
    return path


def keys_of(space: Workspace, run: Run) -> list[str]:
    return [run.id, *space.models]


def is_visitor(component: dict[str, Any]) -> bool:
    """Whether a component's value is the visitor's token."""
    return component["props"].get("elem_id") == "visitor"


def with_key(value: Any, key: str) -> Any:
    """A component's value that names another visitor's model or run wherever it may."""
    if isinstance(value, dict):
        return value | dict.fromkeys(("model", "other", "run", "show", "key", "selected", "id"), key)
    return key if isinstance(value, str) or value is None else value


def test_no_event_of_the_page_gives_a_stranger_anything(owner: tuple[str, Answers, Workspace, Run]) -> None:
    url, server, space, run = owner
    config = json.loads(ask(url, "config"))
    components = {each["id"]: each for each in config["components"]}
    visitors = {number for number, each in components.items() if is_visitor(each)}
    assert len(visitors) == 1
    asked, answered = 0, 0
    for key in keys_of(space, run):
        for event in [each for each in config["dependencies"] if each["backend_fn"]]:
            stranger = server.workspaces.enter(None).token
            for token in (stranger, run.id) if key == run.id else (stranger,):
                data = [
                    token if number in visitors else with_key(components[number]["props"].get("value"), key)
                    for number in event["inputs"]
                ]
                question = {
                    "fn_index": event["id"],
                    "data": data,
                    "session_hash": f"{SESSION}{asked // 50}",
                    "event_data": {"index": key},
                }
                answer = ask(url, "gradio_api/run/predict", question)
                asked, answered = asked + 1, answered + ('"data"' in answer)
                assert SECRET not in answer, event
                assert space.token not in answer, event
    assert asked > 60
    assert answered > asked / 5, "the questions reach the handlers"
    assert (run.status, run.steps_done, len(space.runs), len(space.models)) == ("paused", 1, 1, 1)


NO_FREE_VALUES = ("checkbox", "downloadbutton", "dropdown", "number", "slider", "uploadbutton")
# Of the kinds that lists of naughty strings collect, all in one text.
NAUGHTY = (
    "\"'; DROP TABLE x;-- `id` $(id) ${7*7} {{7*7}} %s%n ../../etc/passwd C:\\con file:///etc/passwd <img onerror=a()>"
    " [MASK] [PAD] ##a 1e1000 NaN None \x00\x7f\x85\u200b \u202e\u2066 \ufeff\u2028\ufffe \U0010ffff \ud800"
    " ½ ١٢٣ ﷽ 田中さん İ ß z͑ͫ 👩‍👩‍👧‍👦 🇺🇸🇷"
)


def choices_of(radio: dict[str, Any]) -> list[Any]:
    """The choices of a radio control; of the encodings, which all go the same way, two."""
    choices = radio["props"]["choices"]
    return choices[:2] if "encoding" in radio["props"]["elem_id"] else choices


def test_no_handler_gives_back_what_a_client_claims(owner: tuple[str, Answers, Workspace, Run]) -> None:
    """Whatever is in a view on the page, the server sends only what it has found itself. Texts are asked about, and
    come back as words; a naughty one is answered as any other."""
    url, server, _, _ = owner
    config = json.loads(ask(url, "config"))
    components = {each["id"]: each for each in config["components"]}
    uploaded = {kind: uploaded_file(url, f"a{kind}") for kind in (".txt", ".json")}
    asked, answered, mark = 0, 0, "claimed7f3"
    claim = {"facts": [[mark, mark]], "notes": [mark], "error": "", "html": mark, "figure": {"data": [mark]}}
    for event in config["dependencies"]:
        inputs = [components[number] for number in event["inputs"]]
        # Each choice once: of what is pasted, uploaded or chosen, another part of the page is read.
        variants = max((len(choices_of(each)) for each in inputs if each["type"] == "radio"), default=1)
        for variant, number in itertools.product(range(variants if event["backend_fn"] else 0), (None, -1)):
            data: list[Any] = []
            for each in inputs:
                kind, value = each["type"], each["props"].get("value")
                if is_visitor(each):
                    value = server.workspaces.enter(None).token
                elif kind == "textbox":
                    value = NAUGHTY
                elif kind == "radio":
                    choices = choices_of(each)
                    value = choices[variant % len(choices)][1]
                elif kind == "file":
                    ending = ".json" if each["props"].get("file_types") == [".json"] else ".txt"
                    value = {"path": uploaded[ending], "meta": {"_type": "gradio.FileData"}}
                    value = [value] if each["props"].get("file_count") == "multiple" else value
                elif kind == "number" and number is not None:
                    value = number
                elif kind not in NO_FREE_VALUES:
                    value = {**value, **claim} if isinstance(value, dict) else claim
                data.append(value)
            question = {"fn_index": event["id"], "data": data, "session_hash": f"{SESSION}9{asked // 50}"}
            answer = ask(url, "gradio_api/run/predict", question)
            asked, answered = asked + 1, answered + ('"data"' in answer)
            assert mark not in answer, event
    assert asked > 60
    assert answered > asked / 2, "the questions reach the handlers"


def test_a_naughty_text_in_every_field_is_answered(owner: tuple[str, Answers, Workspace, Run]) -> None:
    """Every handler that reads a field or the question, in which the other fields go, gets the text and has a sentence
    for it."""
    url, server, _, _ = owner
    config = json.loads(ask(url, "config"))
    components = {each["id"]: each for each in config["components"]}
    asked = naughty_questions()
    fields = {number for number, each in components.items() if each["type"] == "textbox"}
    props = {number: components[number]["props"] for number in fields}
    reached = {
        number
        for number, each in props.items()
        if not each.get("interactive", True)  # these are shown only
    }
    for event in config["dependencies"]:
        inputs = [components[number] for number in event["inputs"]]
        if not any(each["id"] in fields or each["props"].get("elem_id") == "question" for each in inputs):
            continue
        reached |= fields.intersection(event["inputs"])
        for question in asked if event["backend_fn"] else ():
            session = f"{SESSION}8{event['id']}"
            special = {"visitor": server.workspaces.enter(None).token, "question": question}
            data = [
                special.get(
                    each["props"].get("elem_id"), NAUGHTY if each["type"] == "textbox" else each["props"].get("value")
                )
                for each in inputs
            ]
            body = {"fn_index": event["id"], "data": data, "session_hash": session, "event_data": {}}
            answer = ask(url, "gradio_api/queue/join" if event["queue"] else "gradio_api/run/predict", body)
            if event["queue"]:
                answer = ask(url, f"gradio_api/queue/data?session_hash={session}")
            assert '"data"' in answer, event
            assert SURPRISE[:20] not in answer, event
    assert reached == fields


def naughty_questions() -> list[dict[str, Any]]:
    texts = dict.fromkeys(("text", "pair", "guess", "word"), NAUGHTY)
    return [texts | more for more in ({"contexts": [NAUGHTY] * 2, "hidden": [1]}, {"choices": [NAUGHTY] * 2})]


def asked(url: str, visitor: Any, question: Any, *asks: list[Any]) -> list[str]:
    """The answers as JSON, in the order of what is asked."""
    sent = {"visitor": visitor, "question": question, "asks": asks}
    lines = [json.loads(line) for line in ask(url, "balcony/ask", sent).split("\n") if line]
    return [json.dumps(value, ensure_ascii=False) for _, value in sorted(lines, key=lambda line: line[0])]


def declared(url: str) -> list[str]:
    """The answers that views of the tabs show."""
    config = json.loads(ask(url, "config"))
    [bar] = (each for each in config["components"] if each["props"].get("elem_id") == "question")
    names = [name for name, answer in bar["props"]["props"]["options"]["answers"].items() if answer["views"]]
    assert len(names) > 8
    return names


def test_every_answer_to_a_naughty_question_is_what_the_server_has_found(
    owner: tuple[str, Answers, Workspace, Run],
) -> None:
    url, server, _, _ = owner
    mark, names = "claimed7f3", [[name] for name in declared(url)]
    for question in naughty_questions():
        question |= {key: [mark] for key in ("facts", "notes", "error", "html", "values")}
        found = asked(url, server.workspaces.enter(None).token, question, *names)
        assert len(found) == len(names)
        for answer in found:
            assert isinstance(json.loads(answer), dict)
            assert mark not in answer
            assert SURPRISE[:20] not in answer
            assert MALFORMED not in answer


def test_no_answer_gives_a_stranger_anything(owner: tuple[str, Answers, Workspace, Run]) -> None:
    url, server, space, run = owner
    own = {}
    for name in server:
        rows = [[], [run.id, None], [run.id, False, [0, -1, 0]]]
        asks = [[name, *row] for row in rows if name not in ("stop", "stop-experiment")]
        own[name] = "".join(asked(url, space.token, {"model": run.id}, *asks))
        for key in keys_of(space, run):
            question = {"model": key, "other": key, "text": "hello [MASK]", "step": None, "run": key}
            shapes = [[], [None], [0], [0, 0], [True], [None, True], [{}], ["json", None], [[key], "json"], [key, key]]
            shapes += [[key, *rest] for rest in ([], [None], [0], [None, True], ["json"], [False, [0, -1, 0]])]
            for token, some in ((server.workspaces.enter(None).token, shapes), (key, shapes[-2:])):
                found = asked(url, token, question, *([name, *values] for values in some))
                assert len(found) == len(some)
                assert SECRET not in "".join(found), name
                assert space.token not in "".join(found), name
    assert len(own) > 30
    assert SECRET in own["matrix"], "the owner gets it"
    assert sum(SECRET in found for found in own.values()) > 2
    assert (run.status, run.steps_done, len(space.runs), len(space.models)) == ("paused", 1, 1, 1)


def test_a_request_asks_for_so_much_and_no_more(owner: tuple[str, Answers, Workspace, Run]) -> None:
    url, server, _, _ = owner
    visitor = server.workspaces.enter(None).token
    assert asked(url, visitor, {}, *[["models"]] * MOST_ASKED)[-1].startswith('[["')
    for asks in ([["models"]] * (MOST_ASKED + 1), [[]], ["models"], [3], None):
        body = {"visitor": visitor, "question": {}, "asks": asks}
        assert json.loads(ask(url, "balcony/ask", body)) == {"error": MALFORMED}
    for one in (["none"], [3], [{}], ["news"], ["news", 3, 3], ["model", "", None, 1], ["__init__"]):
        assert asked(url, visitor, {}, one) == [json.dumps({"error": MALFORMED})]


def test_no_route_and_no_endpoint_gives_a_stranger_anything(owner: tuple[str, Answers, Workspace, Run]) -> None:
    url, server, space, run = owner
    stranger = server.workspaces.enter(None).token
    news = ["news", run.id, [0, -1, 0]]
    answers = [each for token in (stranger, run.id, None) for each in asked(url, token, {}, news)]
    for name in ("training_status", "stop_training", "download"):
        answers.append(ask(url, f"gradio_api/run/{name}", {"data": [run.id]}))
    answers.append(ask(url, "gradio_api/run/fill_mask", {"data": [f"{SECRET} [MASK]"[8:], "", 5, run.id]}))
    paths = ("health", "config", "gradio_api/info", "gradio_api/startup-events", "gradio_api/app_id")
    answers += [ask(url, path) for path in paths]
    for answer in answers:
        assert SECRET not in answer
        assert space.token not in answer
    assert run.status == "paused"
