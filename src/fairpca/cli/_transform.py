"""``fairpca transform``: the rows of a file or query, projected into a file or a table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from fairpca._present import visible
from fairpca.cli._console import running
from fairpca.cli._request import check_query, csv_marks, split_names
from fairpca.tables import Database, open_query, open_table, project_into, project_table


def run_transform(model: Path, paths: tuple[str, ...], options: dict[str, Any]) -> None:
    """Project the rows of a table with a saved model."""
    source, target = _ends(paths, options)
    if options["keep"] and options["keep_all"]:
        raise click.UsageError("--keep and --keep-all exclude each other: give one of them.")
    if not model.is_file():
        raise click.ClickException(f"{model}: no such file.")
    database = Database(options["database"]) if options["sql"] or options["into"] else None
    with running(options) as (stages, _):
        stages.begin(f"writing {options['into'] or Path(target or '').name}")
        if source is None:
            table = open_query(options["sql"], database)
        else:
            table = open_table(source, **csv_marks(options))
        keep = table.names if options["keep_all"] else split_names(options["keep"], table.names)
        shared = {"keep": keep, "progress": stages}
        shared |= {name: options[name] for name in ("force", "missing", "unknown")}
        if target is None:
            project_into(table, model, database, options["into"], **shared)
        else:
            project_table(table, model, Path(target), safe_csv=options["safe_csv"], **shared)
    if not options["quiet"]:
        click.echo(visible(f"{stages.done} rows written to {target or options['into']}"))


def _ends(paths: tuple[str, ...], options: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the files to read and to write; None stands for the database."""
    wanted = [name for name, option in (("IN", "sql"), ("OUT", "into")) if not options[option]]
    if len(paths) < len(wanted):
        missing = wanted[len(paths)]
        other = {"IN": "--sql with --database", "OUT": "--into with --database"}[missing]
        raise click.UsageError(f"Missing argument '{missing}': name a file, or give {other}.")
    check_query(options, len(paths) > len(wanted))
    if len(paths) > len(wanted):
        raise click.UsageError(f"{paths[-1]!r} is one name too many: give {' and '.join(wanted)}.")
    if options["into"] and not options["database"]:
        raise click.UsageError("--into needs --database, or FAIRPCA_DATABASE in the environment.")
    files = dict(zip(wanted, paths, strict=True))
    return files.get("IN"), files.get("OUT")
