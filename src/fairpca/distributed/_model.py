"""A fitted model applied to Arrow batches, wherever they come from."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from fairpca.distributed._kernel import level_text
from fairpca.distributed._plan import is_number
from fairpca.estimators import SavedModel, load_model
from fairpca.estimators._inputs import project
from fairpca.exceptions import InvalidInputError

AnyModel: TypeAlias = Any
"""A fitted FairPCA, a SavedModel, or the path of a model file."""


@dataclass(frozen=True, eq=False)
class Weights:
    """What is left of a model for projecting rows.

    Parameters
    ----------
    features : tuple of str
        Names of the features, indicators (``column=value``) included.
    mean : ndarray, shape (p,)
        What is subtracted from rows in their own units.
    components : ndarray, shape (d, p)
        Directions for rows in their own units.
    scale : ndarray, shape (d,), or None
        What the scores are divided by.
    output_names : tuple of str
        Names of the component columns.
    """

    features: tuple[str, ...]
    mean: Any
    components: Any
    scale: Any
    output_names: tuple[str, ...]

    def bind(self, schema: pa.Schema) -> Projection:
        """Find the features among the columns of a table.

        Parameters
        ----------
        schema : pyarrow.Schema
            The columns.

        Returns
        -------
        Projection
            The model for this table.
        """
        plain: list[tuple[int, str]] = []
        indicators: dict[str, dict[str, int]] = {}
        for index, feature in enumerate(self.features):
            if feature in schema.names:
                if not is_number(schema, feature):
                    raise InvalidInputError(
                        f"column {feature!r} is {schema.field(feature).type}, but the model knows "
                        "it as a number."
                    )
                plain.append((index, feature))
                continue
            column, level = _indicator(feature, schema)
            indicators.setdefault(column, {})[level] = index
        return Projection(self, tuple(plain), indicators)


@dataclass(frozen=True, eq=False)
class Projection:
    """A model bound to the columns of a table.

    Parameters
    ----------
    weights : Weights
        The model.
    plain : tuple of (int, str)
        Place and name of the features that are columns.
    indicators : dict
        Place of each known value, for each categorical column.
    """

    weights: Weights
    plain: tuple[tuple[int, str], ...]
    indicators: dict[str, dict[str, int]]

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns to read."""
        return (*(name for _, name in self.plain), *self.indicators)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the component columns."""
        return self.weights.output_names

    def scores(self, batch: pa.RecordBatch) -> Any:
        """Scores of the rows of a batch.

        Parameters
        ----------
        batch : pyarrow.RecordBatch
            With the columns of `columns`.

        Returns
        -------
        ndarray of float64, shape (n, d)
            The scores; missing and unknown values are refused.
        """
        matrix = np.zeros((len(self.weights.features), batch.num_rows))
        for index, name in self.plain:
            matrix[index] = _complete(batch.column(name), name)
        for name, places in self.indicators.items():
            codes = self._places(batch.column(name), name, places)
            matrix[codes, np.arange(batch.num_rows)] = 1.0
        weights = self.weights
        return project(matrix.T, weights.mean, weights.components, weights.scale)

    @staticmethod
    def _places(column: pa.Array, name: str, places: dict[str, int]) -> Any:
        coded = column if kinds.is_dictionary(column.type) else column.dictionary_encode()
        if coded.indices.null_count:
            raise _missing_error(name, coded.indices.null_count)
        codes = coded.indices.to_numpy(zero_copy_only=False).astype(np.intp)
        lookup = np.zeros(max(len(coded.dictionary), 1), dtype=np.intp)
        for code in np.unique(codes):
            text = level_text(coded.dictionary[int(code)].as_py())
            if text not in places:
                raise InvalidInputError(
                    f"column {name!r} holds {text!r}, which the model has not seen: it knows "
                    f"{sorted(places)[:20]}."
                )
            lookup[code] = places[text]
        return lookup[codes]


def read_model(model: AnyModel) -> Weights:
    """Take what is needed for projecting rows from a model.

    Parameters
    ----------
    model : FairPCA, SavedModel, str or path
        A fitted model, or the file of one.

    Returns
    -------
    Weights
        For rows in their own units, whether or not the model was fitted to standardised ones.
    """
    if isinstance(model, str | os.PathLike):
        model = load_model(model)
    fitted, standardization = model if isinstance(model, SavedModel) else (model, None)
    names = getattr(fitted, "feature_names_in_", None)
    if not hasattr(fitted, "components_"):
        raise InvalidInputError("the model is not fitted: call fit or fit_moments first.")
    if names is None:
        raise InvalidInputError(
            "the model does not know the names of its features: fit it to a table with names."
        )
    mean, components = fitted.mean_, fitted.components_
    if standardization is not None:
        # (x - m)/s - mean, written for rows in their own units.
        mean = standardization.mean + standardization.scale * mean
        components = components / standardization.scale
    scale = fitted._whitening if fitted.whiten else None
    return Weights(
        tuple(map(str, names)), mean, components, scale, tuple(fitted.get_feature_names_out())
    )


def _indicator(feature: str, schema: pa.Schema) -> tuple[str, str]:
    """Column and value of an indicator feature."""
    found = [name for name in schema.names if feature.startswith(f"{name}=")]
    if len(found) > 1:
        raise InvalidInputError(
            f"the feature {feature!r} can be read as a value of any of {found}: rename the columns."
        )
    if not found:
        raise InvalidInputError(f"the table has no column {feature!r}, which the model needs.")
    return found[0], feature.removeprefix(f"{found[0]}=")


def _complete(column: pa.Array, name: str) -> Any:
    if kinds.is_decimal(column.type):
        column = column.cast(pa.float64())
    if column.null_count:
        raise _missing_error(name, column.null_count)
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise _missing_error(name, int(np.count_nonzero(~np.isfinite(values))))
    return values


def _missing_error(name: str, count: int) -> InvalidInputError:
    return InvalidInputError(
        f"column {name!r} has {count:,} missing or infinite values in one batch: fill them in, or "
        "leave those rows out."
    )
