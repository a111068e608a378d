"""A workshop for benchmarks/app.py: a teacher and seven students, each in a browser profile of their own, do all that a
class does. Each point is a row: whether a person sees what should be seen, and the sentence that was read."""

import argparse
import shutil
import sys
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright
from playwright.sync_api import Error as PlaywrightError
from serving import CHROMIUM, CHROMIUM_FLAGS, ROOT, Server, row

sys.path.insert(0, str(ROOT / "tests" / "browser"))
import browser_steps as steps

TOKEN = "teacher-of-the-workshop"
STUDENTS = ("Ada", "Bo", "Chen", "Dora", "Emre", "Fatma", "Goro")
WORDS = ("Juliet", "Juliet", "Romeo", "you", "juliet", "friend", "Juliet")
WAIT_MS = 90_000
END = "end => document.querySelector('#run-curves').layout.xaxis2.range[1] === end"


class Workshop:
    """The pages, and a method for each point. folder: for screenshots, None for none."""

    def __init__(self, server: Server, browser: Browser, folder: Path | None) -> None:
        self.server, self.browser, self.folder = server, browser, folder
        self.teacher = self.join(f"#teacher={TOKEN}")
        self.students = [self.join() for _ in STUDENTS]
        self.ada, self.bo = self.students[:2]

    def join(self, at: str = "") -> Page:
        context = self.browser.new_context(viewport={"width": 1366, "height": 768}, accept_downloads=True)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.goto(f"http://127.0.0.1:{self.server.port}/{at}")
        expect(page.locator("#start")).to_be_enabled()
        return page

    def picture(self, name: str, *pages: Page) -> None:
        """Keep what people see now."""
        for number, page in enumerate(pages if self.folder else ()):
            page.screenshot(path=self.folder / f"{name}-{number}.png")

    def see(self, selector: str, text: str, *pages: Page) -> str:
        """The text of a part, which stands in the window of these pages, or of all students."""
        for page in pages or self.students:
            part = page.locator(selector)
            steps.expect_seen(part, text)
            expect(part).to_be_in_viewport()
        return " ".join(part.inner_text().split())

    def train(self, page: Page, count: int) -> None:
        """Train a run of a new length to its end."""
        steps.open_tab(page, "Train")
        expect(page.locator("#start")).to_be_visible()
        steps.change_setting(page, "steps", str(count))
        page.locator("#start").click()
        expect(page.locator("#run-step")).to_have_text(f"{count} of {count}")

    def warnings(self) -> str:
        """1: a refused press is answered where the person looks"""
        self.train(self.ada, 20)
        self.ada.get_by_role("button", name="Change the learning rate").click()
        self.ada.locator("#new-rate input").fill("0.01")
        self.ada.locator("#change-rate").click()
        return self.see("#messages .b-note", "pause it first", self.ada)

    def limits(self) -> str:
        """2: a lowered limit is told to all pages, and the runs of lessons are exempt"""
        steps.open_tab(self.teacher, "Class")
        most = self.teacher.locator("#class-steps")
        expect(most).not_to_have_value("")
        most.fill("50")
        most.press("Enter")
        said = self.see("#messages p:has-text('limits of this class')", "at most 50 steps")
        steps.show(self.bo, "train", lesson="memorising-and-learning", at="1")
        self.bo.locator("#lesson-next").click()
        expect(self.bo.locator("#run-step")).to_have_text("110 of 110")
        most.fill("20000")
        most.press("Enter")
        return said

    def links(self) -> str:
        """3, 4: a view of step 33 opens at step 33 on seven pages, which say that they train its run again"""
        self.train(self.teacher, 60)
        run = self.teacher.locator("#model-picker").input_value()
        steps.show(self.teacher, "masked-words", **steps.FIRST, model=run, step="33")
        expect(self.teacher.locator("#model-step")).to_have_text("step 33")
        self.teacher.locator("#class-send-view").click()
        for page in self.students:
            page.locator("#class-open").click()
        said = self.see("#link-notice", "a run here repeats the training")
        for page in self.students:
            expect(page.locator("#model-step")).to_have_text("step 33")
            expect(page.locator("#masked-guesses li").first).to_be_visible()
        return said

    def goes_on(self) -> str:
        """5: a step of a lesson shows the run that it needs; Continue lengthens the curves without a reload"""
        steps.show(self.bo, "train", lesson="memorising-and-learning", at="2")
        steps.wait_for_status(self.bo, "Finished")
        steps.open_tab(self.ada, "Train")
        steps.wait_for_status(self.ada, "Finished")
        end = int(self.ada.locator("#run-step").inner_text().split(" of ")[1]) + 100
        self.ada.get_by_label("More steps").fill("100")
        self.ada.locator("#go-on").click()
        expect(self.ada.locator("#run-step")).to_have_text(f"{end} of {end}")
        self.ada.wait_for_function(END, arg=end)
        return f"the curves end at step {end}"

    def asks_words(self) -> str:
        """6: the room guesses a hidden word, which stays covered until it stands beside the model's guesses"""
        steps.show(self.teacher, "masked-words", **steps.FIRST)
        self.teacher.locator("#class-ask").click()
        for page, word in zip(self.students, WORDS):
            page.get_by_label("Your word for mask 1").fill(word)
            page.locator("#class-guess").click()
            steps.expect_seen(page.locator(".class-histogram caption"), "guess")
        self.teacher.locator("#class-uncover").click()
        said = self.see(".class-histogram tr.is-own", "hidden", *self.students, self.teacher)
        self.picture("6-words", self.ada, self.teacher)
        self.teacher.locator("#class-end").click()
        return said

    def shares(self) -> str:
        """7: each page trains and shares its run; the board is sorted, drawn and saved"""
        steps.open_tab(self.teacher, "Class")
        for page, name in zip(self.students, STUDENTS):
            self.train(page, 61)
            steps.open_tab(page, "Class")
            page.locator("#class-name").fill(name)
            page.locator("#class-share").click()
            expect(page.locator(".class-run.is-own")).to_be_visible()
        head = self.teacher.get_by_role("columnheader", name="MLM loss")
        expect(self.teacher.locator(".class-run")).to_have_count(len(STUDENTS))
        head.get_by_role("button").click()
        expect(head).to_have_attribute("aria-sort", "ascending")
        losses = [float(text) for text in self.teacher.locator(".class-run td:nth-child(7)").all_inner_texts()]
        assert losses == sorted(losses), losses
        steps.expect_seen(self.teacher.locator("#class-curves .legend"), "Goro")
        for part in ("runs", "curves"):
            self.teacher.locator(f"#class-{part}").scroll_into_view_if_needed()
            self.picture(f"7-{part}", self.teacher, self.ada)
        with self.teacher.expect_download() as saved:
            steps.press_save(self.teacher, "#board-csv")
        assert len(Path(saved.value.path()).read_text(encoding="utf-8-sig").splitlines()) == len(STUDENTS) + 1
        return f"MLM loss {losses[0]} to {losses[-1]} in the table and in board.csv"


def workshop(options: argparse.Namespace) -> None:
    """Play all points; one that fails is a row, and the others go on."""
    expect.set_options(timeout=WAIT_MS)
    path, failed = next(filter(None, map(shutil.which, CHROMIUM)), None), []
    pace = {"headless": False, "slow_mo": 300} if options.watch else {}
    with Server(is_public=True, teacher=TOKEN) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS, **pace)
        room = Workshop(server, browser, options.pictures)
        for point in (room.warnings, room.limits, room.links, room.goes_on, room.asks_words, room.shares):
            try:
                seen = f"yes: {point()}"
            except (AssertionError, PlaywrightError) as error:
                seen = f"no: {' '.join(str(error).split())[:300]}"
                failed.append(point.__name__)
                room.picture(f"failed-{point.__name__}", room.teacher, *room.students)
            row(point.__doc__ or "", seen.replace("|", "/"), "yes")
        browser.close()
    if failed:
        raise SystemExit(f"not seen: {', '.join(failed)}")
