"""How quickly the page answers, alone and in a room of people, as Markdown tables.

    python benchmarks/app.py [--only start link poll page room slider click base load space class] [--repeat 40]
                             [--seconds 5] [--visitors 30] [--pupils 60] [--lesson 120] [--crowd 200] [--minutes 15]

Every part has a server process of its own on this machine, and asks it over loopback as the page does: in Chromium
where something is drawn, else with the same questions from this process, which then needs the machine's cores too.
Run it on a machine that does nothing else. Needs Chromium and the packages of tests/requirements.txt.
"""

import argparse
import http.client
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from classroom import classroom
from crowd import Crowd, report
from playwright.sync_api import Page
from serving import FIRST_LOSS, PATIENCE, ROOT, Server, Visitor, chromium, free_port, row, spread, timed, visit

from balcony.server.guard import PAGE_BURST
from bert_core import BertConfig, BertForPreTraining, load_checkpoint, save_checkpoint
from bert_core.storage.checkpoint import Checkpoint

SHIPPED = ROOT / "checkpoints" / "romeo-juliet"
ROOM_SECONDS = 10  # within which a room of people presses Start
PROBE_SECONDS = 3  # how often each of them looks at masked words meanwhile
# Of a slow connection: milliseconds for a round trip, and bytes a second.
LINK = {"offline": False, "latency": 300, "downloadThroughput": 1.6e6 / 8, "uploadThroughput": 1.6e6 / 8}
ENDLESS = 1_000_000  # steps
HELLO = "import sys, gradio; gradio.Interface(str, 'text', 'text').launch(server_port=int(sys.argv[1]), quiet=True)"
# Tab, what is pressed there, what is drawn, and within how many milliseconds.
CLICKS = [
    ("Masked words", "#question .b-word", "masked-guesses", "200 ms"),
    ("Next sentence", "#swap", "next-verdict", "200 ms"),
    ("Attention", "#attention-hide input", "attention-heads", "400 ms"),
    ("Attention", "#attention-heads [data-head]", "attention-map", ""),
]


def main() -> None:
    """Measure and print the parts that were asked for."""
    parts = {
        "start": start,
        "link": link,
        "poll": poll,
        "page": page,
        "room": room,
        "slider": slider,
        "click": click,
        "base": base,
        "load": load,
        "space": space,
        "class": classroom,
    }
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=parts, default=list(parts), help="parts to measure")
    parser.add_argument("--repeat", type=int, default=40, help="clicks, moves and questions of a kind")
    parser.add_argument("--seconds", type=float, default=5, help="length of an interval with or without a page")
    parser.add_argument("--visitors", type=int, default=30, help="people in the room, or on a Space")
    parser.add_argument("--pupils", type=int, default=60, help="people in a class")
    parser.add_argument("--lesson", type=float, default=120, help="seconds that the class trains")
    parser.add_argument("--crowd", type=int, default=200, help="visitors of the load, a quarter with their own texts")
    parser.add_argument("--minutes", type=float, default=15, help="length of the load, or of a Space")
    options = parser.parse_args()
    print(f"{machine()}\n\n| what | measured | aim |\n|---|---|---|", flush=True)
    for name in options.only:
        parts[name](options)


def machine() -> str:
    """The machine and the versions that matter."""
    named = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    memory = [int(line.split()[1]) / 2**20 for line in _lines("/proc/meminfo") if line.startswith("MemTotal")]
    return (
        f"{os.cpu_count()} cores ({named[0] if named else platform.processor() or platform.machine()}), "
        f"{f'{memory[0]:.0f} GB, ' if memory else ''}Python {platform.python_version()}, torch {torch.__version__}"
    )


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def start(options: argparse.Namespace) -> None:
    """From nothing to a page, and from Start to a loss."""
    readable, served, plain, opened, losses = [], [], [], [], []
    for _ in range(3):
        port = str(free_port())
        first, whole = until_served([str(ROOT / "app.py"), "--no-browser", "--port", port], port)
        readable.append(first)
        served.append(whole)
        plain.append(until_served(["-c", HELLO, port], port)[1])
    row("`python app.py` until a page can be read", spread(readable, "s", 1), "3 s")
    row("`python app.py` until the app is served", spread(served, "s", 1))
    ratio = f"{statistics.median(served) / statistics.median(plain):.2f}"
    row(
        "a page of Gradio alone, alternating with it",
        f"{spread(plain, 's', 1)}; the app takes {ratio} times as long",
    )
    with Server() as server:
        for _ in range(5):
            with chromium(server) as page:
                began = time.perf_counter()
                visit(page, server)
                opened.append((time.perf_counter() - began) * 1000)
                losses.append(page.evaluate(FIRST_LOSS))
    row("page opened until Start can be pressed", spread(opened))
    row("Start pressed until the first loss is drawn", spread(losses))


def link(options: argparse.Namespace) -> None:
    """A first visit over a slow connection."""
    opened, sizes, counts = [], [], []
    with Server() as server:
        for _ in range(3):
            with chromium(server) as page:
                session = page.context.new_cdp_session(page)
                received: list[float] = []
                session.on("Network.loadingFinished", lambda event, to=received: to.append(event["encodedDataLength"]))
                session.send("Network.enable")
                session.send("Network.clearBrowserCache")
                session.send("Network.emulateNetworkConditions", LINK)
                began = time.perf_counter()
                visit(page, server)
                opened.append(time.perf_counter() - began)
                sizes.append(sum(received) / 1024)
                counts.append(len(received))
    what = f"a first visit at {LINK['latency']} ms and {LINK['downloadThroughput'] * 8e-6:g} Mbit/s until Start"
    row(what, spread(opened, "s", 1))
    row("what it has received by then", f"{spread(sizes, 'kB')}, {statistics.median(counts):.0f} requests")


def until_served(arguments: list[str], port: str) -> tuple[float, float]:
    """Seconds from the start of a Python program until its address answers anything, and until it serves its page."""
    began, first, status = time.perf_counter(), 0.0, 0
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    while status != http.HTTPStatus.OK:
        time.sleep(0.02)
        try:
            status = urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=PATIENCE).status
        except urllib.error.HTTPError as error:
            status = error.code
        except OSError:
            continue
        first = first or time.perf_counter() - began
    whole = time.perf_counter() - began
    process.terminate()
    process.wait()
    return first, whole


def poll(options: argparse.Namespace) -> None:
    """What a question for news costs the server, and how long its answer is."""
    with Server() as server:
        visitor, sizes = Visitor(server), []
        visitor.start()
        for number, _ in enumerate(visitor.watch()):
            sizes += [visitor.size] if number > 5 else []
        polls = min(10 * options.repeat, int(PAGE_BURST) // 2)  # the guard refuses a page that asks more in a row
        newest, before = visitor.cursors, server.facts()["cpu"]
        for _ in range(polls):
            visitor.cursors = [newest[0] - 20, *newest[1:]]  # as many new rows as a live answer tells of
            visitor.poll()
        spent = (server.facts()["cpu"] - before) / polls * 1000
    row("processor time of the server for a poll", f"{spent:.2f} ms (n = {polls})", "2 ms")
    row("answer to a poll while a run goes on", spread(sizes, "bytes"), "500 bytes")


def page(options: argparse.Namespace) -> None:
    """Training steps per second with a page open and without one, in turns in one run."""
    with Server() as server:
        visitor = Visitor(server)
        visitor.change(training__steps=ENDLESS)
        visitor.start()

        def ask() -> None:
            for _ in visitor.watch(until=time.monotonic() + options.seconds):
                pass

        row("steps per second beside a page that polls from elsewhere", shares(server, options, ask), "97 %")
    with Server() as server, chromium(server) as tab:
        tab.fill("#setting-steps input", str(ENDLESS))
        tab.evaluate(FIRST_LOSS)

        def look() -> None:
            visit(tab, server)
            tab.wait_for_timeout(1000)  # what a page costs when it is opened does not count

        def watch() -> None:
            tab.wait_for_timeout(options.seconds * 1000)

        row(
            "steps per second beside a page in a browser on this machine",
            shares(server, options, watch, look, lambda: tab.goto("about:blank")),
            "97 %",
        )


def shares(
    server: Server,
    options: argparse.Namespace,
    watch: Callable[[], object],
    come: Callable[[], object] = lambda: None,
    go: Callable[[], object] = lambda: None,
) -> str:
    """The rate while somebody watches as a share of the rate while nobody does: median and range of six turns."""

    def rate(work: Callable[[], object]) -> float:
        before, began = server.facts()["steps"], time.perf_counter()
        work()
        return (server.facts()["steps"] - before) / (time.perf_counter() - began)

    alone = [rate(lambda: time.sleep(options.seconds)) for _ in "."]
    found = []
    for _ in range(6):
        come()
        watched = rate(watch)
        go()
        alone.append(rate(lambda: time.sleep(options.seconds)))
        found.append(watched / statistics.mean(alone[-2:]))  # of the intervals before and after
    return f"{statistics.median(found):.1%} ({min(found):.1%} to {max(found):.1%}) of {statistics.median(alone):.0f}"


def room(options: argparse.Namespace) -> None:
    """Many visitors start the default recipe at nearly the same time, watch it and probe meanwhile."""
    with Server() as server, ThreadPoolExecutor(options.visitors) as people:
        visitors = list(people.map(lambda _: Visitor(server), range(options.visitors)))
        began = time.monotonic()

        def take_part(number: int) -> tuple[float, float, str, list[float], list[float]]:
            visitor = visitors[number]
            time.sleep(ROOM_SECONDS * number / options.visitors)
            visitor.spent.clear()
            pressed, first, probed, probes = time.monotonic(), float("nan"), time.monotonic(), []
            visitor.start()
            for news in visitor.watch(until=began + PATIENCE * 5):
                if first != first and news["last"]:
                    first = time.monotonic() - pressed
                if time.monotonic() > probed + PROBE_SECONDS:
                    probed, asked = time.monotonic(), len(visitor.spent)
                    visitor.look()
                    probes += visitor.spent[asked:]
                    del visitor.spent[asked:]
            return first, time.monotonic() - began, news["status"], visitor.spent, probes

        firsts, ends, statuses, polls, probes = zip(*people.map(take_part, range(options.visitors)))
    row(f"{options.visitors} visitors press Start within {ROOM_SECONDS} s: first loss", spread(firsts, "s", 2), "3 s")
    row("the slowest of them", f"{max(firsts):.2f} s", "3 s")
    row(
        "all have finished after", f"{max(ends):.0f} s, {statuses.count('finished')} of {len(statuses)} finished", "all"
    )
    row("their polls meanwhile", spread([1000 * each for one in polls for each in one]))
    row("their looks at masked words meanwhile", spread([1000 * each for one in probes for each in one]))


def slider(options: argparse.Namespace) -> None:
    """The time slider is moved, and the open tab follows."""
    with Server() as server, chromium(server) as page:
        page.evaluate(FIRST_LOSS)
        page.wait_for_function("document.querySelector('#run-status').textContent === 'Finished'")
        last = int(page.get_attribute("#time-slider", "max"))
        for tab, _, view, _ in CLICKS[:3]:
            open_tab(page, tab, view)
            moves = [timed(page, "#time-slider", view, (7 * k) % last) for k in range(options.repeat)]
            row(f"time slider moved until `{view}` is drawn", spread(moves), "300 ms")


def click(options: argparse.Namespace) -> None:
    """Words, pairs and heads, from a click to the picture."""
    with Server() as server, chromium(server) as page:
        for tab, part, view, aim in CLICKS:
            open_tab(page, tab, view)
            clicks = [timed(page, part, view, number=number + 1) for number in range(options.repeat)]
            row(f"click on `{part}` until `{view}` is drawn", spread(clicks), aim)


def base(options: argparse.Namespace) -> None:
    """The grid of all heads at the sizes of BERT base, for 64 tokens."""
    known = load_checkpoint(SHIPPED)
    sizes = BertConfig(
        vocab_size=30522, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072
    )
    words = " ".join((known.tokenizer.id_to_token(6), known.tokenizer.id_to_token(7)) * 31)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "base"
        save_checkpoint(Checkpoint(BertForPreTraining(sizes).eval(), known.tokenizer, "base"), folder)
        with Server(shipped=folder) as server, chromium(server) as page:
            open_tab(page, "Attention", "attention-heads")
            for field, text in (("pair", ""), ("text", words)):
                page.click(f"#edit-{field}")
                page.fill(f"#sentence-{field}", text)
                page.press(f"#sentence-{field}", "Enter")
            page.wait_for_timeout(8000)
            clicks = [
                timed(page, "#attention-hide input", "attention-heads") for _ in range(max(2, options.repeat // 4))
            ]
            with page.expect_download() as download:
                page.click("#attention-download summary")
                page.click("#attention-download-png")
            size = download.value.path().stat().st_size / 2**20
    row("12 x 12 heads, 64 tokens: click until the grid is drawn", spread(clicks), "1,500 ms")
    row("its picture (PNG)", f"{size:.2f} MB", "2 MB")


def load(options: argparse.Namespace) -> None:
    """A crowd trains, watches and probes under the limits for strangers; in the second half a client floods."""
    crowd, samples = crowded(options.crowd, options.minutes, Crowd.flood)
    report(crowd, options.crowd, samples)


def space(options: argparse.Namespace) -> None:
    """The same without a flood, for the memory of a Space."""
    crowd, samples = crowded(options.visitors, options.minutes)
    row(f"{options.visitors} visitors for {options.minutes:g} minutes: runs by their end", f"{dict(crowd.ends)}")
    most = max((facts["memory"] for _, facts in samples), default=0.0)
    row("memory of all processes, at first and at most", f"{samples[0][1]['memory']:.0f} MB, {most:.0f} MB", "4,096 MB")
    row("of it snapshots, models and texts", f"{max(facts['kept'] for _, facts in samples):.0f} MB")
    row("problems", f"{dict(crowd.problems + crowd.refused) or 'none'}", "none")


def crowded(
    visitors: int, minutes: float, *others: Callable[[Crowd], None]
) -> tuple[Crowd, list[tuple[bool, dict[str, Any]]]]:
    """A crowd that has been there for so long, beside others, and for each second whether it was late and the facts of
    the server."""
    with Server(lease=600.0, is_public=True) as server, ThreadPoolExecutor(visitors + 1) as people:
        crowd, samples = Crowd(server, 30 * minutes), [(False, server.facts())]
        working = [people.submit(other, crowd) for other in others]
        working += [people.submit(crowd.take_part, number) for number in range(visitors)]
        while not all(each.done() for each in working):
            time.sleep(1)
            samples.append((crowd.is_late, server.facts()))
        for each in working:
            each.result()
    return crowd, samples


def open_tab(page: Page, tab: str, view: str) -> None:
    """Open a tab, and wait until its picture has been drawn and nothing more comes."""
    page.get_by_role("tab", name=tab, exact=True).click()
    page.wait_for_function("view => drawn[view] > 0", arg=view)
    page.wait_for_timeout(1500)


if __name__ == "__main__":
    main()
