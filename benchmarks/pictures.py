"""Make README's animation and pictures from the page itself: python benchmarks/pictures.py

The animation, assets/animation.webp: a run of the dialogue, a word that is hidden, its guesses as the model learns, and
the heads of its attention. The pictures, docs/pictures: five tabs.
"""

import io
import time
from collections.abc import Sequence
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, ViewportSize, expect
from serving import PATIENCE, ROOT, Server, chromium, visit

SIZE: ViewportSize = {"width": 1280, "height": 720}
QUALITY = 80
MINI = {"model": "english-mini", "text": "The old man put his hand on her head.", "pair": "She closed her eyes."}
PICTURES = {  # taken after the animation's run: the tab, and what is asked there
    "train": ("Train", {}),
    "masked-words": ("Masked words", {**MINI, "hidden": [5]}),
    "attention": ("Attention", {**MINI, "hidden": [], "head": [0, 5]}),
    "step-by-step": ("Step by step", MINI),
    "fine-tune": ("Fine-tune", MINI),
}


class Film:
    """Screenshots with the milliseconds that each is shown."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.frames: list[Image.Image] = []
        self.durations: list[int] = []

    def take(self, milliseconds: int) -> None:
        """Show the page as it is now for so long."""
        self.frames.append(Image.open(io.BytesIO(self._page.screenshot())).convert("RGB"))
        self.durations.append(milliseconds)


def act(page: Page, film: Film) -> None:
    """What the animation shows."""
    film.take(1200)
    page.locator("#start").click()
    shown = 0
    while page.locator("#run-status").text_content() != "Finished":
        points = int(page.locator("#run-curves").get_attribute("data-points") or 0)
        if points > shown:
            film.take(220)
        shown = points
        time.sleep(0.15)
    page.wait_for_timeout(1500)
    film.take(1800)

    page.get_by_role("tab", name="Masked words").click()
    page.evaluate("Balcony.ask({ hidden: [] })")
    expect(page.locator("#masked-guesses li")).to_have_count(0)
    page.wait_for_timeout(1500)
    film.take(1200)
    page.locator("#question .b-word", has_text="Juliet").click()
    expect(page.locator("#masked-guesses li").first).to_be_visible()
    page.wait_for_timeout(1500)
    film.take(1600)
    go_through_time(page, film, (0.0, 0.1, 0.2, 0.35, 0.6, 1.0))

    page.get_by_role("tab", name="Attention").click()
    expect(page.locator("#attention-map .b-map svg")).to_be_visible()
    page.wait_for_timeout(2000)
    film.take(1300)
    heads = page.locator("#attention-heads [data-head]")
    for number in (2, 5):
        heads.nth(number).click()
        page.wait_for_timeout(1000)
        film.take(1100)
    go_through_time(page, film, (0.0, 0.2, 0.5, 1.0))


def go_through_time(page: Page, film: Film, fractions: Sequence[float]) -> None:
    """Move the time slider to these fractions of the run."""
    slider = page.locator("#time-slider")
    last = int(slider.get_attribute("max") or 0)
    for fraction in fractions:
        move = "(it, value) => { it.value = value; it.dispatchEvent(new Event('input')); }"
        slider.evaluate(move, round(fraction * last))
        page.wait_for_timeout(1500)
        film.take(2000 if fraction == 1 else 700)


def take_pictures(page: Page, folder: Path) -> None:
    """Write a picture of each."""
    folder.mkdir(exist_ok=True)
    for name, (tab, question) in PICTURES.items():
        button = page.get_by_role("tab", name=tab, exact=True)
        button.click()
        page.evaluate("question => Balcony.ask(question)", question)
        if name == "fine-tune":
            page.locator("#task-start").click()
            expect(page.locator("#task-status")).to_have_text("Finished")
            page.locator("#task-status").evaluate("it => it.scrollIntoView()")
        page.wait_for_timeout(5000)
        expect(button).to_have_attribute("aria-selected", "true")
        picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        picture.save(folder / f"{name}.webp", quality=QUALITY, method=6)


def main() -> None:
    """Serve the page, film it, take the pictures, and write the files."""
    expect.set_options(timeout=PATIENCE * 1000)
    with Server() as server, chromium(server) as page:
        page.set_viewport_size(SIZE)
        visit(page, server)
        page.wait_for_timeout(3000)
        film = Film(page)
        act(page, film)
        take_pictures(page, ROOT / "docs" / "pictures")
    first, *others = film.frames
    path = ROOT / "assets" / "animation.webp"
    first.save(path, save_all=True, append_images=others, duration=film.durations, loop=0, quality=QUALITY, method=6)
    print(f"{path.name}: {len(film.frames)} frames, {path.stat().st_size / 2**20:.2f} MB")


if __name__ == "__main__":
    main()
