"""From what was typed to the parts of a table; shared by all commands that read one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from fairpca.cli._columns import Columns, Roles, select
from fairpca.cli._progress import Stages
from fairpca.cli._read import Source, read_embedded, read_table

_ROLES = ("sensitive", "control", "numeric", "target", "keep", "features", "drop", "weight")


@dataclass(frozen=True, eq=False)
class Inputs:
    """A table, the parts of its columns, and how to speak of them.

    Parameters
    ----------
    source : Source
        The table.
    roles : Roles
        The columns as the user named them.
    columns : Columns
        The parts.
    """

    source: Source
    roles: Roles
    columns: Columns

    def heading(self, n_rows: int, units: str) -> list[str]:
        """Say what the data are, in two lines.

        Parameters
        ----------
        n_rows : int
            Rows that were used.
        units : str
            What the features are measured in.

        Returns
        -------
        list of str
            The lines.
        """
        p = self.columns.features.shape[1]
        within = f", within: {', '.join(self.roles.control)}" if self.roles.control else ""
        return [
            f"Data: {self.source.description}",
            f"{n_rows} rows, {p} feature{'s' if p > 1 else ''} ({units}), "
            f"protected: {', '.join(self.roles.sensitive)}{within}",
        ]

    def as_dict(self, n_rows: int, standardized: bool) -> dict[str, Any]:
        """Say what the data are, for machines.

        Parameters
        ----------
        n_rows : int
            Rows that were used.
        standardized : bool
            Whether the features got unit variance.

        Returns
        -------
        dict
            Name, size and columns.
        """
        parts = ("sensitive", "control", "target", "weight")
        return {
            "name": self.source.name,
            "n_rows": n_rows,
            "features": list(self.columns.features.columns),
            "standardized": standardized,
            **{name: getattr(self.roles, name) for name in parts},
        }


def roles_of(given: dict[str, Any], file: Path | None) -> Roles:
    """Gather the columns that the options name.

    Parameters
    ----------
    given : dict
        Values of the options.
    file : Path or None
        None: the embedded data, whose protected column and target are known.

    Returns
    -------
    Roles
        At least one protected column.
    """
    roles = Roles(**{name: given[name] for name in _ROLES if name in given})
    if file is None:
        roles = replace(
            roles, sensitive=roles.sensitive or ("sex",), target=roles.target or ("progression",)
        )
    if not roles.sensitive:
        raise click.UsageError("name the protected column (or columns) with --sensitive COL.")
    return roles


def open_table(file: Path | None, roles: Roles, separator: str, stages: Stages) -> Inputs:
    """Read a table and split its columns.

    Parameters
    ----------
    file : Path or None
        None: the embedded data.
    roles : Roles
        The columns as the user named them.
    separator : str
        Between the fields of a CSV file.
    stages : Stages
        Told what is being read.

    Returns
    -------
    Inputs
        The table and its parts.
    """
    stages.begin(f"reading {file.name if file else 'embedded data'}")
    source = read_table(file, separator) if file else read_embedded()
    return Inputs(source, roles, select(source.frame, roles))
