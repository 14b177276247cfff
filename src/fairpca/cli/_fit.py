"""``fairpca fit``: rows to a model, and a comparison with plain PCA."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from fairpca._choices import COMPARE, ENGINES, OBJECTIVES
from fairpca._present import visible
from fairpca.cli._compare import (
    Comparison,
    against_classifiers,
    compare,
    fit_document,
    path_document,
)
from fairpca.cli._messages import collected_notes, print_notes
from fairpca.cli._progress import Stages
from fairpca.cli._render import print_fit, to_json
from fairpca.cli._table import Asked, open_asked, read_reference
from fairpca.exceptions import DroppedRowsWarning
from fairpca.tables import check_target, moments_from_table, project_table

_MAX_FOLDED = 200  # columns of which every fold holds a matrix
_QUICK = 2000  # entries of the multipliers, contrasts × d², that are solved for in seconds


def run_fit(data: tuple[str, ...], given: dict[str, Any]) -> None:
    """Sum the rows, fit from the sums, write what was asked for and show the comparison."""
    _check_request(data, given)
    notes: list[str] = []
    with Stages(enabled=not given["quiet"]) as stages, collected_notes(notes):
        stages.begin("reading")
        asked = open_asked(data, given)
        settings = fit_settings(given, asked)
        if given["out"] is not None:
            check_target(asked.table, given["out"], force=given["force"])
        moments = _summed(asked, given, stages)
        notes += asked.encoding_notes(moments.feature_names or ())
        what = f"fitting {moments.n_samples} rows, {moments.n_features} features"
        stages.begin(what)
        result = compare(moments, settings, partial(_announce_long_solve, stages, what, settings))
        if given["delta"] is not None:
            stages.begin("ascending against classifiers")
            rows = asked.table.rows(asked.roles)
            result = against_classifiers(
                result, rows, moments, given["delta"], given["adversary"], stages
            )
        if given["save"] is not None:
            result.fair.save(_model_file(given["save"]))
        if given["out"] is not None:
            stages.begin(f"writing {given['out'].name}")
            _write_rows(result, asked, given, stages)
    if not given["no_notes"]:
        print_notes(notes)
    _show(result, asked, settings, given, notes)


def _announce_long_solve(
    stages: Stages, what: str, settings: Mapping[str, Any], d: int, n: int
) -> None:
    """Say of a solve that will take long, before it begins, what would be quicker."""
    if n * d * d > _QUICK and settings["cov_weight"] != 0:
        stages.begin(
            f"{what}: {d} components and {n} contrasts take minutes; fewer, or --cov-weight 0, "
            "are quick"
        )


def _write_rows(result: Comparison, asked: Asked, given: Mapping[str, Any], stages: Stages) -> None:
    """Write the scores; rows that were left out of the fit have been counted by then."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DroppedRowsWarning)
        project_table(
            asked.table,
            result.fair,
            given["out"],
            keep=tuple(dict.fromkeys(asked.keep + asked.target)),
            force=given["force"],
            missing=given["missing"],
            safe_csv=given["safe_csv"],
            progress=stages,
        )


def _summed(asked: Asked, given: Mapping[str, Any], stages: Stages) -> Any:
    stages.begin(f"summing {asked.name}")
    return moments_from_table(
        asked.table,
        replace(asked.roles, folds=_folds(given, asked)),
        engine=given["engine"] or ENGINES[0],
        scheduler=given["scheduler"],
        master=given["master"],
        checkpoint=given["checkpoint"],
        progress=stages,
        quiet=given["quiet"],
    )


def _check_request(data: tuple[str, ...], given: Mapping[str, Any]) -> None:
    """Refuse options that do not belong together, and a model that could not be written."""
    if given["cov_tol"] is not None and given["cov_weight"] is not None:
        raise click.UsageError("--cov-tol and --cov-weight exclude each other: give one of them.")
    if given["adversary"] is not None and given["delta"] is None:
        raise click.UsageError("--adversary says who may find out how much: give --delta as well.")
    penalties = given["cov_tol"], given["cov_weight"]
    if given["delta"] is not None and penalties != (None, None):
        raise click.UsageError("--delta excludes --cov-weight and --cov-tol: give one of them.")
    if given["famd"] and given["no_standardize"]:
        raise click.UsageError("--famd and --no-standardize exclude each other: give one of them.")
    if given["delta"] is not None and given["objective"] != OBJECTIVES[0]:
        raise click.UsageError("--delta excludes --objective: give one of them.")
    if given["keep"] and given["out"] is None:
        raise click.UsageError("--keep copies columns to a file: give --out as well.")
    if given["engine"] is not None and not data:
        raise click.UsageError("--engine needs DATA: files, globs or directories.")
    for name, engine in (("scheduler", "dask"), ("master", "spark"), ("checkpoint", "local")):
        if given[name] and (given["engine"] or "local") != engine:
            raise click.UsageError(f"--{name} needs --engine {engine}.")
    if given["out"] is not None:
        check_place("--out", given["out"], given["force"])
    if given["save"] is not None:
        check_place("--save", _model_file(given["save"]), given["force"])


def _folds(given: Mapping[str, Any], asked: Asked) -> int:
    """Return the number of folds, 0 where new rows are judged otherwise or folds cost too much."""
    wide = len(asked.roles.columns) > _MAX_FOLDED
    return 0 if wide or given["delta"] is not None else int(given["folds"])


def check_place(option: str, path: Path, force: bool) -> None:
    """Refuse to replace a file, and places that there cannot be, before any work."""
    try:
        if path.is_file() and not force:
            raise click.ClickException(
                f"{option} {path} exists already: use --force to replace it."
            )
        if path.exists() and not path.is_file() and not path.is_dir():
            raise click.ClickException(f"{option} {path} is a device or a pipe, not a file.")
        folder = path.resolve().parent
        if not folder.is_dir():
            raise click.ClickException(
                f"{option} {path}: the directory {folder.name!r} does not exist."
            )
    except (OSError, RuntimeError, ValueError) as error:  # links in a circle, too long a name
        reason = getattr(error, "strerror", None) or str(error)
        raise click.ClickException(f"{option} {path}: {reason}.") from None


def _model_file(path: Path) -> Path:
    """Name of the file that a model is written to."""
    if path.name in ("", ".."):
        raise click.ClickException(f"--save {path}: give the name of a file.")
    return path if path.name.endswith(".npz") else path.with_name(path.name + ".npz")


def fit_settings(given: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
    """Parameters of `FairPCA` for what was asked."""
    reference = read_reference(given["reference"], asked.roles.sensitive)
    default = COMPARE[0] if reference is None else "reference"
    same = (
        "objective",
        "mean_tol",
        "cov_weight",
        "cov_tol",
        "solver",
        "joint",
        "min_group_size",
        "tol",
    )
    return {
        "n_components": given["components"],
        **{name: given[name] for name in (*same, "max_iter")},
        "compare": given["compare"] or default,
        "reference": reference,
        "numeric": list(asked.roles.numeric) or None,
        "certify": not given["no_certify"],
        "missing": given["missing"],
        "missing_groups": given["missing_groups"],
        "standardize": "famd" if given["famd"] else not given["no_standardize"],
    }


def _show(
    result: Comparison,
    asked: Asked,
    settings: dict[str, Any],
    given: Mapping[str, Any],
    notes: list[str],
) -> None:
    out = None if given["out"] is None else str(given["out"])
    n_rows, names = result.plain.moments_.n_samples, list(result.plain.feature_names_in_)
    standardized = settings["standardize"]
    if given["as_json"]:
        document = {
            "data": asked.as_dict(n_rows, names, standardized),
            "options": settings,
            **fit_document(result),
            **path_document(result.fair),
            "notes": notes,
            "output": out,
        }
        click.echo(to_json("fit", document))
    elif not given["quiet"]:
        print_fit(result, asked.heading(n_rows, len(names), standardized))
        if out is not None:
            click.echo(visible(f"Reduced rows written to {out}"))
        if given["save"] is not None:
            click.echo(visible(f"Model written to {_model_file(given['save'])}"))
