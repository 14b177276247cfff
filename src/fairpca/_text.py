"""Names from data as text that terminals, pages and pictures show instead of obeying."""

from __future__ import annotations

import unicodedata

_HIDDEN = {"Cc", "Cs", "Zl", "Zp"}
_TURNING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def visible(text: str) -> str:
    r"""Write out what a terminal would obey instead of show.

    >>> from fairpca._text import visible
    >>> visible("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        repr(mark)[1:-1]
        if unicodedata.category(mark) in _HIDDEN or unicodedata.bidirectional(mark) in _TURNING
        else mark
        for mark in text
    )
