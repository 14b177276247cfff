"""``fairpca transform``: the rows of a file or query, projected into a file or a table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from fairpca._present import visible
from fairpca.cli._messages import collected_notes, print_notes
from fairpca.cli._progress import Stages
from fairpca.cli._table import check_query, split_names
from fairpca.tables import Database, Table, open_query, open_table, project_into, project_table


def run_transform(model: Path, paths: tuple[str, ...], given: dict[str, Any]) -> None:
    """Project the rows of a table with a saved model."""
    source, target = _ends(paths, given)
    if given["keep"] and given["keep_all"]:
        raise click.UsageError("--keep and --keep-all exclude each other: give one of them.")
    if not model.is_file():
        raise click.ClickException(f"{model}: no such file.")
    database = Database(given["database"]) if given["sql"] or given["into"] else None
    notes: list[str] = []
    with Stages(enabled=not given["quiet"]) as stages, collected_notes(notes):
        stages.begin(f"writing {given['into'] or Path(target or '').name}")
        if source is None:
            table = open_query(given["sql"], database)
        else:
            table = open_table(source, separator=given["separator"])
        shared = _shared_options(table, given)
        if target is None:
            project_into(table, model, database, given["into"], progress=stages, **shared)
        else:
            safe = {"kept_first": True, "safe_csv": given["safe_csv"]}
            project_table(table, model, Path(target), progress=stages, **safe, **shared)
    if not given["no_notes"]:
        print_notes(notes)
    if not given["quiet"]:
        click.echo(visible(f"{stages.done} rows written to {target or given['into']}"))


def _shared_options(table: Table, given: Mapping[str, Any]) -> dict[str, Any]:
    keep = table.names if given["keep_all"] else split_names(given["keep"], table.names)
    same = ("force", "missing", "unknown")
    return {"keep": keep, **{name: given[name] for name in same}}


def _ends(paths: tuple[str, ...], given: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the files to read and to write; None stands for the database."""
    wanted = [name for name, option in (("IN", "sql"), ("OUT", "into")) if not given[option]]
    if len(paths) < len(wanted):
        missing = wanted[len(paths)]
        other = {"IN": "--sql with --database", "OUT": "--into with --database"}[missing]
        raise click.UsageError(f"Missing argument '{missing}': name a file, or give {other}.")
    check_query(given, len(paths) > len(wanted))
    if len(paths) > len(wanted):
        raise click.UsageError(f"{paths[-1]!r} is one name too many: give {' and '.join(wanted)}.")
    if given["into"] and not given["database"]:
        raise click.UsageError("--into needs --database, or FAIRPCA_DATABASE in the environment.")
    found = dict(zip(wanted, paths, strict=True))
    return found.get("IN"), found.get("OUT")
