"""Texts as people have them: what the reader guesses is said, and so is what is no prose."""

import pytest

from bert_core.data.corpus import Corpus


def read(text, **options):
    return Corpus.from_bytes(text.encode(), **options)


def said(text, note):
    return any(each.startswith(note) for each in read(text).notes)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (
            "1\n00:00:01,000 --> 00:00:03,500\nWhere were you?\n\n2\n00:00:04,000 --> 00:00:05,500\nAt home.\n",
            "subtitles",
        ),
        ("<!DOCTYPE html>\n<html><body><p>One.</p>\n<p>Two.</p></body></html>\n", "HTML"),
        ('{"text": "Hello there."}\n{"text": "How are you?"}\n', "JSON"),
        ('[{"text": "Hello there."},\n{"text": "How are you?"}]\n', "JSON"),
        ("{\\rtf1\\ansi Hello there.\\par Next line.}\n", "RTF"),
        ("\\documentclass{article}\n\\begin{document}\nHello there.\n\\end{document}\n", "LaTeX"),
        (
            "The Project Gutenberg eBook of Fables\n\n*** START OF THIS EBOOK ***\n\nA fox ran.\n",
            "a book of Project Gutenberg",
        ),
        ("I liked it.<br /><br />Much.\nIt was long.\n", "HTML"),
        ('<doc id="1" url="x">\nHello there.\n</doc>\n', "XML"),
        ('review,sentiment\n"It was good, and long.",pos\n', "CSV"),
        ("[01.03.21, 18:03:05] Anna: Hi!\n[01.03.21, 18:04:11] Tom: Hello.\n", "a chat"),
        ("3/1/21, 6:03 PM - Anna: Hi!\n3/1/21, 6:04 PM - Tom: Hello.\n", "a chat"),
        ("[14:00] <anna> Hi!\n[14:01] <tom> Hello.\n", "a chat"),
        ("2021-03-12T14:00:11Z anna: Hi!\n2021-03-12T14:00:15Z tom: Hello.\n", "a chat"),
        ("[00:12.50]You are the sun\n[00:15.00]I am the moon\n", "subtitles"),
        ("It was &quot;good&quot;.\nIt&#39;s over.\n", "HTML"),
        ('<mediawiki xmlns="x">\n<page>\nHello there.\n</page>\n', "XML"),
        ("The [[harbour|port]] is old.\nIt is {{convert|3|km}} away.\n", "the markup of a wiki"),
        ('["Hello there.",\n"How are you?"]\n', "JSON"),
        ("Größe;Text\n3;Hallo du.\n", "CSV"),
        ("Review Text,Review Rating\nIt was good.,5\n", "CSV"),
        ("---\ntitle: Fables\n---\nA fox ran.\n", "Markdown with settings above it"),
        ("From anna@x.org Mon Mar 1 10:00:00 2021\nSubject: Hello\n\nHow are you?\n", "a mailbox"),
    ],
)
def test_a_text_with_marks_of_a_format_is_named(text, form):
    assert said(text, f"This looks like {form}: what is not its text is read as words too; save the text alone.")


def test_wikitext_is_named():
    text = " \n = Old lobster = \n \n The lobster is blue . It lives in the sea . \n \n = = Size = = \n"
    assert said(
        text, "This looks like WikiText, and its headings are read as sentences too; --kind wikitext leaves them out."
    )
    assert not said("Rules = Good =\nHello there .\nHow are you ?\n", "WikiText")


@pytest.mark.parametrize(
    "text",
    [
        "I read Project Gutenberg.\nIt is good.\n",
        "Hello, world\nYes.\n",
        "你好,世界\n再见,朋友\n",
        "안녕하세요,저는 민수입니다\n반갑습니다\n",
        "hello,my name is anna\nnice to meet you\n",
        "On 3/1/21 we met.\n",
    ],
)
def test_a_text_that_has_no_such_form_is_not_named(text):
    assert not said(text, "This looks like")


def test_sentences_of_marks_alone_are_counted():
    assert said("One.\n---\nTwo.\n***\nThree.\n1\n2\n", "Sentences of digits and marks alone: 4.")
    assert read("One.\nTwo.\n\nThree 4.\n").notes == ()


def test_lines_with_several_sentences_are_said_to_stay_whole():
    note = "Some lines have several sentences, and each line is read as one; --kind documents would divide them."
    assert said("One here. And two.\nThree.\nFour. Five.\n", note)
    assert not any("several" in each for each in read("One. Two. Three.\n", kind="lines").notes)


@pytest.mark.parametrize("text", ["The old har-\nbour was full.\nThe cap-\ntains drank in the tav-\nerns.\n"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_hyphens_at_the_ends_of_narrow_lines_are_doubted(text, end):
    assert said(text.replace("\n", end), "Each line is read as a sentence. If the lines are parts of longer sentences")


def test_labelled_pairs_are_found_as_the_readme_says():
    corpus = read("hello my friend\thow are you\t1\nwe went home\tit was late\t0\n")
    assert corpus.labels == [True, False]
    assert "Each line has two texts and a label" in corpus.notes[0]


def test_other_columns_are_named():
    assert said("hello my friend\tpos\nwe went home\tneg\n", "Lines with tabs are read as one sentence each")


@pytest.mark.parametrize(
    "text", ["Caf\ufffd is open.\nIt\ufffds fine.\n", "CafÃ© dâ€™Or is open.\nHow is it?\n", "It\x92s here.\nIs it?\n"]
)
def test_damaged_characters_are_counted(text):
    assert said(text, "Characters that were damaged before, such as ")
    assert any("damaged" in note for note in Corpus.from_text(text).notes)


def test_portuguese_capitals_are_not_damaged():
    assert not said("Ela disse «ATÉ AMANHû.\nUMA MAÇÃ\xa0VERDE.\n", "Characters that were damaged")


def test_lines_below_a_comment_stay_sentences():
    lines = ["# A song", "the moon is up", "the fields are still", "the river sings"]
    assert read("\n".join(lines)).sentences == lines


def test_items_of_a_markdown_list_are_not_joined():
    corpus = read("# Things\n\nWe need\nthese:\n- a loaf of bread\n- two eggs,\n  boiled\n1. a pan\n2. some oil\n")
    assert corpus.sentences == ["We need these:", "- a loaf of bread", "- two eggs, boiled", "1. a pan", "2. some oil"]


def test_a_markdown_text_without_blank_lines_is_read_in_parts():
    corpus = read("# Words\n\n" + "a line without a mark\n" * 2500)
    assert len(corpus.sentences) == 3


def test_a_markdown_text_begins_documents_at_its_headings():
    corpus = read("# Notes\n\nSome **bold** text. It goes on\nhere.\n\n---\n\n## Next\n\nWe stop.\n")
    assert [list(document) for document in corpus.documents] == [["Some bold text.", "It goes on here."], ["We stop."]]
    assert "Headings left out: 2." in corpus.notes
    assert "Marks of Markdown left out: 3." in corpus.notes
    assert any(note.startswith("Lines joined to the next one") for note in corpus.notes)
