"""``fairpca datasets``: what is present, and where to put the rest."""

from __future__ import annotations

import json

import click

from fairpca.datasets import DatasetStatus, data_folders, dataset_info, list_datasets


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Machine-readable list.")
def datasets(name: str | None, as_json: bool) -> None:
    """List data sets and whether their files are present, or describe one.

    Files are looked for in the folder FAIRPCA_DATA, then in FAIRPCA_HOME or else in the folder
    fairpca of scikit-learn's data home.
    """
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
