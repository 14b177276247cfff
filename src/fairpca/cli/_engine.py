"""``fairpca fit`` on tables that are not held in memory, and models on disk."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import click
import pandas as pd

from fairpca.cli._columns import Columns, Roles, feature_names
from fairpca.cli._compare import Comparison, compare_moments
from fairpca.cli._inputs import Inputs
from fairpca.cli._messages import collected_notes
from fairpca.cli._options import split_names
from fairpca.cli._progress import Stages
from fairpca.cli._read import Source

_NEEDS_A_PASS = ("scheduler", "master", "categorical", "checkpoint")


def is_streamed(data: tuple[str, ...], given: dict[str, Any]) -> bool:
    """Tell whether the rows are summed in a pass, and refuse options that then have no meaning.

    Parameters
    ----------
    data : tuple of str
        Files, globs or directories.
    given : dict
        Values of the options.

    Returns
    -------
    bool
        True for several files, globs, directories, addresses, and wherever an engine is named.
    """
    one_file = len(data) == 1 and "://" not in data[0] and not _is_pattern(data[0])
    streamed = bool(data) and (given["engine"] is not None or not one_file)
    if streamed and given["out"] is not None:
        raise click.UsageError(
            "--out needs the rows in memory: write the model with --save and the rows with "
            "fairpca transform."
        )
    if given["engine"] is not None and not data:
        raise click.UsageError("--engine needs DATA: files, globs or directories.")
    if not streamed:
        for name in _NEEDS_A_PASS:
            if given[name]:
                raise click.UsageError(f"--{name} needs --engine, or several files.")
        if given["missing"] != "error":
            raise click.UsageError("--missing drop-rows needs --engine, or several files.")
    for name, engine in (("scheduler", "dask"), ("master", "spark"), ("checkpoint", "local")):
        if given[name] and (given["engine"] or "local") != engine:
            raise click.UsageError(f"--{name} belongs to --engine {engine}.")
    return streamed


def _is_pattern(path: str) -> bool:
    return os.path.isdir(path) or (not os.path.exists(path) and any(c in path for c in "*?["))


def fit_streamed(
    data: tuple[str, ...], roles: Roles, settings: dict[str, Any], given: dict[str, Any]
) -> tuple[Inputs, Comparison]:
    """Sum the rows in one pass and fit from the sums.

    Parameters
    ----------
    data : tuple of str
        Files, globs or directories.
    roles : Roles
        The columns as the user named them.
    settings : dict
        Parameters of `FairPCA`.
    given : dict
        Values of the options.

    Returns
    -------
    inputs : Inputs
        How to speak of the table; it holds no rows.
    result : Comparison
        The fair and the plain fit.
    """
    distributed = load_distributed()
    known = distributed.column_names(data, given["separator"])
    names = feature_names(known, roles)
    categorical = split_names(given["categorical"], known)
    with Stages(enabled=not given["quiet"]) as stages:
        stages.begin(f"summing {_described(data)}")

        def tell(done: int, total: int | None) -> None:
            share = f" of {total:,}" if total else ""
            stages.begin(f"summing {_described(data)}: {done:,}{share} rows")

        with collected_notes() as notes:
            moments = distributed.moments_from_files(
                data,
                roles.sensitive,
                engine=given["engine"] or "local",
                scheduler=given["scheduler"],
                master=given["master"],
                separator=given["separator"],
                # Elsewhere than on a terminal every change of the text would be a line.
                progress=tell if show_bar(given["quiet"]) else False,
                checkpoint=given["checkpoint"],
                features=[name for name in names if name not in categorical],
                categorical=categorical,
                control=roles.control,
                weight=roles.weight,
                numeric=roles.numeric,
                missing=given["missing"],
                max_cells=given["max_cells"],
            )
        stages.begin(f"fitting {moments.n_features} features")
        standardize = not given["no_standardize"]
        result = compare_moments(moments, settings, standardize=standardize, notes=notes)
    empty = pd.DataFrame(columns=list(moments.feature_names or ()))
    source = Source(None, _described(data), " ".join(data))
    return Inputs(source, roles, Columns(features=empty, sensitive=None)), result


def _described(data: tuple[str, ...]) -> str:
    return Path(data[0]).name if len(data) == 1 else f"{len(data)} paths"


def load_distributed() -> Any:
    """Import the room that reads large tables, or say what it needs.

    Returns
    -------
    module
        `fairpca.distributed`.
    """
    if importlib.util.find_spec("pyarrow") is None:
        raise click.ClickException("large tables need pyarrow: pip install 'fairpca[arrow]'")
    import fairpca.distributed

    return fairpca.distributed


def show_bar(quiet: bool) -> bool:
    """Tell whether a progress bar is of use.

    Parameters
    ----------
    quiet : bool
        Whether the user wants none.

    Returns
    -------
    bool
        True on a terminal.
    """
    return not quiet and sys.stderr.isatty()


def model_file(path: Path) -> Path:
    """Name of the file that a model is written to.

    Parameters
    ----------
    path : Path
        As the user gave it.

    Returns
    -------
    Path
        With the ending ``.npz``.
    """
    return path if path.name.endswith(".npz") else path.with_name(path.name + ".npz")


def check_model_output(path: Path, *, force: bool) -> None:
    """Refuse a model file that could not or must not be written, before computing anything.

    Parameters
    ----------
    path : Path
        Where the model is to go.
    force : bool
        Whether an existing file may be replaced.
    """
    target = model_file(path)
    if target.exists() and not force:
        raise click.ClickException(f"--save {target} exists already: use --force to replace it.")
    if not target.resolve().parent.is_dir():
        raise click.ClickException(f"--save {target}: the directory does not exist.")


def save_model(result: Comparison, path: Path, *, standardized: bool) -> None:
    """Write the fair model, with what rows need before they are projected.

    Parameters
    ----------
    result : Comparison
        The fit.
    path : Path
        Where to.
    standardized : bool
        Whether it was made on standardised features.
    """
    result.fair.save(path, standardization=result.scaling if standardized else None)
