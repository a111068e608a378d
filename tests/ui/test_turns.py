"""Probes take turns by visitor, are dropped when their page is gone, and are refused before they take too long."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from helpers import PATIENCE, wait

from balcony.app import MOST_THREADS
from balcony.server import probe_lock as module
from balcony.server.probe_lock import CROWDED, GONE, MOST_OF_A_PAGE, Asker, Turns, asker
from bert_core.config import BertConfig
from bert_core.data.tokenizer import train_tokenizer
from bert_core.device import Cost
from bert_core.errors import InputError
from bert_core.model import BertForPreTraining
from bert_core.probes import forward
from bert_core.probes.attention import attention
from bert_core.probes.masked_words import fill_mask, sweep
from bert_core.storage.checkpoint import Checkpoint


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def turns(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Turns:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.005)
    return Turns(clock=clock)


class Probe:
    """A probe in a thread of its own. log: the order of the turns. seconds: that it takes by the clock."""

    def __init__(self, turns: Turns, name: str, by: Asker | None, log: list[str], seconds: float = 0.0) -> None:
        self.error = ""
        self._turns, self._name, self._log, self._seconds = turns, name, log, seconds
        self.thread = threading.Thread(target=lambda: self._ask(by))
        self.thread.start()
        wait(lambda: by in [ticket.asker for ticket in turns._waiting] or not self.thread.is_alive())

    def _ask(self, by: Asker | None) -> None:
        asker.set(by)
        try:
            with self._turns:
                self._log.append(self._name)
                if self._seconds:
                    self._turns._clock.now += self._seconds  # type: ignore[attr-defined]
        except InputError as error:
            self.error = str(error)


@pytest.fixture
def busy(turns: Turns) -> Iterator[Callable[[], None]]:
    """Somebody's probe is running until the function is called."""
    door, began = threading.Event(), threading.Event()

    def run() -> None:
        with turns:
            began.set()
            door.wait(PATIENCE)

    thread = threading.Thread(target=run)
    thread.start()
    began.wait(PATIENCE)

    def end() -> None:
        door.set()
        thread.join(PATIENCE)

    yield end
    end()


def test_visitors_take_turns_by_the_time_they_have_taken(turns: Turns, clock: Clock) -> None:
    for page, seconds in (("greedy", 9.0), ("modest", 3.0)):
        asker.set(Asker(page))
        with turns:
            clock.now += seconds
    asker.set(None)
    log: list[str] = []
    door = threading.Event()
    first = threading.Thread(target=lambda: turns.__enter__() or (door.wait(PATIENCE) and turns.__exit__()))
    first.start()
    wait(lambda: turns._running)
    probes = [Probe(turns, f"greedy {n}", Asker("greedy"), log) for n in range(2)]
    probes += [Probe(turns, name, Asker(name), log) for name in ("modest", "newcomer")]
    clock.now += 60  # however many newcomers come, nobody waits for ever
    probes.append(Probe(turns, "late", Asker("late"), log))
    door.set()
    for probe in probes:
        probe.thread.join(PATIENCE)
    assert log == ["newcomer", "modest", "greedy 0", "greedy 1", "late"]


def test_every_question_of_a_page_gets_its_answer_and_a_closed_page_none(turns: Turns, busy: Callable) -> None:
    log: list[str] = []
    gone = Asker("gone")
    leaving, *others = (
        Probe(turns, name, by, log)
        for name, by in (("leaving", gone), ("first", Asker("a")), ("another page", Asker("b")), ("again", Asker("a")))
    )
    gone.is_gone = True
    leaving.thread.join(PATIENCE)
    assert leaving.error == GONE
    busy()
    for probe in others:
        probe.thread.join(PATIENCE)
        assert probe.error == ""
    assert sorted(log) == ["again", "another page", "first"]


def test_a_page_that_asks_much_at_once_does_not_hold_up_the_others(turns: Turns, clock: Clock, busy: Callable) -> None:
    log: list[str] = []
    probes = [Probe(turns, f"greedy {n}", Asker("greedy"), log, seconds=10) for n in range(MOST_OF_A_PAGE)]
    clock.now += 1
    probes += [Probe(turns, f"newcomer {n}", Asker(f"{n}"), log) for n in range(3)]
    busy()
    for probe in probes:
        probe.thread.join(PATIENCE)
        assert probe.error == ""
    assert log[:4] == ["greedy 0", "newcomer 0", "newcomer 1", "newcomer 2"]


def test_the_line_has_an_end(turns: Turns, busy: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_THREADS > module.MOST_WAITING
    most = 20
    monkeypatch.setattr(module, "MOST_WAITING", most)
    log: list[str] = []
    mine = [Probe(turns, "p", Asker("p"), log) for _ in range(MOST_OF_A_PAGE + 1)]
    assert [probe.error for probe in mine] == [""] * MOST_OF_A_PAGE + [CROWDED]
    others = [Probe(turns, "", Asker(f"{n}"), log) for n in range(most - MOST_OF_A_PAGE + 1)]
    assert [probe.error for probe in others[-2:]] == ["", CROWDED]
    assert turns.waiting == most
    busy()
    for probe in mine + others:
        probe.thread.join(PATIENCE)
    assert turns.waiting == 0


def test_a_probe_says_what_it_would_cost_before_it_works(
    turns: Turns, tiny_checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[int] = []
    monkeypatch.setattr(BertForPreTraining, "forward", lambda *arguments, **named: passes.append(1))
    monkeypatch.setattr(Cost, "seconds", lambda cost: 9.0 * cost.rows)
    turns.limit_seconds = 10.0
    message = "This takes about 36 s; the limit here is 10 s. Shorten the text, or choose a smaller model."
    with pytest.raises(InputError, match=message), turns:
        sweep(tiny_checkpoint, "hello how are you")
    assert passes == []


def test_a_probe_ends_between_its_passes(
    turns: Turns, clock: Clock, tiny_checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[int] = []
    original, page = BertForPreTraining.forward, Asker("page")

    def pass_of(model: Any, *arguments: Any, **named: Any) -> Any:
        passes.append(1)
        clock.now += 5
        page.is_gone = asker.get() is page
        return original(model, *arguments, **named)

    monkeypatch.setattr(BertForPreTraining, "forward", pass_of)
    monkeypatch.setattr(forward, "_ROWS", 1)

    turns.limit_seconds = 11.0
    with pytest.raises(InputError, match="This takes about 15 s"), turns:
        sweep(tiny_checkpoint, "hello how are you")
    assert len(passes) == 3
    passes.clear()

    token = asker.set(page)
    with pytest.raises(InputError, match=GONE), turns:
        sweep(tiny_checkpoint, "hello how are you")
    asker.reset(token)
    assert len(passes) == 1
    monkeypatch.undo()
    with turns:
        assert fill_mask(tiny_checkpoint, "hello [MASK] are you")


def test_a_long_probe_lets_others_go_first_between_its_passes(
    turns: Turns, clock: Clock, tiny_checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []
    original, others = BertForPreTraining.forward, list[Probe]()

    def pass_of(model: Any, *arguments: Any, **named: Any) -> Any:
        log.append("pass")
        clock.now += 5
        if not others:
            others.append(Probe(turns, "another page", Asker("b"), log))
        return original(model, *arguments, **named)

    monkeypatch.setattr(BertForPreTraining, "forward", pass_of)
    monkeypatch.setattr(forward, "_ROWS", 1)
    asker.set(Asker("a"))
    with turns:
        sweep(tiny_checkpoint, "hello how are you")
    asker.set(None)
    assert log == ["pass", "another page", "pass", "pass", "pass"]
    turns.limit_seconds = 11.0  # of all its turns together, without what it waited
    others.clear()
    with pytest.raises(InputError, match="This takes about 15 s"), turns:
        sweep(tiny_checkpoint, "hello how are you")
    assert not turns.waiting
    assert turns._running is None


def test_a_long_probe_whose_page_goes_while_others_are_first_ends_nobody_else(
    turns: Turns, clock: Clock, tiny_checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []
    original, others, page = BertForPreTraining.forward, list[Probe](), Asker("a")

    def pass_of(model: Any, *arguments: Any, **named: Any) -> Any:
        clock.now += 5
        others.extend(Probe(turns, name, Asker(name), log, seconds=1) for name in "bc" if len(others) < 2)
        page.is_gone = True
        return original(model, *arguments, **named)

    monkeypatch.setattr(BertForPreTraining, "forward", pass_of)
    monkeypatch.setattr(forward, "_ROWS", 1)
    asker.set(page)
    with pytest.raises(InputError, match=GONE), turns:
        sweep(tiny_checkpoint, "hello how are you")
    asker.set(None)
    for other in others:
        other.thread.join(PATIENCE)
    assert log == ["b", "c"]
    assert turns._running is None


def test_attention_is_refused_by_arithmetic(dialogue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = train_tokenizer(dialogue)
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=8,
        num_hidden_layers=4,
        num_attention_heads=8,
        intermediate_size=8,
        max_position_embeddings=600,
    )
    checkpoint = Checkpoint(BertForPreTraining(config).eval(), tokenizer, "long")
    monkeypatch.setattr(forward, "MOST_WEIGHTS", 4 * 8 * 50**2)
    assert attention(checkpoint, "you " * 48).weights.shape == (4, 8, 50, 50)
    monkeypatch.setattr(BertForPreTraining, "forward", lambda *arguments, **named: pytest.fail("it was computed"))
    with pytest.raises(InputError, match=r"Attention over 102 tokens has .* million weights .* Shorten the text to 50"):
        attention(checkpoint, "you " * 100)


def test_the_end_of_a_probe_wakes_the_next_one_alone(
    turns: Turns, busy: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a lecture that asks at once would wake everybody for each answer."""
    monkeypatch.setattr(module, "POLL_SECONDS", PATIENCE)  # nobody wakes by oneself
    log: list[str] = []
    probes = [Probe(turns, f"{number}", Asker(f"{number}"), log) for number in range(12)]
    woken, first = [], turns._first
    monkeypatch.setattr(turns, "_first", lambda: woken.append(1) or first())
    busy()
    for probe in probes:
        probe.thread.join(PATIENCE)
    assert sorted(log) == sorted(f"{number}" for number in range(12))
    assert len(woken) <= 3 * 12  # twelve times twelve before
