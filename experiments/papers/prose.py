"""Wraps the sentences of reports, whose numbers make them of any length."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

WIDTH = 120


def paragraph(text: str) -> str:
    """One paragraph in lines of at most 120 characters."""
    return textwrap.fill(" ".join(text.split()), WIDTH, break_long_words=False, break_on_hyphens=False)


def bullets(items: Iterable[str]) -> str:
    """A Markdown list of paragraphs."""
    return "\n".join(
        textwrap.fill(
            " ".join(item.split()), WIDTH, initial_indent="- ", subsequent_indent="  ", break_long_words=False,
            break_on_hyphens=False,
        )
        for item in items
    )  # fmt: skip
