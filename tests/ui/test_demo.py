"""`app.demo`, as Gradio's tools expect it."""

import subprocess
import sys

from bert_core.config import HOME

ASKED = """
import sys, app
assert not {"torch", "gradio"} & {*sys.modules}, "to import it builds nothing"
import gradio
assert isinstance(app.demo, gradio.Blocks) and app.demo is app.demo and app.demo.title == "Balcony"
assert not app.demo.is_running
assert not hasattr(app, "other")
"""


def test_the_file_of_the_app_has_its_page_as_demo_and_serves_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", ASKED], cwd=HOME, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
