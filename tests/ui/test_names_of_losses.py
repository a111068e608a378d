"""A loss has one name on the page, in its sources and in its files."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_loss_has_one_name_everywhere() -> None:
    sources = [*ROOT.glob("balcony/**/*.*[sy]"), *ROOT.glob("bert_core/**/*.py"), *ROOT.glob("assets/**/*.json")]
    assert len(sources) > 100
    other = re.compile(r"(masked.word|next.sentence) loss", re.IGNORECASE)
    assert [path.name for path in sources if other.search(path.read_text(encoding="utf-8"))] == []
