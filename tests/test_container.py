"""The Dockerfile, as far as it can be checked without Docker: its steps make a folder in which its command serves."""

import functools
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

from helpers import wait

ROOT = Path(__file__).resolve().parent.parent
STEPS = [
    step.split(maxsplit=1)
    for step in (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    if step and not step.startswith("#")
]


def steps(name: str) -> list[str]:
    return [rest for step, rest in STEPS if step == name]


def test_it_installs_the_pins_but_pytest_on_the_python_of_the_readme(tmp_path):
    readme, project = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "pyproject.toml"))
    version = re.search(r'python_version: "(.*)"', readme)[1]
    assert steps("FROM") == [f"python:{version}-slim"]
    assert f'requires-python = ">={version}"' in project
    [index] = re.findall(r"`--extra-index-url\s+(\S+)`", readme)
    [install] = [step for step in steps("RUN") if step.startswith("pip")]
    assert install == f"pip install --no-cache-dir --extra-index-url {index} -r served.txt"
    pins = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    (tmp_path / "requirements.txt").write_text(pins, encoding="utf-8")
    [choose] = [step for step in steps("RUN") if step.endswith("served.txt") and step != install]
    subprocess.run(["sh", "-c", choose], cwd=tmp_path, check=True)
    served = (tmp_path / "served.txt").read_text(encoding="utf-8").splitlines()
    assert served == [pin for pin in pins.splitlines() if not pin.startswith("pytest")] != pins.splitlines()


def test_it_does_not_run_as_root_and_names_no_file_that_is_missing():
    [user] = steps("USER")
    assert f"useradd --create-home {user}" in steps("RUN")
    order = [step for step, _ in STEPS]
    assert order.index("USER") > max(i for i, step in enumerate(order) if step in ("RUN", "COPY"))
    kept_out = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    for step in steps("COPY"):
        for name in shlex.split(step)[:-1]:
            assert (ROOT / name).exists(), name
            assert name not in kept_out


def test_its_command_serves_what_it_copies(tmp_path: Path) -> None:
    for step in steps("COPY"):
        *names, target = shlex.split(step)
        for name in names:
            source, copied = ROOT / name, tmp_path / (name if target in (".", "./") else target)
            shutil.copytree(source, copied) if source.is_dir() else shutil.copy(source, copied)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        own = str(free.getsockname()[1])
    command, [exposed], [health] = json.loads(steps("CMD")[0]), steps("EXPOSE"), steps("HEALTHCHECK")
    assert command[command.index("--port") + 1] == exposed
    assert command[command.index("--limits") + 1] == "public"
    command = [sys.executable if part == "python" else own if part == exposed else part for part in command]
    check = json.loads(health.split("CMD ")[1])
    check = [sys.executable if part == "python" else part.replace(exposed, own) for part in check]
    program = subprocess.Popen(command, cwd=tmp_path, env={"PATH": os.environ["PATH"]}, stderr=subprocess.DEVNULL)
    try:
        is_well = functools.partial(subprocess.run, check, capture_output=True, timeout=30)
        wait(lambda: program.poll() is not None or is_well().returncode == 0, every=0.2)
        assert program.poll() is None
        with urllib.request.urlopen(f"http://127.0.0.1:{own}/health", timeout=5) as answer:
            assert json.load(answer)["status"]
    finally:
        program.terminate()
        assert program.wait(30) == 0
