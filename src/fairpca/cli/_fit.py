"""``fairpca fit``: a table in, a comparison with plain PCA and the reduced rows out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pandas as pd

from fairpca.cli._columns import Columns, Roles
from fairpca.cli._compare import Comparison, compare
from fairpca.cli._document import fit_document, to_json
from fairpca.cli._engine import (
    check_model_output,
    fit_streamed,
    is_streamed,
    model_file,
    save_model,
)
from fairpca.cli._fit_options import FIT_OPTIONS
from fairpca.cli._inputs import Inputs, open_table, roles_of
from fairpca.cli._messages import print_notes
from fairpca.cli._options import read_reference
from fairpca.cli._progress import Stages
from fairpca.cli._render import print_fit
from fairpca.cli._shared_options import with_options
from fairpca.cli._write import check_output, write_table

_EXAMPLES = """\b
Examples:
  fairpca fit                                     embedded data, sex protected
  fairpca fit people.csv --sensitive sex -d 3
  fairpca fit people.csv --sensitive sex --target income --cov-tol 0.05 --out reduced.csv
  fairpca fit people.parquet --sensitive sex --sensitive race --joint --control income
  fairpca fit people.csv --sensitive race --reference white --drop id,name --json
  fairpca fit people.csv --sensitive age --numeric age --features height,weight,pulse
  fairpca fit table/ --sensitive sex --engine local --checkpoint kept --save model.npz
  fairpca fit table/ --sensitive sex --engine dask --scheduler tcp://head:8786
"""


@click.command(epilog=_EXAMPLES)
@click.argument("data", nargs=-1, metavar="[DATA]...")
@with_options(FIT_OPTIONS)
def fit(data: tuple[str, ...], **given: Any) -> None:
    """Reduce DATA (.csv, .csv.gz or .parquet) to a few fair components.

    The features are standardised, the fair components are compared with as many plain principal
    components, and a certificate says how far from optimal they can be at most. Without DATA it
    runs on embedded data: scikit-learn's diabetes data, with sex protected.

    Several files, globs and directories of one table, and tables of any size with --engine, are
    summed in one pass without being held in memory.
    """
    streamed = is_streamed(data, given)
    file = Path(data[0]) if data else None
    roles = roles_of(given, file)
    _check_request(given)
    settings = _settings(given, roles)
    if given["save"] is not None:
        check_model_output(given["save"], force=given["force"])
    if streamed:
        inputs, result = fit_streamed(data, roles, settings, given)
    else:
        inputs, result = _fit_in_memory(file, roles, settings, given)
    if given["save"] is not None:
        save_model(result, given["save"], standardized=not given["no_standardize"])
    print_notes(result.notes)
    _show(result, inputs, settings, given)


def _fit_in_memory(
    file: Path | None, roles: Roles, settings: dict[str, Any], given: dict[str, Any]
) -> tuple[Inputs, Comparison]:
    out: Path | None = given["out"]
    if out is not None:
        check_output(out, force=given["force"], source=file)
    with Stages(enabled=not given["quiet"]) as stages:
        inputs = open_table(file, roles, given["separator"], stages)
        columns = inputs.columns
        stages.begin(f"fitting {len(columns.features)} rows, {columns.features.shape[1]} features")
        result = compare(columns, settings, standardize=not given["no_standardize"])
        if out is not None:
            stages.begin(f"writing {out.name}")
            write_table(_reduced(result, columns), out, force=given["force"])
    return inputs, result


def _check_request(given: dict[str, Any]) -> None:
    if given["cov_tol"] is not None and given["cov_weight"] is not None:
        raise click.UsageError("--cov-tol and --cov-weight exclude each other: give one of them.")
    if given["keep"] and given["out"] is None:
        raise click.UsageError("--keep copies columns to a file: give --out as well.")


def _settings(given: dict[str, Any], roles: Roles) -> dict[str, Any]:
    """Parameters of `FairPCA` for what was asked."""
    reference = read_reference(given["reference"], roles.sensitive)
    default = "one-vs-rest" if reference is None else "reference"
    return {
        "n_components": given["components"],
        "mean_tol": given["mean_tol"],
        "cov_weight": given["cov_weight"],
        "cov_tol": given["cov_tol"],
        "solver": given["solver"],
        "compare": given["comparison"] or default,
        "joint": given["joint"],
        "reference": reference,
        "numeric": list(roles.numeric) or None,
        "min_group_size": given["min_group_size"],
        "certify": not given["no_certify"],
        "tol": given["tol"],
        "max_iter": given["max_iter"],
    }


def _reduced(result: Comparison, columns: Columns) -> Any:
    reduced = result.reduce(columns.features)
    clash = [name for name in columns.keep.columns if name in reduced.columns]
    if clash:
        raise click.ClickException(
            f"column {clash[0]!r} has the name of a component: rename it, or do not keep it."
        )
    return pd.concat([reduced, columns.keep], axis=1)


def _show(
    result: Comparison, inputs: Inputs, settings: dict[str, Any], given: dict[str, Any]
) -> None:
    out = None if given["out"] is None else str(given["out"])
    standardized = not given["no_standardize"]
    if given["as_json"]:
        data = inputs.as_dict(result.n_rows, standardized)
        click.echo(to_json(fit_document(result, data, settings, out)))
    elif not given["quiet"]:
        units = "standardised" if standardized else "in their own units"
        print_fit(result, inputs.heading(result.n_rows, units))
        if out is not None:
            click.echo(f"Reduced rows written to {out}")
        if given["save"] is not None:
            click.echo(f"Model written to {model_file(given['save'])}")
