"""``fairpca reproduce`` and ``fairpca datasets``: the paper's tables and figures, and its data."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from fairpca.cli._progress import Stages
from fairpca.datasets import DatasetStatus, data_folders, dataset_info, list_datasets


def run_reproduce(names: tuple[str, ...], given: dict[str, Any]) -> None:
    """Compute what was asked for and print the files written."""
    # The list of data sets need not wait for it.
    from fairpca.experiments import Options, run
    from fairpca.report import draw_figures, write_report

    out: Path = given["out"]
    options = Options(splits=given["splits"] or (1 if given["quick"] else 5), quick=given["quick"])
    try:
        with Stages(enabled=not given["quiet"], delay=0.0) as stages:
            jobs = given["jobs"] or os.cpu_count() or 1
            files = run(names, options, out, jobs=jobs, progress=stages, started=stages.begin)
    except KeyboardInterrupt:
        click.echo(f"fairpca: stopped; the same command goes on from the cells in {out}.", err=True)
        raise
    files += draw_figures(out)
    files.append(write_report(out, given["report"] or out / "reproduction.md"))
    for path in files:
        click.echo(str(path))


def run_datasets(name: str | None, as_json: bool) -> None:
    """List the data sets, or describe one."""
    if name is not None:
        info = dataset_info(name)
        click.echo(info.description)
        click.echo(f"File: {info.file}\nSHA-256: {info.sha256}")
        return
    statuses = list_datasets()
    if as_json:
        click.echo(json.dumps([_as_dict(status) for status in statuses], indent=2))
        return
    width = max(len(status.name) for status in statuses)
    for status in statuses:
        shape = f"{status.info.rows:>6} × {len(status.info.features):<3}"
        click.echo(f"{status.name:<{width}}  {shape}  {_where(status)}")
    click.echo("looked in: " + ", ".join(str(folder) for folder in data_folders()), err=True)


def _where(status: DatasetStatus) -> str:
    if status.path is not None:
        return "present"
    hint = "from OpenML on demand, or " if status.fetchable else ""
    return f"missing: {hint}put it at <FAIRPCA_DATA>/{status.info.file}"


def _as_dict(status: DatasetStatus) -> dict[str, object]:
    return {
        "name": status.name,
        "title": status.info.title,
        "rows": status.info.rows,
        "features": len(status.info.features),
        "sensitive": list(status.info.sensitive),
        "target": status.info.target,
        "targets": [option.name for option in status.info.targets],
        "licence": status.info.licence,
        "sha256": status.info.sha256,
        "file": status.info.file,
        "present": status.present,
        "openml": None if status.info.openml is None else status.info.openml.data_id,
    }
