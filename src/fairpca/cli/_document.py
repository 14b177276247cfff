"""The result of a fit as one JSON document."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from fairpca import __version__
from fairpca.cli._compare import Comparison


def fit_document(
    comparison: Comparison, data: dict[str, Any], options: dict[str, Any], output: str | None
) -> dict[str, Any]:
    """Gather every figure of a fit.

    Parameters
    ----------
    comparison : Comparison
        The fair and the plain fit.
    data : dict
        Name and size of the table and the parts of its columns.
    options : dict
        Parameters the fit was made with.
    output : str or None
        File that holds the reduced rows.

    Returns
    -------
    dict
        Plain Python values only.
    """
    fair, plain = comparison.fair, comparison.plain
    contrasts = fair.contrasts_
    rows = [dict(zip(contrasts, row, strict=True)) for row in zip(*contrasts.values(), strict=True)]
    for row, mean, cov in zip(
        rows, plain.contrasts_["mean_gap"], plain.contrasts_["cov_gap"], strict=True
    ):
        row["mean_gap_plain"], row["cov_gap_plain"] = mean, cov
    return {
        "fairpca": __version__,
        "command": "fit",
        "data": data,
        "options": options,
        "fair": {**_figures(fair), "n_iter": fair.n_iter_},
        "plain": _figures(plain),
        "certificate": fair.certificate_.as_dict(),
        "contrasts": rows,
        "components": fair.components_,
        "center": comparison.scaling.mean + fair.mean_ * comparison.scaling.scale,
        "scale": comparison.scaling.scale,
        "notes": comparison.notes,
        "output": output,
    }


def _figures(fitted: Any) -> dict[str, Any]:
    return {
        "variance_kept": float(fitted.explained_variance_ratio_.sum()),
        "explained_variance": fitted.explained_variance_,
        "explained_variance_ratio": fitted.explained_variance_ratio_,
        "mean_gap": fitted.mean_gap_,
        "cov_gap": fitted.cov_gap_,
    }


def to_json(document: dict[str, Any]) -> str:
    """Write a document as JSON that every reader accepts.

    Parameters
    ----------
    document : dict
        Nested values, NumPy's included.

    Returns
    -------
    str
        ASCII text; NaN and infinity, which JSON does not have, become null.

    Examples
    --------
    >>> from fairpca.cli._document import to_json
    >>> print(to_json({"gap": float("inf")}))
    {
      "gap": null
    }
    """
    return json.dumps(_plain(document), indent=2, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
