"""Step by step: one sentence followed through the model, with the real numbers of every stage."""

import dataclasses
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor, nn

from balcony.frame.masking import mask_words, shown_mask
from balcony.frame.page import Page
from balcony.frame.page_request import PageRequest
from balcony.frame.question import TEXTS, Head, Question
from balcony.frame.tab import Tab
from balcony.parts.downloads import exporter
from balcony.parts.export import Row, python_code
from balcony.parts.notes import alone_note, pair_labels
from balcony.parts.task_input import example_of, hint_of, not_used
from balcony.server.probe_lock import probe_lock
from balcony.step_by_step.patching import LIMITS, TEXT, Carry, carry_of, less_of, patch_code, patch_rows, patch_value
from balcony.step_by_step.task_layer import (
    TASK_TEXTS,
    TaskInput,
    layer_of,
    rows_code,
    task_input,
    task_lines,
    task_value,
)
from balcony.views import view
from bert_core.data.encoding import IS_NEXT
from bert_core.data.tokenizer import MASK
from bert_core.errors import InputError
from bert_core.probes.forward import likeliest
from bert_core.probes.reading import encode_text
from bert_core.probes.stages import PARTS, Stages, carrying, follow, without_heads
from bert_core.show import packed
from bert_core.storage.checkpoint import Checkpoint
from bert_core.tasks.prediction import task_of

MOST_WORDS = 10
EMPTY = "Type or choose a sentence first."
MISSING = (
    "This model came without the output layer for this stage.",
    "No word is hidden. Click a word above: the model then predicts it, and this stage shows how.",
)
LOST = "There is no room for {:,} tokens of this text; the model does not read them."
# Key, title and explanation of each stage. balcony/step_by_step/step_by_step.js draws them, `LINES` computes them.
STAGES = (
    (
        "map",
        "Map",
        "From left to right, each line is a token on its way to the answers. Press a part to open it, a word to see "
        "what it attends to. Below: carry a state of another text into this one.",
    ),
    (
        "pieces",
        "Pieces",
        "The tokenizer cuts the text into pieces of its [[vocabulary]]. The model gets three numbers for each piece: "
        "its id, its position, and its segment (0 for the first sentence, 1 for the second).",
    ),
    (
        "embeddings",
        "Embeddings",
        "Each of the three numbers selects a learned vector. The three vectors are added. [[LayerNorm]] then shifts "
        "and scales the sum to mean 0 and variance 1, and applies a learned gain and bias.",
    ),
    (
        "projections",
        "Query, key, value",
        "In each [[head]], three learned matrices turn the token's vector into three short ones: the query is matched "
        "with the keys of all tokens; the value is what a token passes on.",
    ),
    (
        "scores",
        "Scores",
        "A row's query times a column's key: the products are added, and the sum is divided by √d, so that "
        "[[score|scores]] do not grow with the size d of a head. [[[PAD]|Padding]] would get −∞ here; one text has "
        "none.",
    ),
    (
        "weights",
        "Weights",
        "[[Softmax]] turns a row of scores into [[attention weight|weights]]: e to the power of each score, divided by "
        "their sum. Each row sums to 1.",
    ),
    (
        "context",
        "Weighted sum",
        "The head's output for this token: the values of all tokens, each times its weight, added. The six largest "
        "weights are shown.",
    ),
    (
        "joined",
        "Heads joined",
        "The outputs of all heads stand side by side and pass through a learned matrix (the projection). The "
        "[[residual]] adds the vector from before the attention, so that nothing gets lost; [[LayerNorm]] keeps the "
        "numbers in one range.",
    ),
    (
        "feed-forward",
        "Feed-forward",
        "Attention brings information from other tokens; this [[feed-forward network|network]] turns what has arrived "
        "into new features, for each token alone. In BERT it has two thirds of a layer's [[parameter|parameters]]. A "
        "learned matrix widens the vector, the activation function lets mostly positive numbers pass, and a second "
        "matrix narrows it again. The [[residual]] and [[LayerNorm]] end the layer.",
    ),
    (
        "layers",
        "All layers",
        "Each [[layer]] repeats the stages from query to feed-forward with its own weights. These are the token's "
        "vectors after the [[embedding|embeddings]] and after each layer.",
    ),
    (
        "scores-of-words",
        "Word scores",
        "The last layer's vector at [[[MASK]]] passes through a matrix, the activation function and [[LayerNorm]]. The "
        "[[score]] (logit) of a word is the product of this vector with the word's own [[embedding]], plus a bias.",
    ),
    (
        "probabilities",
        "Probabilities",
        "[[Softmax]] turns the [[score|scores]] of all words into probabilities. In training, the [[loss]] is −ln p "
        "for the hidden word; [[chance level|without any knowledge]] each of V words has 1/V, and the loss is ln V.",
    ),
    (
        "next-sentence",
        "Next sentence",
        "The last layer's vector at [[[CLS]]], or of some models the mean of all vectors, passes through the "
        "[[pooler]], a matrix and tanh. Two [[score|scores]] come out, and [[softmax]] makes them the probabilities "
        "that the second sentence follows or not.",
    ),
    ("task", "Task", ""),  # a fine-tuned model's instead of the three before; its text depends on the task
)
OF_PRETRAINING = ("scores-of-words", "probabilities", "next-sentence")
# Python for the stages, in which `found` is the answer of `follow`; h is the head and t the token, both from 0. Behind
# a line stands what it computes, where `found` has that, too.
LINES = (
    "found.tokens, found.ids, found.segments",
    "found.embeddings['word'][t] + found.embeddings['position'][t] + found.embeddings['segment'][t]",
    "checkpoint.model.bert.embeddings.LayerNorm(found.embeddings['sum'][t])  # found.states[0, t]",
    "block = checkpoint.model.bert.encoder.layer[{layer}]",
    "block.attention.self.query(found.states[{layer}, t]).view({heads}, -1)[h]  # found.layer['query'][h, t]",
    "query, key = found.layer['query'][h], found.layer['key'][h]  # (T, d)",
    "query @ key.T / query.shape[1] ** 0.5  # found.layer['scores'][h]",
    "found.layer['scores'][h].softmax(-1)  # found.layer['weights'][h]",
    "found.layer['weights'][h, t] @ found.layer['value'][h]  # found.layer['context'][h, t]",
    "found.states[{layer}, t] + found.layer['projected'][t]  # found.layer['attention_sum'][t]",
    "block.activation(found.layer['inner'][t])  # found.layer['activated'][t]",
    "found.layer['attended'][t] + found.layer['fed'][t]  # found.layer['output_sum'][t]",
)
OF_A_WORD = "found.words['logits'].softmax(-1)  # found.words['log_probabilities'].exp()"
OF_A_PAIR = "found.pair['logits'].softmax(-1)  # found.pair['probabilities']"


@dataclasses.dataclass(frozen=True)
class Selection:
    """What is followed through the stages.

    masked: with a [MASK] for each piece of a hidden word. token: the position that is shown. asked: the position of the
    [MASK] that is predicted, None without one. answer: the hidden token, None for a typed [MASK]. off, zeroed: heads
    and parts that are set to zero, those that the model has. carry: a state of another text that is carried into the
    pass. task: what a fine-tuned model reads.
    """

    masked: Question
    head: Head
    token: int
    asked: int | None
    answer: str | None
    off: tuple[Head, ...]
    zeroed: tuple[Head, ...]
    carry: Carry | None
    task: TaskInput | None

    def of(self, checkpoint: Checkpoint) -> Checkpoint:
        """The model as it is followed."""
        less = without_heads(checkpoint, self.off, self.zeroed)
        return carrying(less, *self.carry) if self.carry else less


STEPS, PATCH = "steps", "patch"  # elem_ids


def lay_out(page: Page) -> None:
    stages = [{"key": key, "title": title, "text": text} for key, title, text in STAGES]
    options = {"stages": stages, "missing": MISSING, "tasks": TASK_TEXTS}
    view("step_by_step/step_by_step", options=options, elem_id=STEPS)
    exporter(
        *(page, "this stage"),
        of=STEPS,
        elem_id="steps-download",
        name="step-by-step {stage}",
        answer=lambda asked: {STEPS: steps_value(asked.checkpoint, asked.question, listed)},
        views=(STEPS,),
        rows=steps_rows,
        code=lambda asked: steps_code(asked.checkpoint, asked.question),
    )

    def patch(asked: PageRequest) -> dict[str, Any]:
        return {PATCH: patch_value(asked.checkpoint, asked.question)}

    save = exporter(
        *(page, "the map of what comes back"),
        of=PATCH,
        elem_id="patch-download",
        name="patch by hand",
        answer=patch,
        views=(PATCH,),
        rows=patch_rows,
        code=lambda asked: patch_code(asked.checkpoint, asked.question),
        is_inside=True,
    )
    view("step_by_step/patch", options={"text": TEXT, "limits": LIMITS, "save": save}, elem_id=PATCH)
    changed = (*TEXTS, "hidden", "mask", "off", "zeroed", "place", "swaps")
    reads = (*changed, "head", "token", "choices", "row", "carried")
    page.answers.add("inputs", inputs)
    page.answer("steps", reads, (STEPS,), lambda asked: {STEPS: steps_value(asked.checkpoint, asked.question)})
    page.answer("patch", (*changed, "answers"), (PATCH,), patch)


TAB = Tab(
    "step-by-step",
    "Step by step",
    lay_out,
    hint="Click a word to hide it from the model; a hidden word becomes [MASK]. "
    "A fine-tuned model reads all words here.",
    press="hidden",
)


def inputs(asked: PageRequest, name: str, index: int) -> dict[str, Any]:
    return inputs_value(asked.checkpoint, asked.question, name, index)


def inputs_value(checkpoint: Checkpoint, question: Question, name: str, index: int) -> dict[str, Any]:
    """What a number of a stage is the sum of: inputs and weights, base64 of float32, and a bias.

    name: of a vector of the shown token that a matrix gives; "logits", of which `index` is a token's id; or "task", the
    logits of a task. Raises InputError for a number that the stages do not have.
    """
    chosen, bert = selection_of(checkpoint, question), checkpoint.model.bert
    found, (layer, head), t = followed(checkpoint, chosen), chosen.head, chosen.token
    block, numbers, d = bert.encoder.layer[layer], found.layer, found.layer["query"].shape[-1]
    own = slice(d * head, d * head + d)  # the rows of the head
    # Name: inputs, and weights (outputs, inputs) with biases.
    read: Any = bert.read_by_pooler(found.states[-1:])[0]
    products: dict[str, tuple[Any, Any]] = {
        "projected": (numbers["joined"][t], block.attention.output.dense),
        "inner": (numbers["attended"][t], block.intermediate["dense"]),
        "fed": (numbers["activated"][t], block.output.dense),
        "pooled": (read, cast(Any, bert.pooler)["dense"]),
    }
    for each, dense in block.attention.self.named_children():
        products[each] = (found.states[layer, t], SimpleNamespace(weight=dense.weight[own], bias=dense.bias[own]))
    if found.words:
        predictions = cast(Any, checkpoint.model.cls["predictions"])
        words = SimpleNamespace(weight=bert.embeddings.word_embeddings.weight, bias=predictions.bias)
        products["word_dense"] = (found.states[-1, chosen.asked], predictions.transform["dense"])
        products["logits"] = (found.words["transformed"], words)
    if name == "task" and checkpoint.head:
        _, dense, has_pooler = layer_of(checkpoint)
        vectors = found.pooled[None] if has_pooler else found.states[-1]
        at, index = divmod(index, dense.out_features)  # the logits of a token stand after those of the one before
        if 0 <= at < len(vectors):
            products["task"] = (vectors[at], dense)
    if name not in products or not 0 <= index < len(products[name][1].bias):
        raise InputError("This stage has no such number; choose another.")
    inputs, dense = products[name]
    weight = dense.weight[index].detach().float().cpu()
    return {"inputs": packed(inputs), "weights": packed(weight), "bias": dense.bias[index].item()}


def selection_of(checkpoint: Checkpoint, question: Question) -> Selection:
    """What a question selects in a model. Raises InputError for an empty or too long text."""
    if not question.text.strip():
        raise InputError(EMPTY)
    asked, answer = None, None
    task = task_input(checkpoint, question) if checkpoint.head else None
    masked, words = (question, []) if task else mask_words(checkpoint, question)
    tokens = task.row.ids if task else encode_text(checkpoint, *masked.texts).tokens
    if words:
        word = words[shown_mask(question, words)]
        asked = [i for i, token in enumerate(tokens) if token == MASK][word.mask]
        answer = word.word.pieces[0] if word.answer else None
    first = 0 if task and layer_of(checkpoint)[-1] else 1 if asked is None else asked  # where the answer is read
    token = first if question.token is None else question.token
    less = less_of(checkpoint, question)
    return Selection(
        masked,
        question.nearest_head(checkpoint),
        max(0, min(token, len(tokens) - 1)),
        asked,
        answer,
        *less,
        carry_of(without_heads(checkpoint, *less), question) if words else None,
        task,
    )


def followed(checkpoint: Checkpoint, chosen: Selection, *, whole: bool = False) -> Stages:
    """The numbers that a selection follows. whole: without anything set to zero or carried."""
    texts = (chosen.task.row.inputs,) if chosen.task else chosen.masked.texts
    with probe_lock:
        return follow(
            *(checkpoint if whole else chosen.of(checkpoint), *texts),
            layer=chosen.head[0],
            position=chosen.asked,
            attending=chosen.token,
        )


def steps_value(
    checkpoint: Checkpoint, question: Question, written: Callable[[Tensor], Any] = packed
) -> dict[str, Any]:
    """Everything that the stages of a question show. written: how a vector is written, as base64 of float32 or as a
    list. Of a fine-tuned model to which no example is given {"hint", "has_choices"}."""
    has_choices = checkpoint.head is not None and task_of(checkpoint).has_choices
    if checkpoint.head and example_of(checkpoint, question) is None:
        return {"hint": hint_of(checkpoint), "has_choices": has_choices}
    chosen, config = selection_of(checkpoint, question), checkpoint.config
    found, carried = followed(checkpoint, chosen), None
    vectors, words = vectors_of(checkpoint, chosen, found), words_shown(checkpoint, chosen, found)
    weights, attended = found.attention.max(-1)  # (L, H)
    task, notes = None, alone_note(checkpoint, question.pair)
    if chosen.task:
        task = task_value(chosen.of(checkpoint), chosen.task, chosen.token)
        vectors |= task.pop("vectors")
        notes = [*not_used(checkpoint, question), *([LOST.format(task["lost"])] if task["lost"] else [])]
    if chosen.carry:
        source, kind, *at = chosen.carry
        whose = encode_text(checkpoint, *source).tokens[at[1]] if kind == "state" else ""
        carried = {"kind": kind, "at": at, "token": whose}
    return {
        "tokens": found.tokens,
        "ids": found.ids,
        "segments": found.segments,
        "layers": config.num_hidden_layers,
        "heads": config.num_attention_heads,
        "head": chosen.head,
        "token": chosen.token,
        "eps": config.layer_norm_eps,
        "activation": config.hidden_act,
        "pooler": config.pooler,
        "strongest": torch.stack([attended, weights], -1).tolist(),  # of each layer and head, with its weight
        "vectors": {name: written(values) for name, values in vectors.items()},
        "words": words,
        "pair": {name: each.tolist() for name, each in found.pair.items()} or None,
        "labels": pair_labels(checkpoint),
        "task": task,
        "has_choices": has_choices,
        "before": whole_answers(checkpoint, chosen, words) if chosen.off or chosen.zeroed or chosen.carry else None,
        "parts": PARTS,
        "off": chosen.off,
        "zeroed": chosen.zeroed,
        "carried": carried,
        "stages": [key for key, _, _ in STAGES if key not in (OF_PRETRAINING if chosen.task else ("task",))],
        "notes": notes,
    }


def vectors_of(checkpoint: Checkpoint, chosen: Selection, found: Stages) -> dict[str, Tensor]:
    """The vectors of the stages, by name: queries, keys and values of all tokens in the head, the others of the shown
    token, of the [MASK] and of what the pooler reads."""
    numbers, (layer, head), t = found.layer, chosen.head, chosen.token
    vectors = {name: each[t] for name, each in [*found.embeddings.items(), *numbers.items()] if each.dim() == 2}
    for name, every in (("query", "queries"), ("key", "keys"), ("value", "values")):
        vectors |= {name: numbers[name][head, t], every: numbers[name][head]}
    vectors |= {"context": numbers["context"][head, t], "embedded": found.states[0, t]}
    for part, name in ((1, "input"), (3, "attended")):  # the residuals
        vectors[f"{name}_added"] = vectors[name] * float((layer, part) not in chosen.zeroed)
    vectors |= {f"after{number}": state for number, state in enumerate(found.states[:, t])}
    for name, norm in norms_of(checkpoint, layer).items():
        vectors |= {f"{name}Gain": norm.weight.detach().float().cpu(), f"{name}Bias": norm.bias.detach().float().cpu()}
    vectors |= {"read": checkpoint.model.bert.read_by_pooler(found.states[-1:])[0], "pooled": found.pooled}
    if found.words:
        vectors["last"] = found.states[-1][chosen.asked]
        vectors |= {f"word_{name}": found.words[name] for name in ("dense", "activated", "transformed")}
    return vectors


def norms_of(checkpoint: Checkpoint, layer: int) -> dict[str, nn.LayerNorm]:
    """The LayerNorms that a text passes, those of one layer among them."""
    bert, head = checkpoint.model.bert, checkpoint.model.cls["predictions"]
    block = bert.encoder.layer[layer]
    return {
        "embeddings": bert.embeddings.LayerNorm,
        "attention": block.attention.output.LayerNorm,
        "output": block.output.LayerNorm,
        "transform": head.transform["LayerNorm"],
    }


def words_shown(checkpoint: Checkpoint, chosen: Selection, found: Stages) -> dict[str, Any] | None:
    """The likeliest words with their scores, the followed answer, and its probability after each layer."""
    if not found.words:
        return None
    scores, logits = found.words["log_probabilities"], found.words["logits"]
    vocabulary = checkpoint.tokenizer
    answer = chosen.answer or likeliest(checkpoint, scores, 1)[0][0]
    shown = dict.fromkeys([token for token, _ in likeliest(checkpoint, scores, MOST_WORDS)] + [answer])
    ids = {token: vocabulary.token_to_id(token) for token in shown}
    return {
        "position": chosen.asked,
        "answer": answer,
        "hidden": chosen.answer is not None,
        "size": len(logits),
        "rank": int((scores > scores[ids[answer]]).sum()) + 1,
        "top": [[token, logits[i].item(), scores[i].exp().item()] for token, i in ids.items()],
        "ids": [*ids.values()],
        "loss": -scores[ids[answer]].item(),
        "by_layer": found.words["by_layer"][:, ids[answer]].exp().tolist(),
    }


def whole_answers(checkpoint: Checkpoint, chosen: Selection, words: dict[str, Any] | None) -> dict[str, Any]:
    """The answers of the whole model: its probability of the word that is followed, and of IsNext; or about a task."""
    if chosen.task:
        whole = task_value(checkpoint, chosen.task, chosen.token)
        return {name: whole[name] for name in ("answers", "number")}
    found = followed(checkpoint, chosen, whole=True)
    token = checkpoint.tokenizer.token_to_id(words["answer"]) if words else None
    probability = None if token is None else found.words["log_probabilities"][token].exp().item()
    return {"probability": probability, "is_next": found.pair["probabilities"][IS_NEXT].item() if found.pair else None}


def listed(vector: Tensor) -> list[float]:
    return vector.flatten().tolist()


def steps_rows(value: dict[str, Any]) -> Iterator[Row]:
    """A row for each number of each vector; those of a task are token by token."""
    for name, vector in value.get("vectors", {}).items():
        yield from ({"name": name, "index": i, "value": number} for i, number in enumerate(vector))


def steps_code(checkpoint: Checkpoint, question: Question) -> str:
    """Python code that computes the numbers of the stages."""
    chosen = selection_of(checkpoint, question)
    (layer, head), task = chosen.head, chosen.task
    rows, texts = list[str](), chosen.masked.texts_code
    if chosen.carry:
        rows = [f"checkpoint = carrying(checkpoint, {', '.join(map(repr, chosen.carry))})"]
    if task:
        rows, texts, last = [rows_code(task)], f"rows[{task.at}].inputs", task_lines(checkpoint, task)
    else:
        last = [OF_A_WORD] * (chosen.asked is not None) + [OF_A_PAIR]
    asked = "" if chosen.asked is None else f", position={chosen.asked}"
    found = f"found = follow(checkpoint, {texts}, layer={layer}, attending={chosen.token}{asked})"
    lines = [line.format(layer=layer, heads=checkpoint.config.num_attention_heads) for line in LINES]
    lines = [*rows, found, f"h, t = {head}, {chosen.token}", *lines, *last]
    return python_code(checkpoint, *lines, off=chosen.off, zeroed=chosen.zeroed)
