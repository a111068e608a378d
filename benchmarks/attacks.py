"""What known attacks cost, as a Markdown table: memory, and how long everybody else waits.

    python benchmarks/attacks.py [--only ATTACK ...] [--limits public | local]

Each attack has a process of its own: one that reads a file, or the app, which is asked as a stranger's program asks it.
Memory is what that process takes at its peak beyond what it had before. The longest stop is, of a reader, the longest
that another thread of its process waits to be run again; of the app, the longest that GET /health, asked every 20 ms,
takes. Other programs delay both, so that of several tries the least is given. Linux only.
"""

import argparse
import concurrent.futures
import contextlib
import functools
import gc
import http.client
import json
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gradio_client import Client
from serving import ROOT, Visitor, free_port, wait_for_app

SHIPPED = ROOT / "checkpoints" / "romeo-juliet"
BEAT, LEAST_BEAT = 0.02, 0.005  # seconds between two questions of the prober, between two turns of the other thread
TRIES, SHORT = 3, 0.05  # a stop of fewer seconds needs no further try
QUESTION = "/gradio_api/run/predict"
SIZES = {"hidden_size": 64, "num_hidden_layers": 48, "num_attention_heads": 64, "intermediate_size": 2}

# --- Files ---------------------------------------------------------------------------------------------------------


def model_files(folder: Path, **files: bytes | str) -> list[Path]:
    """The files of the shipped model, some of them replaced; in names, __ stands for a dot."""
    shutil.copytree(SHIPPED, folder, dirs_exist_ok=True)
    for name, content in files.items():
        path = folder / name.replace("__", ".")
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return sorted(folder.iterdir())


def brackets(folder: Path) -> list[Path]:
    return model_files(folder, tokenizer__json=b"[" * 31_000_000)


def lists(folder: Path) -> list[Path]:
    return model_files(folder, tokenizer__json=b'{"a": [' + b"[]," * 1_600_000)


def vocabulary(folder: Path, tokens: int) -> list[Path]:
    model_files(folder, tokenizer_config__json="{}", vocab__txt="\n".join(f"{i:06x}" for i in range(tokens)))
    (folder / "tokenizer.json").unlink()
    return sorted(folder.iterdir())


def tokenizer_json(folder: Path, tokens: int) -> list[Path]:
    content = json.loads((SHIPPED / "tokenizer.json").read_text())
    known = content["model"]["vocab"]
    known |= {f"{i:06x}": i for i in range(len(known), tokens)}
    config = json.loads((SHIPPED / "config.json").read_text()) | {"vocab_size": tokens}
    return model_files(folder, tokenizer__json=json.dumps(content), config__json=json.dumps(config))


def zip_of_zeros(folder: Path) -> list[Path]:
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(SHIPPED / "config.json", "config.json")
        with archive.open("model.safetensors", "w", force_zip64=True) as file:
            file.write(struct.pack("<Q", 2_500_000_000))
            for _ in range(2_500):
                file.write(bytes(1_000_000))
    return [path]


def zip_of_entries(folder: Path) -> list[Path]:
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(400_000):
            archive.writestr(zipfile.ZipInfo(f"{number}"), b"")
    return [path]


def many_heads(folder: Path) -> list[Path]:
    """A small zip of a model with as many layers, heads and positions as the settings allow."""
    from torch import zeros_like

    from balcony.server.files import pack
    from bert_core import BertConfig, BertForPreTraining, load_checkpoint
    from bert_core.storage.checkpoint import Checkpoint, save_checkpoint

    known = load_checkpoint(SHIPPED)
    config = BertConfig(vocab_size=known.config.vocab_size, max_position_embeddings=4096, **SIZES)
    model = BertForPreTraining(config).eval()
    model.load_state_dict({name: zeros_like(tensor) for name, tensor in model.state_dict().items()})
    path = folder.with_suffix(".zip")
    pack(functools.partial(save_checkpoint, Checkpoint(model, known.tokenizer, "zeros")), path)
    return [path]


def lines(folder: Path, line: str, count: int) -> list[Path]:
    path = folder.with_suffix(".tsv")
    path.write_text("".join(f"{line} {number}\tlabel {number % 2}\n" for number in range(count)))
    return [path]


# --- Readers: they run in a process of their own ------------------------------------------------------------------


def open_model(paths: list[Path], limits: Any) -> Any:
    from balcony.models.tab import open_files

    return open_files(paths, limits)


def attend(paths: list[Path], limits: Any) -> None:
    from bert_core import attention

    attention(open_model(paths, limits), "hello romeo " * 2000)


def read_task(paths: list[Path], limits: Any) -> None:
    from bert_core.tasks.examples import load_task

    load_task(paths[0], "text-classification", limits=limits)


def read_text(paths: list[Path], limits: Any) -> None:
    from bert_core.data.corpus import Corpus

    Corpus.from_bytes(paths[0].read_bytes(), limits=limits)


# Attack: what it cost when it was found, its files, and what reads them.
READERS: dict[str, tuple[str, Callable[[Path], list[Path]], Callable[[list[Path], Any], Any]]] = {
    "tokenizer.json of 31 MB of open brackets": ("835 MB; 5 s", brackets, open_model),
    "tokenizer.json of 1,600,000 lists": ("", lists, open_model),
    "vocab.txt of 30 MB": ("1.8 GB; 31 s", lambda folder: vocabulary(folder, 4_300_000), open_model),
    "vocab.txt of 60,000 tokens": ("190 ms", lambda folder: vocabulary(folder, 60_000), open_model),
    "tokenizer.json of 60,000 tokens": ("190 ms", lambda folder: tokenizer_json(folder, 60_000), open_model),
    "tokenizer.json of 32,000 tokens": ("100 ms", lambda folder: tokenizer_json(folder, 32_000), open_model),
    "zip of 2.5 GB of zeros": ("2.5 GB", zip_of_zeros, open_model),
    "zip with a list of 400,000 files": ("", zip_of_entries, open_model),
    "zip of 36 kB, 48 layers of 64 heads, a long sentence": ("4 GB", many_heads, attend),
    "task of 100,000 lines": ("190 ms", lambda folder: lines(folder, "some words", 100_000), read_task),
    "text of 100,000 lines": ("", lambda folder: lines(folder, "Some words!", 100_000), read_text),
}


def read(attack: str, limits: str) -> None:
    """In a process of its own: read the files of an attack and print a line of JSON."""
    from bert_core import BertCoreError
    from bert_core.config import LOCAL, PUBLIC

    _, make, reader = READERS[attack]
    open_model(sorted(SHIPPED.iterdir()), LOCAL)  # what is imported and made once does not count
    gc.freeze()  # as the app does
    stops, is_over = [0.0], threading.Event()

    def beat() -> None:
        while not is_over.is_set():
            began, used = time.perf_counter(), time.process_time()
            time.sleep(LEAST_BEAT)
            # What the reader did not use of it, other programs did.
            stops.append(min(time.perf_counter() - began, time.process_time() - used) - LEAST_BEAT)

    with tempfile.TemporaryDirectory() as scratch:
        paths = make(Path(scratch, "attack"))
        before, other, end = reset_peak("self"), threading.Thread(target=beat), "read"
        other.start()
        began = time.perf_counter()
        try:
            reader(paths, PUBLIC if limits == "public" else LOCAL)
        except BertCoreError as error:
            end = str(error)
        seconds = time.perf_counter() - began
        is_over.set()
        other.join()
    print(json.dumps([peak("self") - before, max(stops), f"{seconds:.1f} s: {end}"]))


# --- The app, asked from outside ----------------------------------------------------------------------------------


class App:
    """The app on a free port, in a process of its own."""

    def __init__(self, limits: str) -> None:
        self.port = free_port()
        command = [sys.executable, ROOT / "app.py", "--no-browser", "--port", self.port, "--limits", limits]
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL)
        wait_for_app(self.port)

    def ask(self, method: str, path: str, body: bytes | Iterator[bytes] = b"", **headers: str) -> int:
        """The status of the answer; 0 if the connection ends without one."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"Content-Type": "application/json"} | {name.replace("_", "-"): headers[name] for name in headers}
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            connection.request(method, path, body, headers)
            return connection.getresponse().status
        return 0

    def __enter__(self) -> "App":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()


def start_and_stop(app: App) -> str:
    client, found = Client(f"http://127.0.0.1:{app.port}", verbose=False), ""
    for _ in range(15):
        try:
            run = client.predict("romeo-juliet-wmathor", api_name="/start_training")
            while (found := client.predict(run, api_name="/training_status"))["status"] == "queued":
                time.sleep(0.1)
            client.predict(run, api_name="/stop_training")
        except Exception as error:  # the client's own, with the sentence of the app
            found = {"reason": str(error)}
    return f"the last one: {found['reason']}"


def press_stop(app: App) -> str:
    """Of a run whose steps take long."""
    visitor = Visitor(app)
    visitor.change(model__num_hidden_layers=4, model__hidden_size=128, data__batch_size=32, training__steps=1000)
    visitor.start()
    while visitor.poll()["status"] == "queued":
        time.sleep(0.1)
    [(question, _)] = visitor.questions("stop", "click")
    with concurrent.futures.ThreadPoolExecutor(40) as presses:
        asked = [presses.submit(app.ask, "POST", QUESTION, json.dumps(question).encode()) for _ in range(40)]
    return f"{[each.result() for each in asked].count(200)} answered, then {visitor.poll()['status']}"


def endless(app: App) -> str:
    def parts() -> Iterator[bytes]:
        yield b'{"data": ["'
        for _ in range(2**11):
            yield b" " * 2**20

    sized = app.ask("POST", QUESTION, parts(), Content_Length=str(2**31))
    return f"answers {sized} with a length, {app.ask('POST', QUESTION, parts())} without"


def nested(app: App) -> str:
    return f"answers {Counter(app.ask('POST', QUESTION, b'[' * 1_000_000) for _ in range(20))}"


def web_address(app: App) -> str:
    """The sender of the file counts who comes to fetch it."""
    with socket.create_server(("127.0.0.1", 0)) as sender:
        sender.settimeout(1)
        file = {"path": f"http://127.0.0.1:{sender.getsockname()[1]}/", "meta": {"_type": "gradio.FileData"}}
        visitor = Visitor(app)
        visitor.set("model-upload", [file])
        statuses = [
            app.ask("POST", QUESTION, json.dumps(body).encode())
            for body, _ in visitor.questions("model-upload", "upload")
        ]
        with contextlib.suppress(TimeoutError):
            sender.accept()
            return f"answers {statuses}, and fetches"
    return f"answers {statuses}, and fetches nothing"


def stalled(app: App) -> str:
    head = b"POST /gradio_api/upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000\r\n"
    head += b"Content-Type: multipart/form-data; boundary=b\r\n\r\n" + b"x" * 100_000
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", app.port), timeout=60))
            one.sendall(head)
        time.sleep(5)
        files = len(list(Path(f"/proc/{app.process.pid}/fd").iterdir()))
    return f"{files} open files and connections"


def long_sessions(app: App) -> str:
    """New sessions without end, as long as they may be."""
    found = Counter(
        app.ask("POST", QUESTION, json.dumps({"session_hash": f"{number:064}", "fn_index": 0, "data": []}).encode())
        for number in range(1000)
    )
    return f"answers {dict(found)}"


def full_queue(app: App) -> str:
    body = {"data": ["hello [MASK]", "", 5, ""], "fn": "fill_mask"}
    found = Counter(app.ask("POST", "/gradio_api/call/fill_mask", json.dumps(body).encode()) for _ in range(1000))
    return f"answers {dict(found)}"


APPS: dict[str, tuple[str, Callable[[App], str]]] = {
    "15 programs start and stop 6 layers of 768": ("3.4 GB after 3, the end of a Space after 15", start_and_stop),
    "40 presses of Stop in one step": ("all threads taken", press_stop),
    "field of 2 GB": ("600 MB for 200 MB", endless),
    "20 questions of 1,000,000 open brackets": ("status 500", nested),
    "file named by a web address": ("fetched whole", web_address),
    "300 stalled uploads": ("", stalled),
    "1,000 sessions of 64 characters": ("", long_sessions),
    "1,000 questions for the queue": ("a queue without an end", full_queue),
}


def probe(port: str) -> None:
    """In a process of its own: ask for the health of the app until a line comes, and print the longest wait."""
    waits, is_over = [0.0], threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), is_over.set()), daemon=True).start()
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=120)
    while not is_over.wait(BEAT):
        began = time.perf_counter()
        connection.request("GET", "/health")
        connection.getresponse().read()
        waits.append(time.perf_counter() - began)
    print(max(waits))


def asked(attack: str, limits: str) -> tuple[float, float, str]:
    """Memory in MB, the longest stop in seconds, and what has become of an attack on the app."""
    with App(limits) as app:
        Visitor(app)  # what is imported and made once does not count
        pid, command = app.process.pid, [sys.executable, __file__, "--probe", str(app.port)]
        prober = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        before = reset_peak(pid)
        time.sleep(1)
        end = APPS[attack][1](app)
        stop = float(prober.communicate("\n")[0])
        return peak(pid) - before, stop, end


# --- Both ---------------------------------------------------------------------------------------------------------


def reset_peak(pid: int | str) -> float:
    """Let the peak of a process's memory begin now; returns its memory in MB."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return peak(pid)


def peak(pid: int | str) -> float:
    """The peak of a process's memory in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> None:
    """Print the table of the attacks that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[""], help="parts of the names of attacks")
    parser.add_argument("--limits", choices=("public", "local"), default="public")
    parser.add_argument("--read", help=argparse.SUPPRESS)
    parser.add_argument("--probe", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.probe or options.read:
        probe(options.probe) if options.probe else read(options.read, options.limits)
        return
    print("| attack | before | memory | longest stop | what becomes of it |\n|---|---|---|---|---|", flush=True)
    for attack in [*READERS, *APPS]:
        if not any(part in attack for part in options.only):
            continue
        command = [sys.executable, __file__, "--read", attack, "--limits", options.limits]
        results: list[Any] = []
        while len(results) < TRIES and not (results and results[-1][1] < SHORT):
            is_reader = attack in READERS
            results.append(json.loads(subprocess.check_output(command)) if is_reader else asked(attack, options.limits))
        memory, stop, end = min(results, key=lambda found: found[1])
        before = (READERS.get(attack) or APPS[attack])[0]
        print(f"| {attack} | {before} | {memory:.0f} MB | {1000 * stop:.0f} ms | {end} |", flush=True)


if __name__ == "__main__":
    main()
