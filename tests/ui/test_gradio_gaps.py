"""What reaches into Gradio stands in one module, works, and can go when these tests fail."""

import ast
import inspect
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import gradio as gr
import httpx
import pytest
from gradio.state_holder import SessionState
from gradio.utils import get_upload_folder

from balcony import gradio_gaps
from balcony.gradio_gaps import Sessions, finish_document, poll_seldom
from balcony.system import temporary_folder

ROOT = Path(__file__).resolve().parent.parent.parent
GAPS = ROOT / "balcony" / "gradio_gaps.py"
OWN_MODULES = {"balcony", "bert_core"}


def trees(*folders: str) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def defined_in(folder: str) -> set[str]:
    """Names of the attributes, functions and classes that a package defines."""
    found = set()
    for _, tree in trees(folder):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
            elif isinstance(node, ast.Assign):
                found |= {each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name)}
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("self", "cls"):
                found.add(node.attr)
    return found


OWN = defined_in("balcony") | {name for name in defined_in("bert_core") if not name.startswith("_")}


def reached_into(tree: ast.Module) -> set[str]:
    """Names with an underscore at their beginning that a module takes from elsewhere, and attributes that it sets."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in ("self", "cls", "super()"):
            if node.attr.startswith("_") or isinstance(node.ctx, ast.Store | ast.Del):
                found.add(node.attr)
        elif isinstance(node, ast.keyword) and (node.arg or "").startswith("_"):
            found.add(str(node.arg))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] not in OWN_MODULES:
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            found |= {name for name in names if name.startswith("_")}
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("setattr", "delattr", "vars"):
            found |= {ast.unparse(node)} - {"vars(self)", "vars(record)", "vars(batch)", "vars(Endpoints)"}
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr"):
            name = node.args[1]
            found |= {name.value} if isinstance(name, ast.Constant) and str(name.value).startswith("_") else set()
    return {name for name in found if not (name.startswith("__") and name.endswith("__"))}


def test_no_other_module_uses_a_private_name_of_gradio_or_sets_one_of_its_attributes() -> None:
    found = {path: names for path, tree in trees("balcony") if (names := reached_into(tree) - OWN)}
    del found[ROOT / "balcony" / "__main__.py"]  # which imports gradio only by way of app.py
    assert found == {GAPS: {"_queue", "sleep_when_free", "progress_update_sleep_when_free", "state_holder"}}
    assert list(gradio_gaps.NO_LOOK_AT_ITSELF) == ["_frontend"]


@pytest.mark.parametrize(
    "code",
    [
        "demo._queue.size", "served.state_holder = 1", "launch(_frontend=False)", "from gradio._x import y",
        "vars(gr.routes)['traceback'] = 1", "getattr(event, '_data')", "setattr(gr, 'x', 1)", "gr.App.create_app = 1",
    ],
)  # fmt: skip
def test_the_list_would_have(code: str) -> None:
    assert reached_into(ast.parse(code)) - OWN


def test_nothing_is_sent_anywhere() -> None:
    """Gradio reads both when it is imported, so balcony/app.py begins with this module. They stay."""
    assert os.environ["GRADIO_ANALYTICS_ENABLED"] == "False"
    assert gr.Blocks().analytics_enabled is False
    first = next(
        line for line in (ROOT / "balcony/app.py").read_text(encoding="utf-8").splitlines() if "gradio" in line
    )
    assert first.startswith("from balcony.gradio_gaps import")


def test_files_of_a_page_are_in_a_folder_of_its_user(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Path(get_upload_folder()) == temporary_folder("gradio")
    monkeypatch.delenv("GRADIO_TEMP_DIR")
    assert Path(get_upload_folder()).name == "gradio", "for all users; when this has changed, the variable can go"


def test_the_page_starts_in_a_network_with_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradio asks its own address with httpx. When it no longer does so by way of the proxy, the variable can go."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with gr.Blocks() as demo:
        gr.Markdown("hello")
    _, address, _ = demo.launch(prevent_thread_lock=True, quiet=True)
    try:
        assert httpx.get(address).status_code == 200
        with pytest.raises(httpx.ConnectError):
            httpx.get("http://school.example")
    finally:
        demo.close()


@pytest.mark.skipif(sys.platform == "win32", reason="Gradio waits longer on Windows")
def test_the_queue_still_looks_for_work_often() -> None:
    """When it waits to be woken, or takes an option for that, `poll_seldom` can go."""
    with gr.Blocks() as demo:
        demo.queue()
    assert (demo._queue.sleep_when_free, demo._queue.progress_update_sleep_when_free) == (0.001, 0.01)
    poll_seldom(demo)
    assert demo._queue.sleep_when_free == demo._queue.progress_update_sleep_when_free == gradio_gaps.QUEUE_SECONDS


def test_launch_still_asks_its_own_page() -> None:
    """When it has no such option, NO_LOOK_AT_ITSELF can go."""
    assert inspect.signature(gr.Blocks.launch).parameters["_frontend"].default is True


def test_a_tab_with_a_name_fires_no_event_in_a_version_that_is_tested() -> None:
    """The suite passes with the version two before the pinned one. When that is above 6.29, tabs get names instead of
    OPEN_TAB."""
    major, minor = map(int, gr.__version__.split(".")[:2])
    assert (major, minor - 2) <= (6, 29)


def test_the_document_still_lacks_what_is_put_into_it() -> None:
    """When its manifest is relative and its head is what `launch` was given, `finish_document` can go."""
    with gr.Blocks() as demo:
        gr.Markdown("hello")
    _, address, _ = demo.launch(prevent_thread_lock=True, quiet=True, head="<meta name='ours'>")
    try:
        served = httpx.get(address).content
    finally:
        demo.close()
    head = served.partition(b"</head>")[0]
    assert b"ours" not in head.partition(b"<script")[0]
    assert b'<link rel="manifest" href="/manifest.json"' in head
    document = finish_document(served, "<link>").decode()
    assert '<link rel="manifest" href="manifest.json"' in document
    assert document.count("<link></head>") == 1


def test_a_session_still_begins_with_a_copy_of_the_page() -> None:
    """When it does not, `Sessions` can go."""
    with gr.Blocks() as demo:
        for number in range(50):
            gr.Textbox(str(number), label="x" * 1000)
    demo.state_session_capacity = 3
    assert len(SessionState(demo).config_values) == len(demo.blocks) == 51
    sessions = Sessions()
    sessions.set_blocks(demo)
    first, [key, *_] = sessions["a"], demo.blocks
    assert first is sessions["a"]
    assert not list(first.components)
    first[key] = gr.Textbox(visible=False, render=False)  # as for an update of its settings
    assert first[key].visible is False
    assert sessions["b"][key] is demo.blocks[key]
    for name in "cdef":
        assert sessions[name]
    assert list(sessions.session_data) == ["d", "e", "f"]
