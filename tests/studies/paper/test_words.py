"""The experiments' texts as Markdown."""

from __future__ import annotations

import re

import pytest

from waypost.studies.paper.words import paragraphs


@pytest.mark.parametrize("word", ["1.", "12)", "-", "#", ">"])
def test_a_line_does_not_begin_like_a_list_or_a_heading(word: str) -> None:
    for before in range(100, 125):
        text = paragraphs(f"{'x' * (before // 2)} {'y' * (before - before // 2)} {word} With one seed.")
        assert not re.search(rf"^{re.escape(word)} ", text, re.MULTILINE)
        assert text.split()[2] == word


def test_names_are_not_broken_and_empty_texts_are_left_out() -> None:
    text = paragraphs("a " * 58 + "antmaze-large-diverse", "  ", "second\n  paragraph")
    assert "antmaze-large-diverse" in text
    assert text.endswith("\n\nsecond paragraph\n")
    assert max(map(len, text.splitlines())) <= 120
