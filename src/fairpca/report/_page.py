"""A page or a model card about an audit: a dictionary becomes HTML or Markdown, escaped."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from fairpca._files import replacing, to_json
from fairpca._present import (
    interval,
    label,
    number,
    p_value,
    percent,
    points,
    share,
    visible,
    with_error,
)
from fairpca.exceptions import InvalidInputError
from fairpca.metrics._result import verdict_legend

_HOME = Path(__file__).parent
_SHADES = 6


class Picture(NamedTuple):
    """A PNG as base64, and its size in CSS pixels."""

    data: str
    width: int
    height: int


@dataclass(frozen=True, eq=False)
class AuditPage:
    """A report for people: one HTML file, a model card and the same figures as JSON.

    Made by `audit_report`, which has an example.

    Parameters
    ----------
    summary : dict
        All that the page says, in plain values.
    pictures : dict
        PNG pictures by name.
    notes : tuple of str
        What else should be said at the end.
    path : dict, optional
        Scores, figures and loadings along the path of penalties, which the slider moves along.

    See Also
    --------
    audit_report : What makes it.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.report import audit_report
    >>> U, z = np.random.default_rng(0).normal(size=(200, 2)), np.arange(200) % 2
    >>> page = audit_report(U, sensitive_features=z, effort="quick")
    >>> page.markdown().startswith("#")
    True
    """

    summary: dict[str, Any]
    pictures: Mapping[str, Picture] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    path: Mapping[str, Any] | None = None

    def html(self) -> str:
        """Return the page: self-contained, under a content policy that admits one script."""
        from markupsafe import Markup

        style, script = map(_read, ("audit.css", "explorer.js"))
        # In a block of data nothing but "<" could end the block or open another.
        path = None if self.path is None else to_json(dict(self.path)).replace("<", "\\u003c")
        contrasts = (self.summary["fit"] or {}).get("contrasts", ())
        largest = {
            name: max((row[f"{name}_before"] or 0.0 for row in contrasts), default=0.0)
            for name in ("mean_gap", "cov_gap")
        }
        return self._render(
            "audit.html.j2",
            True,
            pictures=self.pictures,
            style=Markup(style),
            style_hash=_digest(style),
            script=Markup(script),
            script_hash=_digest(script),
            path=None if path is None else Markup(path),
            explored=self.path,
            heat_max=largest,
            notes=self.notes,
        )

    def markdown(self) -> str:
        """Return a model card in Markdown, from the same figures."""
        return self._render("card.md.j2", False)

    def _render(self, template: str, escaped: bool, **values: Any) -> str:
        page = _environment(escaped).get_template(template)
        return str(page.render(s=self.summary, prose=_prose(), **values))

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the page, and its figures as JSON next to it; return the path of the page.

        Parameters
        ----------
        path : str or path
            Where to; the JSON file has the same name with ``.json`` at its end.
        """
        target = Path(path)
        if target.suffix == ".json":
            raise InvalidInputError(
                f"path={str(path)!r} is where the figures go: give a name that ends in .html.",
                parameter="path",
            )
        for place, text in ((target, self.html()), (target.with_suffix(".json"), self.json())):
            with replacing(place) as file:
                file.write_text(text, encoding="utf-8")
        return target

    def to_markdown(self, path: str | os.PathLike[str]) -> Path:
        """Write the model card; return its path.

        Parameters
        ----------
        path : str or path
            Where to.
        """
        with replacing(path) as file:
            file.write_text(self.markdown(), encoding="utf-8")
        return Path(path)

    def json(self) -> str:
        """Return all figures as JSON."""
        return to_json({**self.summary, "notes": self.notes})


def _read(name: str) -> str:
    return (_HOME / "templates" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@lru_cache
def _prose() -> dict[str, Any]:
    prose = tomllib.loads((_HOME / "audit.toml").read_text(encoding="utf-8"))
    return {**prose, "words": f"{verdict_legend()} {prose['words']}"}


@lru_cache
def _environment(escaped: bool) -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise ImportError(
            "Reports need Jinja2: install it with pip install 'fairpca[report]'.", name="jinja2"
        ) from error
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HOME / "templates"),
        autoescape=escaped,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        keep_trailing_newline=True,
    )
    environment.filters |= _FILTERS
    return environment


def _shown(value: Any) -> Any:
    """Write out what is hidden in a name; marked text is ours and stays as it is."""
    return visible(value) if type(value) is str and not value.isprintable() else value


def _heat(value: float | None, largest: float) -> str:
    """Return the class of a shade; none where there is next to nothing."""
    if not value or not largest:
        return ""
    shade = min(int(_SHADES * value / largest) + 1, _SHADES)
    return f"h{shade}" if value > 0.01 * largest else ""


def _like(entries: Sequence[Mapping[str, Any]], wanted: Mapping[str, Any]) -> Any:
    """Return the entry of the same adversary and pair, None where there is none."""
    keys = ("adversary", "pair")
    return next((e for e in entries if all(e[key] == wanted[key] for key in keys)), None)


def _contrast(entry: Mapping[str, Any]) -> str:
    return label("", entry["positive"], entry["negative"]) if entry["negative"] else "as a number"


def _markdown(value: Any) -> str:
    """Escape what Markdown or HTML would obey, and keep to one line of a table."""
    text = visible(" ".join(str(value).split()))
    return re.sub(r"([\\`*_\[\]|<>~$&#!])", r"\\\1", text)


_FILTERS: dict[str, Any] = {
    "number": number,
    "share": share,
    "percent": percent,
    "points": points,
    "pvalue": p_value,
    "right_of_100": lambda difference: round(50 + 50 * difference),
    "span": lambda ends, unit="share": interval(ends[0], ends[1], _FILTERS[unit]),
    "points_span": lambda entry: interval(entry["low"], entry["high"], _FILTERS["points"]),
    "measured": lambda held, name: with_error(held[name], held[f"{name}_error"]),
    "incomplete": lambda held: (
        not all(isfinite(v) for v in held.values() if not isinstance(v, dict))
    ),
    "like": _like,
    "heat": _heat,
    "contrast": _contrast,
    "md": _markdown,
    "count": lambda value: f"{value:,}",
    "option": lambda value: json.dumps(value, ensure_ascii=False, default=str),
}
