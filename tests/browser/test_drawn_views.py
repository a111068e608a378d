"""Views that are drawn from given values, without a server's answer: what lies over what, and which curves stay."""

import pytest
from browser_steps import serve_modules
from playwright.sync_api import Page, expect

from balcony.train.monitor import SERIES
from tests.ui.test_colours import contrast


@pytest.fixture(scope="module")
def page(shared: Page) -> Page:
    serve_modules(shared)
    return shared


@pytest.mark.parametrize("font", ["system-ui", "wide", "high"])
def test_no_word_of_a_map_touches_the_next_or_is_cut_off_in_any_font(page: Page, font: str) -> None:
    """A large model's map of 32 sentences, a narrow one, one of many words."""
    local = (
        'src: local("DejaVu Sans"), local("Noto Sans"), local("Arial"), local("Helvetica"), local("Noto Sans CJK JP")'
    )
    style = page.add_style_tag(
        content=f"""@font-face {{ font-family: wide; {local}; size-adjust: 150%; }}
        @font-face {{ font-family: high; {local}; ascent-override: 120%; descent-override: 50%; }}
        .gradio-container.gradio-container {{ font-family: {font}; }}"""
    )
    for rows, room, letters in [(32, 640, 36), (32, 350, 14), (9, 900, 36), (120, 600, 14)]:
        overlap, outside = page.evaluate(
            """async ([count, room, letters, font]) => {
                await document.fonts.load(`13px ${font}`);
                const { heatMap } = await import("/modules/parts/heat_map.js");
                const map = heatMap();
                map.element.style.width = `${room}px`;
                document.querySelector(".gradio-container").append(map.element);
                const rows = Array.from({ length: count }, (_, i) => `${i + 1} A sentence that is quite long`);
                map.draw({ rows, columns: rows, values: new Float32Array(count * count),
                    letters, measure: "P", largest: 44, label: "", hint: "", describe: () => [] });
                const texts = [...map.element.querySelectorAll("text")];
                const boxes = texts.slice(0, count).map((text) => text.getBBox());
                const { left, top } = map.element.querySelector("svg").getBoundingClientRect();
                const places = texts.map((text) => text.getBoundingClientRect());
                map.element.remove();
                return [Math.max(...boxes.slice(1).map((box, i) => boxes[i].y + boxes[i].height - box.y)),
                    Math.max(...places.map((place) => Math.max(left - place.left, top - place.top)))];
            }""",
            [rows, room, letters, font],
        )
        assert overlap <= 0, (rows, room)
        assert outside <= 0, (rows, room)
    style.evaluate("style => style.remove()")


def test_a_chart_that_is_drawn_in_a_hidden_tab_names_its_curves_in_full_above_them(page: Page) -> None:
    """And the losses to compare with in a line below."""
    names, below, narrow = page.evaluate(
        """async (options) => {
            const root = document.createElement("div"), page = document.querySelector(".gradio-container");
            root.hidden = true;
            page.append(root);
            (await import("/modules/frame/page.js")).setVisitor("a");
            const chart = new (await import("/modules/train/curves.js")).Curves(root, options, {});
            const until = async (done) => {
                while (!done()) await new Promise((resolve) => setTimeout(resolve, 20));
            };
            const names = () => [...root.querySelectorAll(".legendtext")].map((each) => each.textContent);
            chart.begin({ run: "x", steps: 100 });
            const unigram = { loss: 0.8, label: "always guessing by word frequency" };
            const coin = { loss: 0.7, label: "coin toss (ln 2 = 0.69)" };
            chart.change({ baselines: { unigram, coin }, points: [[1, 4, 0.7, 0.1, 0.5]] });
            await chart.chart.show();
            root.hidden = false;
            root.style.width = "800px";
            await until(() => root.querySelector(".main-svg")?.clientWidth === 800);
            const found = [names(), root.querySelector(".b-curves-frame > p").textContent];
            root.style.width = "350px";
            await until(() => names()[0] === "MLM");
            found.push(names());
            root.remove();
            return found;
        }""",
        {"series": SERIES, "example": [[0, 4.0], [9, 1.0]]},
    )
    assert names == ["Masked words (MLM)", "Next sentence (NSP)"]
    assert below == "Flat lines: always guessing by word frequency · coin toss (ln 2 = 0.69)"
    assert narrow == ["MLM", "NSP"]


@pytest.mark.parametrize(("width", "word", "lines"), [(480, "congratulations", 1), (528, "a" * 40, 4)])
def test_a_guess_is_broken_only_where_it_has_no_room(page: Page, width: int, word: str, lines: int) -> None:
    """width: of the board of guesses in a window of 1280 and of 1366 pixels."""
    found = page.evaluate(
        """async ([width, word]) => {
            const { guessBoard } = await import("/modules/train/monitor.js"), root = document.createElement("div");
            root.className = "b-view";
            root.style.width = `${width}px`;
            document.querySelector(".gradio-container").append(root);
            guessBoard(root).show({ sentences: [["Oh ", word, ", Juliet"]], words: [[word, 0.95, 1]], step: 3 });
            const lines = root.querySelector(".b-guess-word bdi").getClientRects().length;
            const isWide = root.scrollWidth > root.clientWidth;
            root.remove();
            return [lines, isWide];
        }""",
        [width, word],
    )
    assert found == [lines, False]


def test_one_step_is_a_dot_and_a_zoomed_part_of_a_run_gets_more_points(page: Page) -> None:
    dots, asked, inside = page.evaluate(
        """async (options) => {
            const root = document.createElement("div");
            document.querySelector(".gradio-container").prepend(root);
            (await import("/modules/frame/page.js")).setVisitor("a");
            const asked = [], at = (step) => [step, 4, 0.7, 0.1, 0.5];
            const between = async (first, last) => {
                asked.push([first, last]);
                return Array.from({ length: last - first + 1 }, (_, k) => at(first + k));
            };
            const { Curves } = await import("/modules/train/curves.js"), chart = new Curves(root, options, { between });
            chart.begin({ run: "x", steps: 1000 });
            chart.change({ points: [at(1)] });
            await chart.chart.show();
            const drawn = [...root.querySelectorAll(".xy .points path")];
            const dots = drawn.map((each) => each.getBoundingClientRect().width);
            chart.change({ points: [at(1), ...Array.from({ length: 99 }, (_, k) => at(10 * k + 10))] });
            await chart.chart.show();
            await window.Plotly.relayout(chart.box, { "xaxis.range[0]": 101, "xaxis.range[1]": 199 });
            while (chart.points.length < 150) await new Promise((resolve) => setTimeout(resolve, 20));
            await chart.chart.show();
            const { x } = chart.box.data.find(({ meta }) => meta.kind === "line");
            root.remove();
            return [dots, asked, x.filter((step) => step >= 101 && step <= 199).length];
        }""",
        {"series": SERIES, "example": [[0, 4.0], [9, 1.0]]},
    )
    assert len(dots) >= 2
    assert min(dots) > 3
    assert (asked, inside) == ([[101, 199]], 99)


def test_every_number_of_a_map_has_a_cell_however_small_it_is(page: Page) -> None:
    painted = page.evaluate(
        """async () => {
            const { heatMap } = await import("/modules/parts/heat_map.js"), map = heatMap();
            document.querySelector(".gradio-container").append(map.element);
            map.draw({ rows: ["a", "b"], columns: ["c", "d"], values: [-7.5, -1.01, 0.2, 3],
                level: (each) => each / 7.5, measure: "Score", label: "", hint: "", describe: () => [] });
            const image = new Image();
            image.src = map.element.querySelector("image").href.baseVal;
            await image.decode();
            const pen = document.createElement("canvas").getContext("2d");
            pen.drawImage(image, 0, 0);
            map.element.remove();
            const side = image.width / 2;
            const places = [[0.5, 0.5], [1.5, 0.5], [0.5, 1.5], [1.5, 1.5]];
            return places.map(([x, y]) => pen.getImageData(x * side, y * side, 1, 1).data[3]);
        }"""
    )
    assert painted == [255] * 4


def test_a_part_drawn_again_keeps_the_focus_and_does_not_move_the_page(page: Page) -> None:
    found = page.evaluate(
        """async () => {
            const { keepingFocus } = await import("/modules/controls.js");
            const part = document.createElement("div");
            part.style.cssText = "margin-top: 3000px; height: 500px";
            const draw = () => { part.innerHTML = "<button id='again'>Again</button>"; };
            document.body.append(part);
            draw();
            document.getElementById("again").focus();
            scrollTo(0, 0);
            keepingFocus(part, draw);
            const found = [document.activeElement.id, scrollY];
            part.remove();
            return found;
        }"""
    )
    assert found == ["again", 0]


def test_a_part_in_which_a_question_is_open_is_drawn_again_once_that_is_closed(page: Page) -> None:
    page.evaluate(
        """async () => {
            const { asksFirst, keepingFocus } = await import("/modules/controls.js");
            const part = document.createElement("div");
            part.id = "asking";
            part.append(asksFirst("Remove", { id: "ask" }, "Remove it?", () => {}));
            document.querySelector(".gradio-container").prepend(part);
            window.drawAgain = (text) => keepingFocus(part, () => part.replaceChildren(text));
        }"""
    )
    page.locator("#ask").click()
    page.evaluate("drawAgain('first'); drawAgain('last')")
    page.wait_for_timeout(100)  # in which a question that is drawn over would be gone
    page.locator("#asking").get_by_role("button", name="Cancel").click()
    expect(page.locator("#asking")).to_have_text("last")
    page.evaluate("drawAgain('at once')")
    assert page.locator("#asking").text_content() == "at once"
    page.evaluate("document.getElementById('asking').remove()")


def test_a_small_probability_has_the_digits_from_which_its_logarithm_follows(page: Page) -> None:
    probabilities = [0.95081, 0.5, 0.0123456, 4.639e-5, 1.5e-30, 0]
    shown = page.evaluate(
        'async (all) => { const { precise } = await import("/modules/parts/numbers.js"); return all.map(precise); }',
        probabilities,
    )
    assert shown[:4] == ["0.9508", "0.5000", "0.01235", "0.00004639"]
    assert shown[-1] == "0.0000"
    for p, text in zip(probabilities, shown, strict=True):
        assert float(text) == pytest.approx(p, rel=1e-3)
    pairs = [[0.0031, 0.0081], [0.451, 0.4532], [0.2, 0.9], [0.3, 0.30000001], [0.9991, 0.9994], [2e-9, 7e-9]]
    told = page.evaluate(
        """async (all) => {
            const { percents } = await import("/modules/parts/numbers.js");
            return all.map((each) => percents(...each).join(" "));
        }""",
        pairs,
    )
    told_apart = ["0.31% 0.81%", "45.1% 45.3%", "20% 90%", "30% 30%", "99.91% 99.94%", "0.00000020% 0.00000070%"]
    assert told == told_apart


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_kinds_of_marked_words_have_colours_that_can_be_told_from_the_page(page: Page, theme: str) -> None:
    found = page.evaluate(
        """async (theme) => {
            document.body.classList.toggle("dark", theme === "dark");
            const { answered } = await import("/modules/finetune/results.js"), root = document.createElement("div");
            root.className = "b-view";
            document.querySelector(".gradio-container").append(root);
            root.append(...answered({ marked: [..."abcdef"].map((kind) => ["Juliet", kind]) }));
            const colours = [...root.querySelectorAll("mark")].map((mark) => {
                mark.style.color = "var(--dot)";
                return getComputedStyle(mark).color;
            });
            const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
            const painted = colours.map((colour) => {
                pen.fillStyle = colour;
                pen.fillRect(0, 0, 1, 1);
                return [...pen.getImageData(0, 0, 1, 1).data.slice(0, 3)];
            });
            root.remove();
            document.body.classList.remove("dark");
            return painted;
        }""",
        theme,
    )
    hexadecimal = ["#" + bytes(colour).hex() for colour in found]
    assert len(set(hexadecimal)) == 6
    ground = {"light": "#ffffff", "dark": "#0f172a"}[theme]
    assert min(contrast(colour, ground) for colour in hexadecimal) > 4.5
