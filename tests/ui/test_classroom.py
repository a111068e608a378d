"""A class: what pages share, who may change it, and how much of it there can be."""

import io
import json
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from typing import Any

import pytest
import segno
from starlette.applications import Starlette
from starlette.testclient import TestClient

from bert_core.config import PUBLIC
from bert_core.errors import InputError
from bert_core.runs.recipe import DEFAULT_RECIPE, load_recipe
from bert_core.runs.run import ENDED, Run
from ui.classroom import state
from ui.classroom.address import QUIET_ZONE, join_address, qr_code, show, welcome
from ui.classroom.routes import ADDRESS, MOST_POINTS, class_routes
from ui.classroom.state import MOST_SHARED, PRESENT_SECONDS, Classroom, cleaned
from ui.server.workspace import Workspace

TOKEN = "teacher's own"
RUN = {"title": "T", "status": "finished", "curve": [[1, 2.0, 0.7]], "verdict": ""}
LINK = "#tab=masked-words&text=a&hidden=0"


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Room:
    """A class over its routes, with what a page of it would keep."""

    client: TestClient
    tokens: list[str] = field(default_factory=list)
    judged: list[Run] = field(default_factory=list)

    def ask(self, visitor: str, action: str = "", *arguments: Any) -> dict[str, Any]:
        sent = json.dumps([visitor, *arguments])
        answer = self.client.post(f"{ADDRESS}/{action}" if action else ADDRESS, content=sent)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def teach(self, action: str, *arguments: Any) -> dict[str, Any]:
        return self.ask("", action, TOKEN, *arguments)


@pytest.fixture
def classroom() -> Classroom:
    return Classroom(TOKEN, clock=Clock())


@pytest.fixture
def room(workspaces, classroom) -> Room:
    limits, judged = workspaces.service.limits, []

    def judge(space: Workspace, run: Run) -> str:
        judged.append(run)
        return f"{run.status}!" * 200

    routes = class_routes(workspaces, classroom, judge)
    yield Room(TestClient(Starlette(routes=routes)), [workspaces.enter(None).token for _ in range(2)], judged)
    workspaces.service.limits = limits


def trained(workspaces, token: str, steps: int = 3):
    """A visitor's short run that has ended."""
    recipe = load_recipe(DEFAULT_RECIPE).override({"training.steps": steps, "data.batch_size": 2})
    run = workspaces.start(workspaces.find(token), recipe, None)
    while run.status not in ENDED:
        time.sleep(0.01)
    return run


def test_a_run_is_shared_followed_and_taken_back_by_its_visitor_alone(room, workspaces):
    one, other = room.tokens
    assert "press Start" in room.ask(one, "share", None, "Ada")["error"]
    run = trained(workspaces, one, 3)
    assert room.ask(one, "share", None, "Ada") == {"run": run.id}
    seen = room.ask(other, "", 0)
    [shared] = seen["runs"]
    assert (shared["name"], shared["status"], shared["step"]) == ("Ada", "finished", 3)
    assert [point[0] for point in shared["curve"]] == [1, 2, 3]
    assert shared["verdict"].startswith("finished!")
    assert len(shared["verdict"]) == 400
    assert one not in json.dumps(seen)
    assert run.id not in json.dumps(seen)
    assert (seen["own"], room.ask(one, "", 0)["own"]) == (None, shared["number"])

    assert "error" in room.ask(other, "share", run.id, "Eve"), "another's run"
    room.ask(other, "withdraw")
    trained(workspaces, other)
    room.ask(other, "share", None, "Bob")
    room.ask(one, "share", run.id, "Ada L.")
    later = room.ask(other, "", seen["version"])
    assert {each["name"] for each in later["runs"]} == {"Ada L.", "Bob"}
    assert room.judged.count(run) == 1, "its verdict is kept"
    assert len(later["numbers"]) == 2
    room.ask(one, "withdraw")
    assert room.ask(other, "", later["version"])["numbers"] == [later["own"]]


def test_a_page_that_is_up_to_date_gets_next_to_nothing(classroom):
    version = classroom.news("a", 0)["version"]
    assert classroom.news("a", version) == {"version": version, "here": 1}
    classroom.share("a", "Ada", RUN)
    assert [each["name"] for each in classroom.news("b", version)["runs"]] == ["Ada"]
    newest = classroom.news("b", version)["version"]
    classroom.send("", LINK)
    assert classroom.news("b", newest)["runs"] == []
    assert len(classroom.news("b", newest + 9)["runs"]) == 1, "a page of another server"


def test_a_restarted_class_is_newer_than_every_page(classroom, monkeypatch):
    old = classroom.news(None, 0)["version"]
    monkeypatch.setattr(state.time, "time", lambda: old / 1000 + 1)
    assert Classroom(TOKEN).news(None, old)["numbers"] == []


def test_who_is_here_counts_visitors_for_some_seconds(classroom):
    for visitor in ("a", "b", "a", None):
        classroom.news(visitor, 0)
    assert classroom.news(None, 0)["here"] == 2
    classroom._clock.now += PRESENT_SECONDS
    classroom.news("b", 0)
    classroom._clock.now += 1
    assert classroom.news(None, 0)["here"] == 1


@pytest.mark.parametrize("action", ["enter", "send", "ask", "uncover", "end", "clear", "limit"])
@pytest.mark.parametrize("token", ["", "teacher's ow", TOKEN + "x", None, 3, ["t"], "\ud800", "é"])
def test_nobody_without_the_token_changes_all_pages(room, classroom, action, token):
    classroom.share("a", "Ada", RUN)
    classroom.ask(LINK)
    before = room.ask(room.tokens[0], "", 0)
    assert room.ask(room.tokens[0], action, token) == {"error": state.NOT_THE_TEACHER}
    assert room.ask(room.tokens[0], action) == {"error": state.NOT_THE_TEACHER}
    assert room.ask(room.tokens[0], "", 0) == before


def test_the_teacher_clears_the_board_and_sets_the_limits(room, workspaces, classroom):
    for visitor in "abc":
        classroom.share(visitor, visitor, RUN)
    numbers = room.ask("", "", 0)["numbers"]
    room.teach("clear", numbers[1])
    assert room.ask("", "", 0)["numbers"] == [numbers[0], numbers[2]]
    room.teach("clear")
    assert room.ask("", "", 0)["numbers"] == []
    workspaces.service.limits = PUBLIC
    assert room.teach("enter") == {"steps": PUBLIC.steps, "parameters": PUBLIC.parameters}
    assert room.teach("limit", 100, 50_000, False) == {}
    assert (workspaces.service.limits.steps, workspaces.service.limits.parameters) == (100, 50_000)
    trained(workspaces, room.tokens[0])
    assert "closed the board" in room.ask(room.tokens[0], "share", None, "Ada")["error"]
    for wrong in ((0, 1, True), (1.5, 1, True), (True, 1, True), (1, 10**12, True), ("9", 1, True)):
        assert "whole number" in room.teach("limit", *wrong)["error"]


def test_a_lesson_is_a_part_of_this_page_and_never_the_token(room):
    room.teach("send", " What BERT\nlearns", "http://elsewhere.example/#lesson=what-bert-learns")
    sent = room.ask("", "", 0)["lesson"]
    assert (sent["title"], sent["link"]) == ("What BERT learns", "lesson=what-bert-learns")
    refused = ["http://elsewhere.example/", "#", "#" + "a" * 9_000, 3, "#a\ud800", "#a\u202eb"]
    for link in [*refused, f"#tab=train&teacher={TOKEN}", "#teacher=x", "#text=teacher%27s%20own"]:
        assert "Copy link" in room.teach("send", "", link)["error"]
        assert "Copy link" in room.teach("ask", link)["error"]
    assert room.ask("", "", 0)["lesson"] == sent
    room.teach("send", "", "")
    assert room.ask("", "", 0)["lesson"] is None


def test_the_guesses_of_a_room_are_one_histogram(room):
    one, other = room.tokens
    assert "closed" in room.ask(one, "guess", 1, ["a"])["error"]
    room.teach("ask", LINK)
    number = room.ask(one, "", 0)["round"]["number"]
    assert "Type a word" in room.ask(one, "guess", number, ["", " "])["error"]
    for visitor, words in ((one, ["romeo"]), (other, ["Juliet ", "x"]), (one, ["juliet"])):
        assert room.ask(visitor, "guess", number, words) == {}
    shown = room.ask(one, "", 0)["round"]
    assert (shown["count"], shown["bars"], shown["own"]) == (2, [[["juliet", 2]], [["x", 1]]], ["juliet"])
    assert "error" in room.ask("stranger", "guess", number, ["a"])
    room.teach("uncover")
    assert "closed" in room.ask(one, "guess", number, ["late"])["error"]
    assert room.ask(one, "", 0)["round"]["open"] is False
    room.teach("end")
    assert room.ask(one, "", 0)["round"] is None


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("<img src=x onerror=alert(1)>", "<img src=x onerror=alert"),
        ("  Ada \n\t Lovelace ", "Ada Lovelace"),
        ("\u202eevil\u2066", "evil"),
        ("a\x00b\u200bc", "a b c"),
        ("e\u0301", "é"),
        ("\ud800", ""),
        ("字" * 9_999, "字" * 24),
        ("${1+1} $x$", "${1+1} $x$"),
    ],
)
def test_a_name_is_one_short_line_of_visible_characters(typed, shown):
    assert cleaned(typed, 24) == shown


def test_what_a_class_holds_is_bounded(classroom):
    for visitor in range(MOST_SHARED):
        classroom.share(f"{visitor}", "n" * 999, RUN)
    with pytest.raises(InputError, match="full"):
        classroom.share("late", "n", RUN)
    news = classroom.news("a", 0)
    assert len(news["runs"]) == MOST_SHARED
    assert max(len(each["name"]) for each in news["runs"]) == 24
    classroom.share("0", "still", RUN)
    classroom.ask(LINK)
    number = classroom.news("a", 0)["round"]["number"]
    for visitor in range(MOST_SHARED):
        classroom.guess(f"{visitor}", number, [f"{visitor}" + "w" * 99] * 99)
    with pytest.raises(InputError, match="have guessed"):
        classroom.guess("late", number, ["a"])
    bars = classroom.news("a", 0)["round"]["bars"]
    assert (len(bars), len(bars[0]), max(len(word) for word, _ in bars[0])) == (8, 12, 32)
    for visitor in range(state.MOST_PRESENT + 5):
        classroom.news(f"{visitor}", 0)
    assert classroom.news(None, 0)["here"] == state.MOST_PRESENT
    for nothing in ("", " ", "\u202e"):
        with pytest.raises(InputError, match="name"):
            classroom.share("0", nothing, RUN)


@pytest.mark.parametrize("sent", ["[]", "3", "{}", '["a"]', '["a", "b"]', '["a", null]', "[", '["a", 1e999]'])
def test_a_malformed_request_is_refused(room, sent):
    assert room.client.post(ADDRESS, content=sent).status_code == 400


def test_an_action_with_the_wrong_parts_gets_a_sentence(room, caplog):
    room.teach("ask", LINK)
    wrong = [("share",), ("share", 1), ("share", [], "a"), ("share", None, 3), ("guess", 1), ("guess", 1, "ab")]
    number = room.ask("", "", 0)["round"]["number"]
    for action, *parts in [*wrong, ("guess", number, [3]), ("guess", number, None), ("nothing",), ("__class__", 1)]:
        assert room.ask(room.tokens[0], action, *parts)["error"].endswith(".")
    for action, *parts in [("send", "t"), ("send", None, LINK), ("ask",), ("limit", 1), ("clear", 1, 2)]:
        assert room.teach(action, *parts)["error"].endswith(".")
    assert "unexpected" not in caplog.text


def test_a_long_curve_is_thinned(room, workspaces):
    trained(workspaces, room.tokens[0], 2 * MOST_POINTS + 1)
    room.ask(room.tokens[0], "share", None, "Ada")
    [shared] = room.ask("", "", 0)["runs"]
    assert MOST_POINTS / 2 < len(shared["curve"]) <= MOST_POINTS
    assert shared["curve"][-1][0] == 2 * MOST_POINTS + 1


def test_the_address_to_join_at(monkeypatch):
    assert join_address("192.168.1.5", 7861) == "http://192.168.1.5:7861/"
    assert join_address("::1", 7861) == "http://[::1]:7861/"
    assert join_address("127.0.0.1", 7861, "https://a.gradio.live") == "https://a.gradio.live"
    monkeypatch.setattr("ui.classroom.address.own_address", lambda: "10.0.0.7")
    assert join_address("0.0.0.0", 7860) == "http://10.0.0.7:7860/"


def test_the_code_holds_the_address():
    address = "http://192.168.1.5:7860/"
    code, rows = qr_code(address), segno.make_qr(address).matrix
    dark = set()
    for part in code["path"].removesuffix("z").split("z"):
        start, _, rest = part.removeprefix("M").partition("h")
        (x, y), width = map(int, start.split()), int(rest.partition("v")[0])
        dark |= {(x + k, y) for k in range(width)}
    assert dark == {
        (x + QUIET_ZONE, y + QUIET_ZONE) for y, row in enumerate(rows) for x, is_dark in enumerate(row) if is_dark
    }
    assert code["size"] == len(rows) + 2 * QUIET_ZONE
    ET.fromstring(f'<path d="{code["path"]}"/>')


def test_a_terminal_without_blocks_still_gets_the_addresses(capfd, monkeypatch):
    text = welcome("http://a:1/", "http://a:1/#teacher=t")
    assert text.count("teacher=t") == 1
    show(text)
    assert "█" in capfd.readouterr().out
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw := io.BytesIO(), encoding="ascii", write_through=True))
    show(text)
    assert raw.getvalue().decode().splitlines()[-3:] == text.splitlines()[-3:]
