"""``fairpca report``: a fit, its audit, and a page about both."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from fairpca._present import visible
from fairpca.cli._audit import audit_options, read_judged
from fairpca.cli._fit import check_place, fit_settings
from fairpca.cli._messages import add_note, collected_notes, print_notes
from fairpca.cli._progress import Stages
from fairpca.cli._table import Asked, open_asked
from fairpca.estimators import FairPCA
from fairpca.metrics._budget import cut_in_a_line
from fairpca.report import audit_report


def run_report(data: tuple[str, ...], given: dict[str, Any]) -> None:
    """Read the rows once, fit, audit, and write the page, its figures and the card."""
    out, card = given["out"], given["card"]
    places = [("--out", out), ("--out", out.with_suffix(".json")), ("--card", card)]
    for option, path in places:
        if path is not None:
            check_place(option, path, given["force"])
    taken = [path.resolve() for _, path in places if path is not None]
    if len(set(taken)) < len(taken):
        raise click.UsageError(
            f"--out {out} writes {out} and {out.with_suffix('.json')}: give --out an ending other "
            "than .json, and --card a place of its own."
        )
    notes: list[str] = []
    with Stages(enabled=not given["quiet"]) as stages, collected_notes(notes):
        stages.begin("reading")
        asked = open_asked(data, given)
        stages.begin(f"reading {asked.name}")
        rows, judged = read_judged(asked, leave_out=given["leave_out_unknown"])
        notes += asked.encoding_notes(rows.feature_names or ())
        settings = None if given["as_is"] else fit_settings(given, asked)
        options = audit_options(given, asked)
        stages.begin(f"measuring {len(rows)} rows")
        page = audit_report(
            rows,
            model=None if settings is None else FairPCA(**settings),
            folds=int(given["folds"]),
            name=asked.name,
            title=given["title"] or "",
            about=_about(asked, settings or {}, options),
            progress=stages,
            **options,
            **judged,
        )
        stages.begin(f"writing {out.name}")
        page.to_html(out)
        if card is not None:
            page.to_markdown(card)
    if cut := page.summary["audit"]["cut"]:
        add_note(notes, f"cut to keep to the budget: {cut_in_a_line(cut)}.")
    if not given["no_notes"]:
        print_notes(notes)
    if not given["quiet"]:
        click.echo(visible(f"Report written to {out}, its figures to {out.with_suffix('.json')}"))
        if card is not None:
            click.echo(visible(f"Model card written to {card}"))


def _about(asked: Asked, settings: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Gather what the record says of the input, the options and the day."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "files": _digests(asked),
        "options": {**settings, **options, **asked.judged},
    }


def _digests(asked: Asked) -> list[dict[str, str]]:
    """Return the SHA-256 of every local file."""
    listing = asked.table.listing
    paths = [] if listing is None else [Path(file.path) for file in listing.files]
    found = []
    for path in paths:
        if path.is_file():
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            found.append({"name": path.name, "sha256": digest})
    return found
