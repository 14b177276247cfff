"""``fairpca fit``: a table in, a comparison with plain PCA and the reduced rows out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pandas as pd

from fairpca.cli._columns import Columns, Roles
from fairpca.cli._compare import Comparison, compare
from fairpca.cli._document import fit_document, to_json
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
"""


@click.command(epilog=_EXAMPLES)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@with_options(FIT_OPTIONS)
def fit(file: Path | None, **given: Any) -> None:
    """Reduce FILE (.csv, .csv.gz or .parquet) to a few fair components.

    The features are standardised, the fair components are compared with as many plain principal
    components, and a certificate says how far from optimal they can be at most. Without FILE it
    runs on embedded data: scikit-learn's diabetes data, with sex protected.
    """
    roles = roles_of(given, file)
    _check_request(given)
    settings = _settings(given, roles)
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
    print_notes(result.notes)
    _show(result, inputs, settings, given)


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
