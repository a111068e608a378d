"""Next sentence: does the second sentence follow the first?"""

from typing import Any

import gradio as gr

from bert_core.checkpoint import Checkpoint
from bert_core.probing import next_sentence
from ui.handlers import QUIET, on_error
from ui.masked_words_tab import unknown_note
from ui.page import Page, choose_sentence
from ui.turns import probing
from ui.views import view

FIRST_PAIR = ("Oh Congratulations, Juliet", "Thank you Romeo")
FOLLOWS = "The model thinks the second sentence follows the first:"
DOES_NOT = "The model thinks the second sentence does not follow the first:"
IS_PAIR = "The model thinks that this pair belongs to the class {label}:"
IS_NO_PAIR = "The model thinks that this pair does not belong to the class {label}:"
HINT = "Type or choose two sentences; the model says whether the second follows the first."


def next_sentence_tab(page: Page) -> None:
    """Lay out the tab and connect it."""
    with gr.Tab("Next sentence", elem_id="tab-next-sentence") as tab:
        with gr.Row():
            first = gr.Textbox(
                FIRST_PAIR[0], label="First sentence", lines=1, max_lines=4, elem_id="next-first", scale=3
            )
            choose_first = choose_sentence("Or choose one", "next-choose-first")
        with gr.Row():
            second = gr.Textbox(
                FIRST_PAIR[1], label="Second sentence", lines=1, max_lines=4, elem_id="next-second", scale=3
            )
            choose_second = choose_sentence("Or choose one", "next-choose-second")
        swap = gr.Button("Swap the sentences", elem_id="next-swap", size="sm")
        verdict = view("verdict", events=("submit",), elem_id="next-verdict")

    @on_error(lambda sentence: {"error": sentence})
    def judge(token: str, first: str, second: str) -> dict[str, Any]:
        if not first.strip() or not second.strip():
            return {"hint": HINT}
        return verdict_value(page.model(token).checkpoint, first, second)

    gr.on(
        [tab.select, first.change, second.change, verdict.submit],
        judge,
        [page.visitor, first, second],
        verdict,
        trigger_mode="always_last",
        **QUIET,
    )
    swap.click(lambda first, second: (second, first), [first, second], [first, second], **QUIET)
    tab.select(
        lambda token: [gr.update(choices=page.sentences(token))] * 2,
        page.visitor,
        [choose_first, choose_second],
        **QUIET,
    )
    for chosen, box in ((choose_first, first), (choose_second, second)):
        chosen.input(lambda text: text or gr.skip(), chosen, box, **QUIET)


def verdict_value(checkpoint: Checkpoint, first: str, second: str) -> dict[str, Any]:
    """The answer in words, its probability, and the probability of IsNext."""
    with probing():
        is_next = next_sentence(checkpoint, first, second)
    follows = is_next >= 0.5
    label = pair_label(checkpoint)
    yes, no = (FOLLOWS, DOES_NOT) if label == "IsNext" else (IS_PAIR, IS_NO_PAIR)
    return {
        "sentence": (yes if follows else no).format(label=label),
        "labels": [label, "NotNext" if label == "IsNext" else f"not {label}"],
        "probability": is_next if follows else 1 - is_next,
        "is_next": is_next,
        "notes": unknown_note(checkpoint, first, second),
    }


def pair_label(checkpoint: Checkpoint) -> str:
    """What class 0 of the sentence-pair head stands for: IsNext, or what the recipe's labelled pairs are."""
    corpus = (checkpoint.recipe or {}).get("corpus")
    label = corpus.get("pair_label") if isinstance(corpus, dict) else None
    return label if isinstance(label, str) else "IsNext"
