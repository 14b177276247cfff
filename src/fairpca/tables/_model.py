"""A fitted model applied to Arrow batches, wherever they come from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from fairpca._choices import MISSING, UNKNOWN
from fairpca._models import ModelFile, read_model_file
from fairpca.exceptions import InvalidInputError
from fairpca.linalg import project
from fairpca.rows._checks import find_missing, infinite_error
from fairpca.tables._kernel import absent, distinct, level_text, numbers
from fairpca.tables._roles import decoded, is_number

AnyModel: TypeAlias = Any
"""A fitted FairPCA or the path of a model file."""


@dataclass(frozen=True, eq=False)
class Weights:
    """What is left of a model for projecting rows in their own units."""

    features: tuple[str, ...]  # indicators (column=value) included
    mean: Any  # (p,)
    components: Any  # (d, p)
    scale: Any  # (d,), or None
    output_names: tuple[str, ...]
    missing: str = MISSING[0]  # what the model does where a feature is missing

    def bind(
        self, schema: pa.Schema, missing: str | None = None, unknown: str = UNKNOWN[0]
    ) -> Projection:
        """Find the features among the columns of a table; `missing` is the model's unless given.

        A model that was fitted with "drop-rows" scores every row, as its `transform` does.
        """
        plain: list[tuple[int, str]] = []
        indicators: dict[str, dict[str, int]] = {}
        for index, feature in enumerate(self.features):
            if feature in schema.names:
                kind = schema.field(feature).type
                if not is_number(kind):
                    raise InvalidInputError(
                        f"column {feature!r} is {kind}, but the model knows it as a number."
                    )
                plain.append((index, feature))
                continue
            column, level = _indicator(feature, schema)
            indicators.setdefault(column, {})[level] = index
        imputes = missing is None and self.missing == "drop-rows"
        missing = "mean" if imputes else missing or self.missing
        return Projection(self, tuple(plain), indicators, missing, unknown, imputes)


@dataclass(frozen=True, eq=False)
class Projection:
    """A model bound to the columns of a table."""

    weights: Weights
    plain: tuple[tuple[int, str], ...]  # place and name of the features that are columns
    indicators: dict[str, dict[str, int]]  # place of each known value of a categorical column
    missing: str
    unknown: str
    says_imputed: bool = False  # whether rows that lack a feature are counted and reported

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns to read."""
        return (*(name for _, name in self.plain), *self.indicators)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the component columns."""
        return self.weights.output_names

    def complete(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """Rows that have every feature, where others are to be dropped; and how many lack one."""
        if self.missing != "drop-rows" and not self.says_imputed:
            return batch, 0
        incomplete = np.zeros(batch.num_rows, dtype=bool)
        for name in self.columns:
            incomplete |= absent(batch.column(name))
        drops = self.missing == "drop-rows" and incomplete.any()
        return batch.filter(pa.array(~incomplete)) if drops else batch, int(incomplete.sum())

    def scores(self, batch: pa.RecordBatch) -> Any:
        """Scores of the rows of a batch; missing values are refused, or count as the mean."""
        weights = self.weights
        matrix = np.zeros((len(weights.features), batch.num_rows))
        for index, name in self.plain:
            matrix[index] = numbers(decoded(batch.column(name)))
        for name, places in self.indicators.items():
            column = batch.column(name)
            codes = _places(column, name, places, self.unknown)
            known = np.flatnonzero(codes >= 0)
            matrix[codes[known], known] = 1.0
            missing = absent(column)
            for place in places.values() if missing.any() else ():
                matrix[place, missing] = np.nan
        if self.missing == "mean":
            np.copyto(matrix, weights.mean[:, None], where=np.isnan(matrix))
        if not np.isfinite(matrix).all():
            raise self._refusal(batch)
        return project(matrix.T, weights.mean, weights.components, weights.scale)

    def _refusal(self, batch: pa.RecordBatch) -> InvalidInputError:
        """Say what is missing in the rows of a batch, or else which column is infinite."""
        masks = (("", name, absent(batch.column(name))) for name in self.columns)
        report, _ = find_missing(batch.num_rows, masks)
        if report.counts and self.missing != "mean":
            return report.error()
        columns = ((name, numbers(decoded(batch.column(name)))) for _, name in self.plain)
        return infinite_error(next(n for n, x in columns if np.isinf(x).any()), "features")


def read_model(model: AnyModel) -> Weights:
    """Take what is needed for projecting rows from a fitted model or its file."""
    if isinstance(model, str | os.PathLike):
        model = read_model_file(model)
    if isinstance(model, ModelFile):
        kind, parameters, state = model
        whiten, missing = parameters["whiten"], parameters.get("missing", MISSING[0])
    else:
        kind, state = type(model).__name__, dict(vars(model))
        whiten = getattr(model, "whiten", False)
        missing = getattr(model, "missing", MISSING[0])
    _check_fitted(kind, state)
    mean, components = state["mean_"], state["components_"]
    if state.get("scale_") is not None:
        components = components / state["scale_"]
    deviation = np.sqrt(state["explained_variance_"])
    return Weights(
        tuple(map(str, state["feature_names_in_"])),
        mean,
        components,
        np.where(deviation > 0.0, deviation, 1.0) if whiten else None,
        tuple(f"{kind.lower()}{index}" for index in range(len(components))),
        missing,
    )


def _check_fitted(kind: str, state: Mapping[str, Any]) -> None:
    if "components_" not in state:
        raise InvalidInputError("the model is not fitted: call fit or fit_moments first.")
    if "mean_" not in state:
        raise InvalidInputError(
            f"the model is a {kind}, whose components are not directions of the features: use its "
            "transform method."
        )
    if "feature_names_in_" not in state:
        raise InvalidInputError(
            "the model does not know the names of its features: fit it to a table with names."
        )


def _indicator(feature: str, schema: pa.Schema) -> tuple[str, str]:
    """Column and value of an indicator feature."""
    columns = [name for name in schema.names if feature.startswith(f"{name}=")]
    if len(columns) > 1:
        raise InvalidInputError(
            f"the feature {feature!r} can be read as a value of any of {columns}: rename the "
            "columns."
        )
    if not columns:
        other = len(schema.names) == 1 and any(mark in schema.names[0] for mark in ";\t|")
        hint = " Are its fields separated by something else than a comma?" if other else ""
        raise InvalidInputError(
            f"the table has no column {feature!r}, which the model needs.{hint}",
            parameter="separator" if other else None,
        )
    return columns[0], feature.removeprefix(f"{columns[0]}=")


def _places(column: pa.Array, name: str, places: Mapping[str, int], unknown: str) -> Any:
    """Place of the indicator of each row; -1 for none, and for a value that is not known."""
    values, codes = distinct(column)
    texts = [level_text(value, name) if value == value else None for value in values.to_pylist()]
    for text in texts:
        if text is not None and text not in places and unknown == "error":
            raise InvalidInputError(
                f"column {name!r} holds {text!r}, which the model has not seen: it knows "
                f"{sorted(places)[:20]}. Leave those rows out.",
                parameter="unknown",
                settings=[("unknown", "ignore")],
            )
    return np.array([*(-1 if text is None else places.get(text, -1) for text in texts), -1])[codes]
