"""What Windows, macOS and small systems lack, simulated: each fallback works, and no other module makes such calls."""

import ast
import contextlib
import errno
import io
import os
import signal
import subprocess
import sys
import threading
import types
from pathlib import Path

from test_boundaries import CORE, PROGRAM, ROOT

from balcony import __main__ as balcony_command
from bert_core import __main__ as command_line
from bert_core import device
from bert_core.storage.checkpoint import load_checkpoint, save_checkpoint

# Of the libraries that Windows has in part, what it has as every other system. `balcony` asks os.name before it
# imports anything of the core.
PORTABLE = {
    "os": {
        *("PathLike", "fspath", "lstat", "fstat", "environ", "devnull", "path", "dup2", "O_WRONLY", "_exit"),
        *("replace", "open", "close", "fsync", "O_RDONLY", "SEEK_END"),
    },
    "signal": {"signal", "default_int_handler"},
    "sys": {"argv", "exit", "stdout", "stderr", "modules", "maxsize", "platform", "exception"},
}
MISSING_SOMEWHERE = {"ctypes", "fcntl", "resource", "pwd", "grp", "termios", "pty", "syslog", "msvcrt"}
METHODS = {"symlink_to", "hardlink_to", "rename"}


def test_only_a_few_modules_call_what_a_system_may_lack():
    wrong = []
    for path in PROGRAM:
        if path.name in ("device.py", "system.py") or "benchmarks" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            where = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {getattr(node, "module", None) or "", *(alias.name for alias in node.names)}
                wrong += [f"{where} imports {name}" for name in names & MISSING_SOMEWHERE]
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                used = {node.attr} - PORTABLE.get(node.value.id, {node.attr})
                wrong += [f"{where} uses {node.value.id}.{name}" for name in used]
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                is_of_path = node.func.attr == "replace" and len(node.args) == 1 and not node.keywords
                if is_of_path or (
                    node.func.attr in METHODS and ast.unparse(node.func.value) not in ("space", "asked.visitor")
                ):
                    wrong.append(f"{where} calls {ast.unparse(node.func)}")
    assert wrong == [
        f"balcony/__main__.py:{line} uses os.name" for line in lines_of(ROOT / "balcony/__main__.py", "os.name")
    ]


def lines_of(path: Path, part: str) -> list[int]:
    return [i for i, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1) if part in line]


def test_the_walk_reaches_the_core():
    assert ROOT / "bert_core" / "device.py" in CORE


# --- Files ------------------------------------------------------------------------------------------------------------


def test_a_file_system_without_users_keeps_a_model(tiny_checkpoint, tmp_path, monkeypatch):
    def refuse(*_arguments: object, **_options: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "chmod", refuse)
    for _ in range(2):
        save_checkpoint(tiny_checkpoint, tmp_path / "model")
    assert load_checkpoint(tmp_path / "model").notes == ()


# --- Processor and memory ---------------------------------------------------------------------------------------------


def test_without_priorities_all_threads_are_equal(monkeypatch):
    def refuse(*_arguments: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    before = os.getpriority(os.PRIO_PROCESS, 0)
    monkeypatch.setattr(os, "setpriority", refuse)  # as a sandbox does
    device.give_way()
    monkeypatch.delattr(os, "setpriority")  # as Windows does
    monkeypatch.setattr(sys, "platform", "win32")
    device.give_way()
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


def test_memory_is_given_back_only_where_the_library_can(monkeypatch):
    given_back = []
    monkeypatch.setattr(sys, "platform", "linux")
    for library in (types.SimpleNamespace(), types.SimpleNamespace(malloc_trim=given_back.append)):
        monkeypatch.setattr(device.ctypes, "CDLL", lambda name, library=library: library)
        device.give_back_memory()
    monkeypatch.setattr(sys, "platform", "darwin")
    device.give_back_memory()
    assert given_back == [0]


def test_cores_and_memory_are_known_without_the_calls_of_a_platform(monkeypatch):
    monkeypatch.delattr(os, "sysconf")
    assert device.usable_memory() == int(0.6 * 4 * 2**30)
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    assert device.processor_cores() == 5


# --- The terminal -----------------------------------------------------------------------------------------------------


def test_redirected_output_is_utf_8_whatever_the_system_prefers(tiny_checkpoint, tmp_path):
    """As on Windows, where a file or a pipe gets the encoding of the country."""
    name = tmp_path / "Łódź 北京.txt"
    environment = {**os.environ, "PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0", "LC_ALL": "C.UTF-8"}
    command = [sys.executable, "-m", "bert_core", "predict", str(tmp_path / "Łódź"), "--input", str(name)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "Łódź" in done.stderr.decode("utf-8")
    program = "import sys; from bert_core.__main__ import write_utf8; write_utf8(); print('Łódź', '\\ud83d')"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, timeout=120, check=True
    )
    assert done.stdout.decode("utf-8").split() == ["Łódź", r"\ud83d"]


def test_an_output_without_an_encoding_is_left_alone(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())  # a notebook's
    command_line.write_utf8()
    print("Łódź")
    assert sys.stdout.getvalue() == "Łódź\n"


def test_ctrl_break_ends_a_program_where_the_system_has_it(monkeypatch):
    monkeypatch.setattr(signal, "SIGBREAK", signal.SIGUSR1, raising=False)
    heard, before = [], signal.getsignal(signal.SIGUSR1)
    with command_line.ended_by(lambda number, _: heard.append(number)):
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT):
            signal.raise_signal(number)
    assert heard == [signal.SIGUSR1, signal.SIGTERM, signal.SIGINT]
    assert signal.getsignal(signal.SIGUSR1) == before


def test_a_training_may_run_outside_the_main_thread(tmp_path, capsys):
    short = ["--set", "training.steps=2", "data.batch_size=2", "model.hidden_size=12", "model.num_attention_heads=3"]
    statuses = []
    command = ["train", "--output", str(tmp_path / "model"), *short]
    thread = threading.Thread(target=lambda: statuses.append(command_line.main(command)))
    thread.start()
    thread.join()
    assert statuses == [0]


def test_a_reserved_port_is_passed_over(monkeypatch):
    """Windows denies access to the ports that it keeps for itself."""
    tried = []

    class Server:
        def __init__(self, address: tuple[str, int], handler: type) -> None:
            tried.append(address[1])
            if len(tried) < 3:
                raise PermissionError(errno.EACCES, "An attempt was made to access a socket in a way forbidden")

        serve_forever = contextlib.nullcontext

    monkeypatch.setattr(balcony_command, "WaitingServer", Server)
    balcony_command.serve_waiting_page("127.0.0.1", None)
    assert tried == [7860, 7861, 7862]
