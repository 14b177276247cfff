"""Pieces of the pages: tables and sections with their words."""

from __future__ import annotations

from collections.abc import Sequence

from reproduction.results import texts


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def section(name: str, *parts: str) -> str:
    """Words of a section, then its parts."""
    return "\n".join([texts()["sections"][name].lstrip(), *parts])


def kept_section(page: str, name: str) -> str:
    """Section of a page that was written before, up to the next heading of its level."""
    heading = texts()["sections"][name].lstrip().splitlines()[0]
    start = page.find(heading)
    if start < 0:
        return ""
    end = page.find("\n## ", start)
    return page[start:] if end < 0 else page[start:end]
