"""Missing values that count as the mean of all rows, exactly and in one pass.

The mean is known at the end only. Until then a feature x holds `fill` where its value is missing,
and its indicator r, a feature after all others, is one there. With m the mean of the known values
x + (m − fill) r is the imputed feature: a linear function, whose moments follow from those of x and
r.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack, issparse

from fairpca.moments._cells import FloatArray, map_features, merge
from fairpca.moments._span import Content, embed
from fairpca.rows._missing import no_value_error


@dataclass(frozen=True, eq=False)
class MissingIndicators:
    """Columns with missing values, whose indicators follow the features, and what fills them."""

    columns: tuple[str, ...]  # (p,): the column that each feature comes from
    incomplete: tuple[str, ...]  # (q,): columns with missing values, sorted
    fill: FloatArray  # (p,)

    @property
    def features(self) -> NDArray[np.intp]:
        """Places of the features that have an indicator."""
        known = set(self.incomplete)
        return np.array([i for i, c in enumerate(self.columns) if c in known], dtype=np.intp)

    @property
    def places(self) -> NDArray[np.intp]:
        """Places of their indicators among all features."""
        place = {column: len(self.columns) + i for i, column in enumerate(self.incomplete)}
        return np.array([place[self.columns[i]] for i in self.features], dtype=np.intp)


def fill_missing(
    X: Any, columns: Sequence[str], masks: Mapping[str, NDArray[np.bool_]] | None = None
) -> tuple[Any, MissingIndicators]:
    """Fill NaN with the mean of the rows at hand (sparse: zero), and append indicators."""
    names, is_sparse = tuple(columns), issparse(X)
    if masks is None:
        absent = csr_array((np.isnan(X.data), X.indices, X.indptr), X.shape) if is_sparse else None
        masks = {name: _mask(X, absent, index) for index, name in enumerate(names)}
        masks = {name: mask for name, mask in masks.items() if mask.any()}
    incomplete = tuple(sorted(masks))
    fill = np.zeros(len(names))
    indicators = MissingIndicators(names, incomplete, fill)
    ones = [masks[column].astype(X.dtype)[:, None] for column in incomplete]
    if is_sparse:
        values = np.where(np.isnan(X.data), 0.0, X.data)
        filled = csr_array((values, X.indices, X.indptr), X.shape)
        return csr_array(hstack([filled, *map(csr_array, ones)])), MissingIndicators(
            names, incomplete, fill
        )
    filled = X.copy(order="K")
    for index in MissingIndicators(names, incomplete, fill).features:
        mask = masks[names[index]]
        if not mask.all():
            fill[index] = X[~mask, index].mean(dtype=np.float64)
        filled[mask, index] = fill[index]
    return np.concatenate([filled, *ones], axis=1), indicators


def _mask(X: Any, absent: Any, index: int) -> NDArray[np.bool_]:
    """Mark the rows in which a feature is NaN."""
    if absent is None:
        return np.asarray(np.isnan(X[:, index]))
    return np.asarray(absent[:, [index]].toarray()[:, 0], dtype=np.bool_)


def merge_indicators(
    left: tuple[Content, MissingIndicators | None], right: tuple[Content, MissingIndicators | None]
) -> tuple[Content, Content, MissingIndicators | None]:
    """Give both the indicators of either, and the same values in the places of missing ones."""
    some = right[1] if left[1] is None else left[1]
    if some is None:
        return left[0], right[0], None
    none = replace(some, incomplete=(), fill=np.zeros(len(some.columns)))
    before = [none if indicators is None else indicators for _, indicators in (left, right)]
    incomplete = tuple(
        sorted({column for indicators in before for column in indicators.incomplete})
    )
    mine, ours = _with_indicators(left[0], before[0], incomplete)
    theirs, others = _with_indicators(right[0], before[1], incomplete)
    fill = np.where(_vote(mine, ours) >= _vote(theirs, others), ours.fill, others.fill)
    common = replace(ours, fill=fill)
    return _refill(mine, ours, fill), _refill(theirs, others, fill), common


def complete(content: Content, indicators: MissingIndicators) -> Content:
    """Moments of the features, with the mean of the known values for missing ones."""
    mean, share = _means(content, indicators)
    if (share >= 1.0).any():
        raise no_value_error(indicators.incomplete[int(np.argmax(share))])
    fill = indicators.fill.copy()
    features = indicators.features
    known = 1.0 - share[indicators.places - len(indicators.columns)]
    fill[features] += (mean[features] - fill[features]) / known
    table, span = _refill(content, indicators, fill)
    p = len(indicators.columns)
    if span is not None:
        return span.mapped(table, span.origin[:p], span.basis[:, :p])
    return table.map(lambda cell: map_features(cell, lambda values: values[..., :p].copy())), None


def missing_shares(content: Content, indicators: MissingIndicators) -> dict[str, float]:
    """Share of the rows, by weight, in which each column is missing."""
    return dict(zip(indicators.incomplete, map(float, _means(content, indicators)[1]), strict=True))


def _means(content: Content, indicators: MissingIndicators) -> tuple[FloatArray, FloatArray]:
    """Return the means of the features as they are filled, and of the indicators."""
    table, span = content
    whole = merge(list(table.cells.values()))
    mean = whole.mean + whole.mean_rest
    mean = mean if span is None else span.place(mean)
    p = len(indicators.columns)
    share = mean[p:].copy()
    share[share > 1.0 - 1e-12] = 1.0
    return mean[:p], share


def _vote(content: Content, indicators: MissingIndicators) -> FloatArray:
    """Weight of the rows behind each fill value; −1 where no value is missing."""
    table, _ = content
    votes = np.full(len(indicators.columns), -1.0)
    if table.cells:
        weight = sum(cell.weight for cell in table.cells.values())
        share = _means(content, indicators)[1][indicators.places - len(indicators.columns)]
        votes[indicators.features] = np.where(share > 0.0, weight * (1.0 - share), -1.0)
    return votes


def _with_indicators(
    content: Content, indicators: MissingIndicators, incomplete: tuple[str, ...]
) -> tuple[Content, MissingIndicators]:
    """Add indicators that are zero in all rows, and bring all into one order."""
    if indicators.incomplete == incomplete:
        return content, indicators
    p = len(indicators.columns)
    places = [p + incomplete.index(column) for column in indicators.incomplete]
    index = np.array([*range(p), *places], dtype=np.intp)
    return embed(content, index, p + len(incomplete)), replace(indicators, incomplete=incomplete)


def _refill(content: Content, indicators: MissingIndicators, fill: FloatArray) -> Content:
    """Moments of features that hold another value where theirs is missing."""
    table, span = content
    features, places = indicators.features, indicators.places
    change = (fill - indicators.fill)[features]
    if not change.any():
        return content

    def added(values: FloatArray) -> FloatArray:
        moved = values.copy()
        moved[..., features] += change * moved[..., places]
        return moved

    if span is not None:
        return span.mapped(table, added(span.origin), added(span.basis))
    return table.map(lambda cell: map_features(cell, added)), None
