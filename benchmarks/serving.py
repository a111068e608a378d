"""What benchmarks/app.py measures with: the app in a process of its own, and visitors with and without a browser.

Run as a program, this file is that process: it serves the page, and for every line that it reads it writes a line of
JSON with its facts.
"""

import argparse
import contextlib
import http.client
import json
import os
import secrets
import shutil
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser")  # the first that is there is used
CHROMIUM_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
PATIENCE = 120.0
GUESS_POLLS = 3  # between two requests for guesses; see balcony/train/monitor.js
IDLE_SECONDS = 3.0
SENTENCES = {"text": "Hello, how are you? I am Romeo.", "pair": "Hello, Romeo My name is Juliet. Nice to meet you."}
ENDED = ("finished", "stopped", "failed")
# Press Start, wait until the curves have a point and it is on the screen; gives the milliseconds.
FIRST_LOSS = """async () => {
  const frame = () => new Promise(requestAnimationFrame), began = performance.now();
  document.querySelector("#start").click();
  while (!Number(document.querySelector("#run-curves")?.dataset.points)) await frame();
  await frame();
  return performance.now() - began;
}"""


class Server:
    """The app on a free port. lease: of its visitors, in seconds. shipped: folder of the model that comes with it.
    is_public: whether it has the limits for strangers. teacher: the token of a class."""

    def __init__(
        self, *, lease: float | None = None, shipped: Path | None = None, is_public: bool = False, teacher: str = ""
    ) -> None:
        self.port = free_port()
        command = [sys.executable, __file__, "--port", str(self.port)]
        command += ["--lease", str(lease)] if lease else []
        command += ["--shipped", str(shipped)] if shipped else []
        command += ["--public"] if is_public else []
        command += ["--teacher", teacher] if teacher else []
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        wait_for_app(self.port)

    def facts(self) -> dict[str, Any]:
        """cpu: seconds of processor time so far; steps: of all runs; memory: resident MB of the process and those that
        it has started; kept: MB of runs: snapshots, texts, histories, what trains."""
        print("facts", file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        self._process.wait()


class Refused(RuntimeError):
    """What a visitor asked was not done. status: of the answer, 0 where a sentence says why."""

    def __init__(self, sentence: str, status: int = 0) -> None:
        super().__init__(sentence)
        self.status = status


class Visitor:
    """A page without a browser: it asks for what the page's scripts ask for, over one connection that stays open.

    spent: seconds from each question to its answer. size: bytes of the last answer.
    """

    def __init__(self, server: Server) -> None:
        self.spent: list[float] = []
        self.size, self._latest = 0, 0.0
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        self._session = secrets.token_hex(6)
        document = self._ask("GET", "/").decode()
        self._config, _ = json.JSONDecoder().raw_decode(document.partition("window.gradio_config = ")[2])
        parts = self._config["components"]
        self._ids = {part["props"]["elem_id"]: part["id"] for part in parts if part["props"].get("elem_id")}
        self._ids[None] = 0  # the page itself
        self.values = {part["id"]: part["props"].get("value") for part in parts}
        # An empty field is sent as an empty text.
        self.values |= {part["id"]: part["props"].get("value") or "" for part in parts if part["type"] == "textbox"}
        self.fire(None, "load")
        self.fire("visitor", "enter")  # as the page does: the answer is its token

    def fire(self, elem_id: str | None, event: str) -> None:
        """Let an event happen: all that hangs on it is asked, and the values of its outputs are kept."""
        for body, outputs in self.questions(elem_id, event):
            answer = json.loads(self._ask("POST", "/gradio_api/run/predict", body))
            for part, value in zip(outputs, answer["data"]):
                is_update = isinstance(value, dict) and value.get("__type__") == "update"
                if not is_update or "value" in value:
                    self.values[part] = value["value"] if is_update else value

    def questions(self, elem_id: str | None, event: str) -> Iterator[tuple[dict[str, Any], list[int]]]:
        """All that hangs on an event: what is asked, and the parts of the page that the answer is for."""
        target = [self._ids.get(elem_id), event]
        for index, dependency in enumerate(self._config["dependencies"]):
            if target in [list(found) for found in dependency["targets"]] and dependency["backend_fn"]:
                data = [self.values.get(part) for part in dependency["inputs"]]
                body = {"data": data, "fn_index": dependency.get("id", index), "session_hash": self._session}
                yield body, dependency["outputs"]

    def ask(self, *asks: Sequence[Any], question: Any = None) -> list[Any]:
        """What the server answers to what the page asks at once, each a name and values."""
        body = {"visitor": self.value("visitor"), "question": question, "asks": asks}
        lines = map(json.loads, self._ask("POST", "/balcony/ask", body).splitlines())
        return [value for _, value in sorted(lines, key=lambda line: line[0])]

    def value(self, elem_id: str) -> Any:
        """What a component holds."""
        return self.values[self._ids[elem_id]]

    def set(self, elem_id: str, value: Any) -> None:
        """Type or choose something."""
        self.values[self._ids[elem_id]] = value

    def change(self, **settings: object) -> None:
        """Type settings, such as training__steps=9."""
        held = self.value("settings")
        changed = {name.replace("__", "."): str(value) for name, value in settings.items()}
        self.set("settings", held | {"changed": held["changed"] | changed})

    def start(self) -> None:
        """Press Start."""
        self.cursors, self.guessed = [0, -1, 0], 0.0
        self.fire("start", "click")
        if not (self.value("run-monitor") or {}).get("run"):
            self.fire("source", "change")  # the preview shows what is wrong
            raise Refused((self.value("preview") or {}).get("error") or "no run has started")

    def poll(self) -> dict[str, Any]:
        """Ask for news of the run."""
        run = self.value("run-monitor")
        [news] = self.ask(["news", run["run"], self.cursors])
        if "error" in news:
            raise Refused(news["error"])
        self.cursors = news["cursors"]
        return news

    def guess(self) -> None:
        """Ask for the newest guesses."""
        run = self.value("run-monitor")
        self.ask(["board", run["run"], None, self.guessed == 0])
        self.guessed = time.monotonic()

    def watch(self, until: float = float("inf")) -> Iterator[dict[str, Any]]:
        """News and guesses as the page asks for them, until the run has ended or the time (monotonic) has come."""
        while True:
            news = self.poll()
            size = self.size
            rest = news["poll_ms"] / 1000
            is_over = news["status"] in ENDED
            if is_over or (news["points"] and time.monotonic() > self.guessed + GUESS_POLLS * rest):
                self.guess()
            self.size = size
            yield news
            if is_over or time.monotonic() > until:
                return
            time.sleep(rest)

    def look(self, hidden: int = 0, *, of_run: bool = True) -> list[dict[str, Any]]:
        """Hide a word and ask for the words, the guesses and a closer view; returns these answers.

        of_run: ask the newest model of the run, else the one that comes with the page."""
        run = self.value("frame")
        question = {"model": run["run"] if of_run else "", "tab": "masked-words", **SENTENCES}
        [words] = self.ask(["words", None], question=question)
        question["hidden"] = [hidden]
        [[guesses], [closer]] = (self.ask([name], question=question) for name in ("guesses", "closer"))
        return [words, guesses["masked-guesses"], closer["masked-closer"]]

    def leave(self) -> None:
        """Close the page."""
        self._connection.close()

    def _ask(self, method: str, path: str, body: Any = None) -> bytes:
        started = time.perf_counter()
        if started > self._latest + IDLE_SECONDS:
            self._connection.close()  # and opened again by the request: the server closes what is idle for long
        content = None if body is None else json.dumps(body)
        headers = {"Content-Type": "application/json"}
        try:
            self._connection.request(method, path, content, headers)
            response = self._connection.getresponse()
        except (BrokenPipeError, ConnectionResetError, http.client.RemoteDisconnected):  # closed meanwhile, as idle
            self._connection.close()
            self._connection.request(method, path, content, headers)
            response = self._connection.getresponse()
        answer = response.read()
        self._latest = time.perf_counter()
        self.spent.append(self._latest - started)
        self.size = len(answer)
        if response.status != 200:
            raise Refused(f"{path}: {response.status} {answer[:300]!r}", response.status)
        return answer


@contextlib.contextmanager
def chromium(server: Server) -> Iterator[Page]:
    """The page in a fresh browser profile; `timed` measures on it."""
    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(PATIENCE * 1000)
        visit(page, server)
        yield page
        browser.close()


def visit(page: Page, server: Server) -> None:
    """Open the page (again), wait until Start can be pressed, and count how often each view is drawn."""
    page.goto(f"http://127.0.0.1:{server.port}")
    page.wait_for_selector("#start:not([disabled])")
    page.evaluate("""() => {
      window.drawn = {};
      new MutationObserver((changes) => {
        const parts = changes.map(({ target }) => target instanceof Element ? target : target.parentElement);
        const views = new Set(parts.map((part) => part?.closest(".b-view")?.closest(".block")?.id));
        for (const view of views) drawn[view] = (drawn[view] || 0) + 1;
      }).observe(document.body, { childList: true, characterData: true, subtree: true });
    }""")


def timed(page: Page, selector: str, view: str, value: float | None = None, *, number: int = 0) -> float:
    """Milliseconds from a click, or from moving a slider to a value, until that view is drawn and on the screen.

    number: which of the parts that the selector finds, round and round.
    """
    return page.evaluate(
        """async ([selector, view, value, number]) => {
          const parts = document.querySelectorAll(selector), part = parts[number % parts.length];
          const frame = () => new Promise(requestAnimationFrame);
          const before = drawn[view], began = performance.now();
          if (value === null) part.click();
          else { part.value = value; part.dispatchEvent(new Event("input")); }
          while (drawn[view] === before) {
            await frame();
            if (performance.now() > began + 60000) throw new Error(`${view} was not drawn after ${selector}`);
          }
          await frame();
          return performance.now() - began;
        }""",
        [selector, view, value, number],
    )


def wait_for_app(port: int) -> None:
    """Return when the app at this port of this machine is served."""
    while True:
        with contextlib.suppress(OSError):  # also for an answer that is an error
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=PATIENCE).close()
            return
        time.sleep(0.1)


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def serve() -> None:
    """The process of a `Server`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--lease", type=float)
    parser.add_argument("--shipped", type=Path)
    parser.add_argument("--public", action="store_true")
    parser.add_argument("--teacher")
    options = parser.parse_args()
    import balcony.app
    from balcony.server.workspace import kept_bytes
    from bert_core import TrainingService
    from bert_core.config import LOCAL, PUBLIC
    from bert_core.runs.run import Run

    runs: weakref.WeakSet[Run] = weakref.WeakSet()

    class Service(TrainingService):
        def start(self, *arguments: Any, **named: Any) -> Run:
            with self.changed:
                runs.add(run := super().start(*arguments, **named))
            return run

    def facts() -> dict[str, Any]:
        with service.changed:
            steps = sum(run.steps_done for run in runs)
            kept = sum(map(kept_bytes, runs))
            kept += sum(run.training.trainer.nbytes for run in runs if run.training and run.status not in ENDED)
        return {"cpu": time.process_time(), "steps": steps, "memory": resident(), "kept": kept / 2**20}

    answers = sys.stdout

    def answer() -> None:
        for _ in sys.stdin:
            print(json.dumps(facts()), file=answers, flush=True)
        os._exit(0)

    service = Service(limits=PUBLIC if options.public else LOCAL)
    shipped = {"shipped": [options.shipped]} if options.shipped else {}
    threading.Thread(target=answer).start()
    named = {"lease": options.lease, "teacher": options.teacher, "server_port": options.port}
    with contextlib.redirect_stdout(sys.stderr):  # the addresses of a class
        balcony.launch(service, **shipped, **named, inbrowser=False, quiet=True)


def resident(pid: int | str = "self") -> float:
    """Resident memory in MB of a process and those that it has started; nan where the system does not say."""
    with contextlib.suppress(OSError):
        own = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
        children = [
            child for file in Path(f"/proc/{pid}/task").glob("*/children") for child in file.read_text().split()
        ]
        return own + sum(found for child in children if (found := resident(child)) == found)
    return float("nan")


def row(what: str, measured: str, aim: str = "") -> None:
    """Print a row of the table."""
    print(f"| {what} | {measured} | {aim} |", flush=True)


def spread(values: Sequence[float], unit: str = "ms", digits: int = 0) -> str:
    """Median and 95th percentile."""
    if not values:
        return "none"
    high = sorted(values)[max(0, -(-len(values) * 95 // 100) - 1)]
    return f"{statistics.median(values):.{digits}f} {unit}, p95 {high:.{digits}f} {unit} (n = {len(values)})"


if __name__ == "__main__":
    serve()
