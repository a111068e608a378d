"""Gradio's start leaves out what the page does not use, and nothing else."""

import importlib.util
import inspect
import sys

import gradio as gr
import jinja2
import pytest

from ui.quick_start import quick_classes, without_apps

OWN = "import gradio as gr\n\n\nclass Own(gr.HTML):\n    pass\n"


@pytest.mark.parametrize("is_quick", [False, True])
def test_a_component_is_defined_without_a_file_of_type_hints(is_quick, tmp_path, monkeypatch):
    (tmp_path / "own.py").write_text(OWN)
    spec = importlib.util.spec_from_file_location("own", tmp_path / "own.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "own", module)
    files = []
    if is_quick:
        with quick_classes():
            spec.loader.exec_module(module)
            files.append(inspect.getfile(pytest.Item))
    else:
        spec.loader.exec_module(module)
    assert issubclass(module.Own, gr.HTML)
    assert (tmp_path / "own.pyi").exists() != is_quick
    assert files == [inspect.getfile(pytest.Item)] * is_quick


def test_the_documentation_of_an_event_names_its_class_and_is_compiled_once():
    assert "the Textbox" in gr.Textbox.input.__doc__
    assert "the Slider" in gr.Slider.input.__doc__
    template = jinja2.Template
    with quick_classes():
        assert jinja2.Template("{{ component }}") is jinja2.Template("{{ component }}")
    assert jinja2.Template is template
    assert gr.events.Template is not template


def test_a_page_has_no_server_until_it_is_launched():
    create = gr.blocks.App.create_app
    with without_apps(), gr.Blocks() as demo:
        gr.Textbox()
        demo.queue(max_size=7)
    assert demo.app is None
    assert gr.blocks.App.create_app is create
    try:
        app, address, _ = demo.launch(prevent_thread_lock=True, quiet=True, ssr_mode=False, _frontend=False)
        assert app is demo.app
        assert address.startswith("http")
    finally:
        demo.close()
