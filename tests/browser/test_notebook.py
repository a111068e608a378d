"""The views for a notebook: in a frame below the cell, without a connection, in the colours of the person's theme."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from bert_core import attention, head_names, load_checkpoint, show

TEXTS = "Hello, how are you? </script><b>", "I am Romeo."
CELL = '<body style="color: rgb(1, 2, 3)"><h1 id="title">A notebook</h1>{}</body>'


@pytest.mark.parametrize("system", ["light", "dark"])
def test_attention_is_drawn_in_the_frame_alone(browser: Browser, shipped: Path, tmp_path: Path, system: str) -> None:
    checkpoint = load_checkpoint(shipped)
    maps = attention(checkpoint, *TEXTS)
    view = show(maps, head_names(checkpoint, *TEXTS))
    context = browser.new_context(offline=True, color_scheme="dark" if system == "dark" else "light")
    errors: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    (tmp_path / "notebook.html").write_text(CELL.format(view._repr_html_()), encoding="utf-8")
    page.goto((tmp_path / "notebook.html").as_uri())
    frame = page.frame_locator("iframe")
    expect(frame.locator(".b-map-word title")).to_have_text(maps.tokens * 2)
    frame.get_by_role("button", name="Layer 2, head 3").click()
    expect(frame.locator(".b-map-title")).to_have_text(re.compile("^Layer 2, head 3"))
    background = frame.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")
    assert background == {"light": "rgb(248, 250, 252)", "dark": "rgb(2, 6, 23)"}[system]
    assert frame.locator("body").evaluate("body => body.classList.contains('dark')") is (system == "dark")
    assert page.locator("h1").evaluate("title => getComputedStyle(title).color") == "rgb(1, 2, 3)"
    assert page.evaluate("[...document.querySelectorAll('style, script')].length") == 0
    assert errors == []
    context.close()
