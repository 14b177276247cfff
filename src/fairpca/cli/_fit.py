"""``fairpca fit``: rows to a model, and a comparison with plain PCA."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import click
import numpy as np

from fairpca._files import check_place, npz_path
from fairpca._present import delta_request, records, visible
from fairpca.cli._console import Stages, running
from fairpca.cli._moments import read_moments
from fairpca.cli._options import check_model
from fairpca.cli._request import (
    TableRequest,
    delta_model,
    fit_settings,
    linear_model,
    parse_request,
    sum_rows,
)
from fairpca.cli._show import print_fit, to_json
from fairpca.estimators import FairPCA
from fairpca.estimators._comparison import (
    PARTS,
    expected_figures,
    fit_with_plain,
    held_out_summary,
    hold_out_summary,
)
from fairpca.exceptions import DroppedRowsWarning
from fairpca.moments import FoldedMoments
from fairpca.moments.contrasts import ContrastTable, without_small_groups
from fairpca.tables import check_target, project_table

_IN_MEMORY = 10_000_000  # numbers of a table that is read again for its extremes and units


class PlainComparison(NamedTuple):
    """A fair fit, plain PCA of the same rows, and figures of held-out rows where they are known."""

    fair: Any
    plain: FairPCA
    held_out: dict[str, Any] | None
    expected: dict[str, Any] | None = None

    def group_table(self) -> dict[str, list[Any]]:
        """Join what each group keeps by both fits; empty where all rows count alike."""
        fair, plain = getattr(self.fair, "group_variance_", None), self.plain.group_variance_
        if fair is None or plain is None:
            return {}
        return {**fair, "variance_plain": plain["variance"], "loss_plain": plain["loss"]}


def run_fit(data: tuple[str, ...], options: dict[str, Any]) -> None:
    """Sum the rows, fit from the sums, write the files and show the comparison."""
    _check_options(data, options)
    out, saved = options["out"], None
    with running(options) as (stages, notes):
        stages.begin("reading")
        share = options["hold_out"] or 0.0
        if options["moments"]:
            moments, request = read_moments(data, options, stages, notes)
            if moments.indicators is not None:  # transform must know it too
                options = {**options, "missing": "mean"}
        else:
            moments, request = _sum_table(data, options, stages, share)
            notes += request.encoding_notes(moments.feature_names or (), moments.n_samples)
        settings = fit_settings(options, request)
        result = _compare(moments, linear_model(settings, options), stages)
        if options["delta"] is not None:
            stages.begin("ascending against classifiers")
            fair = _fit_delta(result.fair, request, moments, options, stages)
            result = result._replace(fair=fair)
        if share:
            result = _measure_held_out(result, request, options, stages)
        result = result._replace(expected=_forecast(result, request, options))
        if options["save"] is not None:
            saved = result.fair.save(options["save"])
        if out is not None:
            stages.begin(f"writing {out.name}")
            _write_rows(result.fair, request, options, stages)
    _show(result, request, settings, options, notes)
    if not (options["quiet"] or options["as_json"]):
        for what, path in (("Reduced rows", out), ("Model", saved)):
            if path is not None:
                click.echo(visible(f"{what} written to {path}"))


def _sum_table(
    data: tuple[str, ...], options: Mapping[str, Any], stages: Stages, share: float
) -> tuple[Any, TableRequest]:
    """Open the table and sum its rows, by fold where held-out figures come from folds."""
    request = parse_request(data, options)
    fit_settings(options, request)  # before the rows are read
    if options["out"] is not None:
        check_target(request.table, options["out"], force=options["force"])
    stages.begin(f"summing {request.name}")
    request = replace(request, roles=replace(request.roles, hold_out=share))
    folds = 0 if share or options["delta"] is not None else int(options["folds"])
    return sum_rows(request, options, stages, folds), request


def _check_options(data: tuple[str, ...], options: Mapping[str, Any]) -> None:
    """Refuse options that do not belong together, and a model that could not be written."""
    check_model(options)
    if options["hold_out"] is not None and options["out"] is not None and not data:
        raise click.UsageError("--hold-out with --out needs DATA: files, globs or directories.")
    if options["keep"] and options["out"] is None:
        raise click.UsageError("--keep copies columns to a file: give --out too.")
    if options["engine"] is not None and not data:
        raise click.UsageError("--engine needs DATA: files, globs or directories.")
    for name, engine in (("scheduler", "dask"), ("master", "spark")):
        if options[name] and options["engine"] != engine:
            raise click.UsageError(f"--{name} needs --engine {engine}.")
    if options["out"] is not None:
        check_place(options["out"], "out", force=options["force"])
    if (save := options["save"]) is not None:
        if save.name in ("", ".."):
            raise click.ClickException(f"--save {save}: give the name of a file.")
        check_place(npz_path(save), "save", force=options["force"])


def _compare(moments: Any, fair: FairPCA, stages: Stages) -> PlainComparison:
    """Fit fair and plain components from moments, wherever the rows are."""
    stages.begin(f"fitting {moments.n_samples} rows, {moments.n_features} features")
    folded = isinstance(moments, FoldedMoments)
    plain = fit_with_plain(fair, moments.total if folded else moments)
    return PlainComparison(fair, plain, held_out_summary(fair, moments) if folded else None)


def _measure_held_out(
    result: PlainComparison, request: TableRequest, options: Mapping[str, Any], stages: Stages
) -> PlainComparison:
    """Measure both fits on the rows that were held out."""
    stages.begin("measuring held-out rows")
    roles = replace(request.roles, only_held_out=True)
    held_out = sum_rows(replace(request, roles=roles), options, stages, PARTS)
    return result._replace(held_out=hold_out_summary(result.fair, result.plain, held_out))


def _forecast(
    result: PlainComparison, request: TableRequest, options: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Say what to expect of new data; a table that fits into memory is read once more for it."""
    fair, moments = result.fair, result.plain.moments_
    is_small = moments.n_samples * moments.n_features <= _IN_MEMORY
    has_rows = request.table is not None and not (options["engine"] or options["sql"])
    if isinstance(fair, FairPCA) and is_small and has_rows:
        fair.look_at_scores(request.table.rows(request.roles))
    if request.roles.unit is None or getattr(fair, "unit_noise_", None) is not None:
        return expected_figures(fair, result.held_out)
    reason = "rows of a unit are alike, and units are counted only in tables that fit into memory"
    return {"text": f"No forecast for new data: {reason}."}


def _fit_delta(
    fair: FairPCA, request: TableRequest, moments: Any, options: Mapping[str, Any], stages: Stages
) -> Any:
    """Fit components with a limit on the difference in selection rates."""
    model = delta_model(fair.get_params(), options)
    return model.fit_sample(request.table.rows(request.roles), moments, stages)


def _write_rows(
    fair: Any, request: TableRequest, options: Mapping[str, Any], stages: Stages
) -> None:
    """Write the scores; the fit has counted the rows that are left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DroppedRowsWarning)
        project_table(
            request.table,
            fair,
            options["out"],
            keep=tuple(dict.fromkeys(request.keep + request.target)),
            progress=stages,
            held_out=request.roles if request.roles.hold_out else None,
            **{name: options[name] for name in ("force", "missing", "safe_csv")},
        )


def _show(
    result: PlainComparison,
    request: TableRequest,
    settings: dict[str, Any],
    options: Mapping[str, Any],
    notes: list[str],
) -> None:
    n_rows, names = result.plain.moments_.n_samples, list(result.plain.feature_names_in_)
    standardized = settings["standardize"]
    if options["as_json"]:
        document = {
            "data": request.as_dict(n_rows, names, standardized),
            "options": settings,
            **_document(result),
            "notes": notes,
            "output": None if options["out"] is None else str(options["out"]),
        }
        click.echo(to_json("fit", document))
    elif not options["quiet"]:
        n_held_out = (result.held_out or {}).get("n_rows", 0)
        heading = request.heading(n_rows, len(names), standardized, n_held_out)
        print_fit(*result, result.group_table(), heading)


def _document(result: PlainComparison) -> dict[str, Any]:
    """Gather every figure of a fit."""
    fair, plain, groups = result.fair, result.plain, result.group_table()
    gaps = {f"{name}_plain": plain.contrasts_[name] for name in ("mean_gap", "cov_gap")}
    document = {
        "fair": {**_figures(fair), "n_iter": fair.n_iter_},
        "plain": _figures(plain),
        "held_out": result.held_out,
        "expected": result.expected,
        "certificate": fair.certificate_.as_dict(),
        "contrasts": records(ContrastTable({**fair.contrasts_, **gaps}).without_small()),
        "components": fair.components_,
        "center": fair.mean_,
        "scale": np.ones(fair.n_features_in_) if fair.scale_ is None else fair.scale_,
    }
    if groups:
        document["groups"] = records(without_small_groups(groups))
    if fair.target_weight:
        document["target"] = {**fair.target_information_, "kept": fair.target_kept_}
    if hasattr(fair, "balance_"):
        names = ("n_nonzero", "balance", "reconstruction", "whitened_cov_gap", "correlation")
        path = records(fair.path_) if hasattr(fair, "path_") else None
        document["sparse"] = {**{name: getattr(fair, f"{name}_") for name in names}, "path": path}
    elif hasattr(fair, "path_"):
        chosen = ("penalty", "leakage", "delta", "delta_error", "delta_chance", "delta_verified")
        document["adversary"] = {
            "family": fair.family,
            "request": delta_request(fair),
            **{name: getattr(fair, f"{name}_") for name in chosen},
            "path": records(fair.path_),
        }
    return document


def _figures(fitted: Any) -> dict[str, Any]:
    return {
        "variance_kept": float(fitted.explained_variance_ratio_.sum()),
        "explained_variance": fitted.explained_variance_,
        "explained_variance_ratio": fitted.explained_variance_ratio_,
        "mean_gap": fitted.mean_gap_,
        "cov_gap": fitted.cov_gap_,
    }
