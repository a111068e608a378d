"""Other words in the place of one word of a text, and the answers that are compared."""

import dataclasses

from balcony.frame.masking import MaskedWord, mask_words, maskable, shown_mask
from balcony.frame.question import Question
from bert_core.data.tokenizer import MASK
from bert_core.errors import InputError
from bert_core.probes.masked_words import fill_mask
from bert_core.probes.reading import Word, unknown_words
from bert_core.storage.checkpoint import Checkpoint

NO_PLACE = "All words are hidden; click one to show it, so that others can stand in its place."
MOST_SWAPS, MOST_ANSWERS = 30, 4
# Of a model that knows them: in the place of one of these, all of them; and of the answers, both.
PERSONS = ("doctor", "nurse", "teacher", "soldier", "farmer", "king", "queen", "john", "mary")
PRONOUNS = ("he", "she")


@dataclasses.dataclass(frozen=True)
class Swap:
    """What stands in whose place. places: the words that are seen, by their numbers. place: the one that is replaced.
    words: that stand there in turn. answers: that are rated."""

    places: dict[int, Word]
    place: int
    words: tuple[str, ...]
    answers: tuple[str, ...]


def chosen_swap(checkpoint: Checkpoint, question: Question, words: list[MaskedWord]) -> Swap:
    """What the question asks for; where it says nothing, an example: known persons in the place of a person, else the
    model's own guesses there. Raises InputError where all words are hidden, and for too long lists."""
    number, seen = shown_mask(question, words), maskable(checkpoint, question)
    places = {i: word for i, word in enumerate(seen) if i not in question.hidden}
    if not places:
        raise InputError(NO_PLACE)
    here = words[number].word.sentence
    first = min(
        places,
        key=lambda i: (places[i].text.lower() not in PERSONS, places[i].sentence != here, -len(places[i].text)),
    )
    place = question.place if question.place in places else first
    word = places[place]

    def guesses(of: Question, at: int) -> list[str]:
        found, asked = mask_words(checkpoint, of)
        mask = next(each.mask for each in asked if each.index == at) if at >= 0 else asked[number].mask
        tokens = (token for token, _ in fill_mask(checkpoint, *found.texts)[mask])
        return [token for token in tokens if not token.startswith(("##", "["))]

    swaps, answers = question.swaps, question.answers
    if swaps is None and word.text.lower() in PERSONS:
        swaps = tuple(each for each in PERSONS if not unknown_words(checkpoint, each))
    elif swaps is None:
        hidden = dataclasses.replace(question, hidden=tuple(sorted({*question.hidden, place})))
        # A model without capitals guesses the word itself in small letters.
        others = (guess for guess in guesses(hidden, place) if guess.lower() != word.text.lower())
        swaps = tuple(dict.fromkeys([word.text, *others]))
    if answers is None:
        likely = guesses(question, -1)[:2]
        rated = PRONOUNS if set(likely) & set(PRONOUNS) else likely
        answers = tuple(dict.fromkeys(filter(None, (question.guess.strip(), *rated))))
    for texts, most in ((swaps, MOST_SWAPS), (answers, MOST_ANSWERS)):
        if len(texts) > most:
            raise InputError(f"This list has {len(texts):,} words; the view shows {most}. Remove some.")
    return Swap(places, place, swaps, answers)


def swapped(checkpoint: Checkpoint, question: Question, place: int, word: Word, other: str) -> Question:
    """The question with another text in the place of a word; the hidden words stay hidden."""
    if MASK in other:
        raise InputError("The list has [MASK]; write only words that are to stand in the text.")
    name = ("text", "pair")[word.sentence]
    source = getattr(question, name)
    edited = dataclasses.replace(question, **{name: source[: word.start] + other + source[word.end :]})
    added = len(maskable(checkpoint, edited)) - len(maskable(checkpoint, question))
    return dataclasses.replace(edited, hidden=tuple(i + added * (i > place) for i in question.hidden))
