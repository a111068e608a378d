"""A class: what pages share, who may change it, and how much of it there can be."""

import csv
import gc
import json
import weakref
from dataclasses import dataclass, field
from typing import Any

import pytest
from helpers import finished, wait
from starlette.applications import Starlette
from starlette.testclient import TestClient

from balcony.classroom import tab
from balcony.classroom.address import join_address, qr_code, welcome
from balcony.classroom.tab import MOST_POINTS, MOST_SHARED, Classroom, cleaned
from balcony.frame.answers import ADDRESS, Answers
from balcony.frame.page_request import PageRequest
from balcony.handlers import MALFORMED
from balcony.server.kept import digest
from balcony.server.workspace import Workspace
from bert_core.config import PUBLIC
from bert_core.probes.masked_words import fill_mask, rate_guess
from bert_core.runs.recipe import DEFAULT_RECIPE, load_recipe

TOKEN = "teacher's own"
LINK = "#tab=masked-words&text=a&hidden=0"
ASKED = {"text": "Hello, how are you? I am Romeo.", "pair": "hello [MASK]", "hidden": [6]}  # of the shipped model


@dataclass
class Room:
    """A class over its routes, with what a page of it would keep."""

    classroom: Classroom
    client: TestClient
    tokens: list[str] = field(default_factory=list)

    def ask(self, visitor: str, action: str = "", *arguments: Any, question: Any = None) -> dict[str, Any]:
        asks = [[f"class-{action or 'news'}", *arguments]]
        sent = json.dumps({"visitor": visitor, "question": question, "asks": asks})
        answer = self.client.post(ADDRESS, content=sent)
        assert answer.status_code == 200, answer.text
        _, found = answer.json()
        return found

    def teach(self, action: str, *arguments: Any) -> dict[str, Any]:
        return self.ask("", action, TOKEN, *arguments)

    def question(self, question: dict[str, Any] = ASKED) -> dict[str, Any]:
        """The teacher, who is the first visitor, asks the room; the second visitor's news of it, or an error."""
        refused = self.ask(self.tokens[0], "ask", TOKEN, question=question)
        return refused or self.ask(self.tokens[1], "", 0)["round"]

    def share(self, visitors: int, run: Any, name: str = "Ada") -> None:
        """Visitors, who are not here any more, share a run."""
        for number in range(visitors):
            space = Workspace(f"{number}")
            space.add_run(run)
            self.classroom.share(PageRequest(self.classroom.workspaces, space, {}), name)


@pytest.fixture
def room(workspaces, monkeypatch) -> Room:
    limits = workspaces.service.limits
    monkeypatch.setattr("balcony.classroom.tab.FOLLOW_SECONDS", -1.0)
    answers = Answers(workspaces)
    classroom = Classroom(answers, TOKEN)
    client = TestClient(Starlette(routes=[answers.route()]))
    yield Room(classroom, client, [workspaces.enter(None).token for _ in range(2)])
    workspaces.service.limits = limits


@pytest.fixture(scope="module")
def run(service):
    return finished(service.start(load_recipe(DEFAULT_RECIPE).override({"training.steps": 3, "data.batch_size": 2})))


def trained(workspaces, token: str, steps: int = 3):
    """A visitor's short run that has ended."""
    recipe = load_recipe(DEFAULT_RECIPE).override({"training.steps": steps, "data.batch_size": 2})
    run = workspaces.start(workspaces.find(token), recipe, None)
    run.wait()
    return run


def test_a_run_is_shared_followed_and_taken_back_by_its_visitor_alone(room, workspaces):
    one, other = room.tokens
    assert "press Start" in room.ask(one, "share", "Ada")["error"]
    run = trained(workspaces, one, 3)
    assert room.ask(one, "share", "Ada") == {}
    seen = room.ask(other, "", 0)
    [shared] = seen["runs"]
    assert (shared["name"], shared["status"], shared["step"]) == ("Ada", "finished", 3)
    assert [point[0] for point in shared["curve"]] == [1, 2, 3]
    assert shared["losses"][0] == pytest.approx(sum(row.mlm_loss for row in run.history()) / 3, rel=1e-3)
    assert one not in json.dumps(seen)
    assert run.id not in json.dumps(seen)
    assert (seen["own"], room.ask(one, "", 0)["own"]) == (None, shared["number"])

    room.ask(other, "withdraw")
    trained(workspaces, other)
    room.ask(other, "share", "Bob")
    assert room.ask(one, "share", "Bob") == {}, "names may be alike"
    assert room.ask(one, "share", " Ada  L.") == {}, "a name in one line is no other"
    later = room.ask(other, "", seen["version"])
    assert {each["name"] for each in later["runs"]} == {"Ada L.", "Bob"}
    assert len(later["numbers"]) == 2
    room.ask(one, "withdraw")
    assert room.ask(other, "", later["version"])["numbers"] == [later["own"]]


def test_a_page_that_is_up_to_date_gets_next_to_nothing(room, run):
    one = room.tokens[0]
    version = room.ask(one, "", 0)["version"]
    assert room.ask(one, "", version) == {"version": version}
    room.share(1, run)
    assert [each["name"] for each in room.ask(one, "", version)["runs"]] == ["Ada"]
    newest = room.ask(one, "", version)["version"]
    room.teach("send", LINK)
    assert room.ask(one, "", newest)["runs"] == []
    assert len(room.ask(one, "", newest + 9)["runs"]) == 1, "a page of another server"


def test_a_restarted_class_is_newer_than_every_page(room, workspaces, monkeypatch):
    old = room.ask("", "", 0)["version"]
    monkeypatch.setattr(tab.time, "time", lambda: old / 1000 + 1)
    answers = Answers(workspaces)
    Classroom(answers, TOKEN)
    new = Room(room.classroom, TestClient(Starlette(routes=[answers.route()])))
    assert new.ask("", "", old)["numbers"] == []


TEACHERS = {"enter": [], "send": [LINK], "ask": [], "uncover": [], "end": [], "clear": [], "limit": [9, 9]}


@pytest.mark.parametrize("action", TEACHERS)
@pytest.mark.parametrize("token", ["", "teacher's ow", TOKEN + "x", None, 3, ["t"], "\ud800", "é"])
def test_nobody_without_the_token_changes_all_pages(room, run, action, token):
    room.share(1, run)
    room.question()
    before = room.ask(room.tokens[0], "", 0)
    refused = "Only the teacher can do this: open the teacher's address, which the terminal shows."
    found = room.ask(room.tokens[0], action, token, *TEACHERS[action], question=ASKED)
    assert found == {"error": refused if isinstance(token, str) else MALFORMED}
    assert room.ask(room.tokens[0], action) == {"error": MALFORMED}
    assert room.ask(room.tokens[0], "", 0) == before


def test_the_teacher_clears_the_board_and_sets_the_limits(room, workspaces, run):
    room.share(3, run)
    numbers = room.ask("", "", 0)["numbers"]
    room.teach("clear", numbers[1])
    assert room.ask("", "", 0)["numbers"] == [numbers[0], numbers[2]]
    room.teach("clear")
    assert room.ask("", "", 0)["numbers"] == []
    workspaces.service.limits = PUBLIC
    assert room.teach("enter") == {"steps": PUBLIC.steps, "parameters": PUBLIC.parameters}
    assert room.teach("limit", 100, 50_000) == {}
    assert (workspaces.service.limits.steps, workspaces.service.limits.parameters) == (100, 50_000)
    for wrong in ((0, 1), (1.5, 1), (True, 1), (1, 10**12), ("9", 1)):
        assert "whole number" in room.teach("limit", *wrong)["error"]


def test_a_sent_view_is_a_part_of_this_page_and_never_the_token(room):
    room.teach("send", "http://elsewhere.example/#tab=attention")
    sent = room.ask("", "", 0)["sent"]
    assert sent["link"] == "tab=attention"
    refused = ["http://elsewhere.example/", "#", "#" + "a" * 9_000, "#a\ud800", "#a\u202eb"]
    for link in [*refused, f"#tab=train&teacher={TOKEN}", "#teacher=x", "#text=teacher%27s%20own"]:
        assert "Copy link" in room.teach("send", link)["error"]
    assert room.ask("", "", 0)["sent"] == sent
    room.teach("send", "")
    assert room.ask("", "", 0)["sent"] is None


def test_a_question_covers_its_words_until_the_teacher_uncovers_them_beside_the_models_guesses(room, workspaces):
    one, other = room.tokens
    assert "closed" in room.ask(one, "guess", 1, ["a"])["error"]
    asked = room.question()
    assert (asked["texts"], asked["gaps"]) == (["Hello, how are you? I am [MASK].", "hello [MASK]"], 2)
    assert "romeo" not in json.dumps(asked).lower()
    number = asked["number"]
    assert "Type a word" in room.ask(one, "guess", number, ["", " "])["error"]
    assert room.ask(one, "guess", number, ["juliet"]) == {}
    assert room.ask(other, "", 0)["round"]["bars"] == [], "who has not guessed sees nobody's guess"
    assert room.ask(other, "", 0, TOKEN)["round"]["bars"] == [[["juliet", 1]], []], "the teacher does"
    assert room.ask(other, "", 0, TOKEN + "x")["round"]["bars"] == []
    for words in (["x"], ["Juliet ", "zzz"]):
        assert room.ask(other, "guess", number, words) == {}
    shown = room.ask(other, "", 0)["round"]
    assert (shown["count"], shown["bars"]) == (2, [[["juliet", 2]], [["zzz", 1]]])
    assert shown["own"] == ["juliet", "zzz"]
    assert "error" in room.ask("stranger", "guess", number, ["a"])

    room.teach("uncover")
    assert "closed" in room.ask(one, "guess", number, ["late"])["error"]
    shown = room.ask("", "", 0)["round"]
    assert not shown["open"]
    model, questions = workspaces.shipped().checkpoint, ("Hello, how are you? I am [MASK].", "hello [MASK]")
    likeliest = [dict(each) for each in fill_mask(model, *questions, top_k=5)]
    romeo = rate_guess(model, "romeo", *questions).probability
    rows = {word: cells for word, *cells in shown["bars"][0]}
    assert rows["romeo"] == [0, pytest.approx(romeo), True]
    assert rows["juliet"] == [2, pytest.approx(rate_guess(model, "juliet", *questions).probability), False]
    assert set(rows) == {*likeliest[0], "romeo", "juliet"}, "what the room and the model guess, and what is hidden"
    assert all(rows[word][1] == pytest.approx(likeliest[0][word]) for word in likeliest[0])
    assert {word: cells for word, *cells in shown["bars"][1]}["zzz"] == [1, None, False], "a word that it lacks"
    assert not any(row[3] for row in shown["bars"][1]), "nobody knows what a typed [MASK] stands for"
    room.teach("end")
    assert room.ask(one, "", 0)["round"] is None


def test_a_question_is_of_the_model_that_the_teacher_shows(room, workspaces):
    run = trained(workspaces, room.tokens[0])
    room.question(ASKED | {"model": run.id})
    room.teach("uncover")
    shown = room.ask("", "", 0)["round"]
    assert shown["model"] == f"{workspaces.find(room.tokens[0]).title(run.id)}, step 3"
    expected = rate_guess(run.snapshots[-1].checkpoint(), "romeo", "Hello, how are you? I am [MASK].", "hello [MASK]")
    assert [row[2] for row in shown["bars"][0] if row[3]] == [pytest.approx(expected.probability)]
    assert "Hide a word" in room.question({"text": "hello"})["error"]
    assert "at most 8" in room.question({"text": "[MASK] " * 9})["error"]
    assert "not one of yours" in room.question(ASKED | {"model": "0" * 32})["error"]


def test_the_board_is_saved_as_a_table(room, workspaces):
    one = room.tokens[0]
    run = trained(workspaces, one, 3)
    room.ask(one, "share", "=Ada")
    room.ask(one, "", 0)
    [saved] = csv.DictReader(room.ask(one, "board")["content"].removeprefix("\ufeff").splitlines())
    assert (saved["name"], saved["seed"], saved["step"], saved["steps"]) == ("'=Ada", "0", "3", "3")
    assert float(saved["rate"]) == run.recipe.training.learning_rate
    assert float(saved["mlm_loss"]) == pytest.approx(sum(row.mlm_loss for row in run.history()) / 3, rel=1e-3)


def test_each_run_on_the_board_has_a_look_of_its_own(room, run):
    room.share(24, run)
    shown = room.ask("", "", 0)["runs"]
    assert len({(each["colour"], each["isDotted"]) for each in shown}) == 24
    room.share(4, run, "Bob")
    assert [each["colour"] for each in room.ask("", "", 0)["runs"]] == [each["colour"] for each in shown]


def test_a_run_on_the_board_is_followed_until_it_is_taken_off(room, workspaces):
    one, other = room.tokens
    recipe = load_recipe(DEFAULT_RECIPE).override({"training.steps": 9, "data.batch_size": 2})
    run = workspaces.start(workspaces.find(one), recipe, None, paused=True)
    wait(lambda run=run: run.status == "paused")
    steps = []
    for _ in range(2):
        run.step()
        wait(lambda run=run: run.steps_done > len(steps) and run.status == "paused")
        if not steps:
            room.ask(one, "share", "Ada")
        news = room.ask(other, "", 0)
        steps.append(news["runs"][0]["step"])
    assert steps == [1, 2]
    assert room.ask(other, "", news["version"])["version"] == news["version"], "what did not change is not sent"
    run.resume()
    run.wait()
    [ended] = room.ask(other, "", news["version"])["runs"]
    seen = weakref.ref(run)
    assert (ended["step"], ended["status"]) == (9, "finished")
    del run, workspaces._spaces[digest(one)]
    [still] = room.ask(other, "", 0)["runs"]
    gc.collect()
    assert still["name"] == "Ada"
    assert seen() is None, "a board keeps no run of a visitor who has left in memory"


def test_a_run_that_its_person_removes_stays_on_the_board_as_it_was(room, workspaces):
    one, other = room.tokens
    run = trained(workspaces, one)
    room.ask(one, "share", "Ada")
    before = room.ask(other, "", 0)["runs"]
    seen, _ = weakref.ref(run), workspaces.find(one).remove(run.id)
    assert room.ask(other, "", 0)["runs"] == before
    del run
    gc.collect()
    assert seen() is None, "the board does not keep it in memory"


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


def test_what_a_class_holds_is_bounded(room, workspaces, run):
    one = room.tokens[0]
    workspaces.find(one).add_run(run)
    room.share(MOST_SHARED, run, "n" * 999)
    assert "full" in room.ask(one, "share", "late")["error"]
    news = room.ask("", "", 0)
    assert len(news["runs"]) == MOST_SHARED
    assert max(len(each["name"]) for each in news["runs"]) == 24
    number = room.question({"text": "[MASK] " * 8})["number"]
    for visitor in range(MOST_SHARED):
        asked = PageRequest(workspaces, Workspace(f"{visitor}"), {})
        room.classroom.guess(asked, number, [f"{visitor}" + "w" * 99] * 99)
    assert "have guessed" in room.ask(one, "guess", number, ["a"])["error"]
    bars = room.ask(one, "", 0, TOKEN)["round"]["bars"]
    assert (len(bars), len(bars[0]), max(len(word) for word, _ in bars[0])) == (8, 12, 32)
    for nothing in ("", " ", "\u202e"):
        assert "name" in room.ask(one, "share", nothing)["error"]


def test_an_action_with_the_wrong_parts_gets_a_sentence(room, caplog):
    room.question()
    wrong = [("share",), ("share", 1), ("share", "a", 1), ("guess", 1), ("guess", 1, "ab")]
    number = room.ask("", "", 0)["round"]["number"]
    for action, *parts in [*wrong, ("guess", number, [3]), ("guess", number, None), ("nothing",), ("__class__", 1)]:
        assert room.ask(room.tokens[0], action, *parts)["error"].endswith(".")
    for action, *parts in [
        ("send",),
        ("send", None),
        ("send", LINK, 3),
        ("ask", LINK),
        ("limit", 1),
        ("clear", 1, 2),
    ]:
        assert room.teach(action, *parts)["error"].endswith(".")
    assert "unexpected" not in caplog.text


def test_a_long_curve_is_thinned(room, workspaces):
    trained(workspaces, room.tokens[0], 2 * MOST_POINTS + 1)
    room.ask(room.tokens[0], "share", "Ada")
    [shared] = room.ask("", "", 0)["runs"]
    assert MOST_POINTS / 2 < len(shared["curve"]) <= MOST_POINTS
    assert shared["curve"][-1][0] == 2 * MOST_POINTS + 1


def test_the_address_to_join_at(monkeypatch):
    assert join_address("192.168.1.5", 7861) == "http://192.168.1.5:7861/"
    assert join_address("::1", 7861) == "http://[::1]:7861/"
    assert join_address("127.0.0.1", 7861, "https://a.gradio.live") == "https://a.gradio.live"
    monkeypatch.setattr("balcony.classroom.address.own_address", lambda: "10.0.0.7")
    assert join_address("0.0.0.0", 7860) == "http://10.0.0.7:7860/"


def test_the_code_is_a_picture_and_the_terminal_shows_it_with_both_addresses():
    assert qr_code("http://a:1/").startswith("data:image/svg+xml")
    text = welcome("http://a:1/", "http://a:1/#teacher=t")
    assert "█" in text
    assert text.splitlines()[-3:-1] == ["Join the class:  http://a:1/", "For the teacher: http://a:1/#teacher=t"]
