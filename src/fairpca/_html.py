"""Tables for notebooks; every text in them is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any


def html_table(
    rows: Iterable[Sequence[Any]], *, head: Sequence[str] = (), title: str = "", note: str = ""
) -> str:
    """Return a table with a line above and below it; None is a dash, numbers have four digits."""
    parts = ['<div class="fairpca">']
    if title:
        parts.append(f"<p><strong>{escape(title)}</strong></p>")
    parts.append("<table>")
    if head:
        names = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
        parts.append(f"<thead><tr>{names}</tr></thead>")
    lines = ("".join(f"<td>{_cell(value)}</td>" for value in row) for row in rows)
    parts += ["<tbody>", *(f"<tr>{line}</tr>" for line in lines), "</tbody></table>"]
    if note:
        parts.append(f"<p>{escape(note)}</p>")
    return "".join([*parts, "</div>"])


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return escape(f"{value:.4g}")
    return escape(str(value))
