"""``fairpca report``: a fit, its audit, and a page about both."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from fairpca._files import check_place
from fairpca._present import visible
from fairpca.cli import check_packages
from fairpca.cli._console import running
from fairpca.cli._options import check_model
from fairpca.cli._request import (
    TableRequest,
    audit_settings,
    delta_model,
    fit_settings,
    linear_model,
    read_measured,
)
from fairpca.report import audit_report


def run_report(data: tuple[str, ...], options: dict[str, Any]) -> None:
    """Read the rows once, fit, audit, and write the page, its figures and the card."""
    check_packages("fairpca report", "jinja2", "matplotlib")
    check_model(options)
    out, card = options["out"], options["card"]
    _check_places(out, card, options["force"])
    with running(options) as (stages, notes):
        request, rows, measured = read_measured(data, options, stages, notes)
        model = None if options["as_is"] else fit_settings(options, request)
        settings = audit_settings(options, request)
        stages.begin(f"fitting and measuring {len(rows)} rows")
        page = audit_report(
            rows,
            model=_model(model, options),
            folds=int(options["folds"]),
            hold_out=options["hold_out"] or 0.0,
            name=request.name,
            title=options["title"] or "",
            about={
                "date": datetime.now(UTC).strftime("%Y-%m-%d"),
                "files": _digests(request),
                "unit": request.roles.unit,
                "options": {**(model or {}), **settings, **request.measured},
            },
            progress=stages,
            **settings,
            **measured,
        )
        stages.begin(f"writing {out.name}")
        page.to_html(out)
        if card is not None:
            page.to_markdown(card)
    if not options["quiet"]:
        click.echo(visible(f"Report written to {out}, its figures to {out.with_suffix('.json')}"))
        if card is not None:
            click.echo(visible(f"Model card written to {card}"))


def _model(settings: dict[str, Any] | None, options: dict[str, Any]) -> Any:
    """Return what to fit: nothing, or an estimator."""
    if settings is None:
        return None
    make = linear_model if options["delta"] is None else delta_model
    return make(settings, options)


def _check_places(out: Path, card: Path | None, force: bool) -> None:
    places = [out, out.with_suffix(".json")]
    for path in places:
        check_place(path, "out", force=force)
    if card is not None:
        check_place(card, "card", force=force)
        places.append(card)
    if len({path.resolve() for path in places}) < len(places):
        raise click.UsageError(
            f"--out {out} writes {out} and {out.with_suffix('.json')}: give --out an ending other "
            "than .json, and --card a file of its own."
        )


def _digests(request: TableRequest) -> list[dict[str, str]]:
    """Return the SHA-256 of every local file."""
    files = request.table.files
    paths = [] if files is None else [Path(part.path) for part in files.parts]
    digests = []
    for path in paths:
        if path.is_file():
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            digests.append({"name": path.name, "sha256": digest})
    return digests
