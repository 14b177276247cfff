"""Dask arrays and data frames: fitted in one pass, transformed without computing anything.

Dask is imported where a Dask collection has been handed in, so it is never needed otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, validate_data

from fairpca.estimators._base import FLOATS
from fairpca.estimators._inputs import is_lazy, project
from fairpca.estimators._limits import MAX_CELLS, add_moments, check_cells
from fairpca.exceptions import InvalidInputError
from fairpca.moments import GroupMoments
from fairpca.rows import encode_groups

FAN_IN = 8


def lazy_moments(estimator: Any, X: Any, groups: dict[str, Any], *, reset: bool) -> GroupMoments:
    """Moments of a Dask collection, in one pass on whatever scheduler is active.

    Parameters
    ----------
    estimator : estimator
        For its parameters `numeric`, and to remember the names of the features.
    X : dask array or data frame
        Features.
    groups : dict
        `sensitive_features` (or None), `control_features` and `sample_weight`: Dask collections
        with the partitions of X, or arrays in memory where X is an array of known chunks.
    reset : bool
        Whether the features are those of a new fit.

    Returns
    -------
    GroupMoments
        The moments of all rows.
    """
    validate_data(estimator, _sample(X), dtype=FLOATS, reset=reset, ensure_min_samples=0)
    names = getattr(estimator, "feature_names_in_", None)
    summarise = partial(
        _block_moments,
        numeric=() if estimator.numeric is None else tuple(estimator.numeric),
        names=None if names is None else tuple(names),
    )
    given = [part for part in groups.values() if part is not None]
    if all(hasattr(part, "map_partitions") for part in (X, *given)):
        parts = _frame_parts(X, groups, summarise)
    else:
        parts = _block_parts(X, groups, summarise)
    moments: GroupMoments = tree_sum(parts, add_moments).compute()
    if moments.n_samples < 1 + reset:
        raise InvalidInputError(
            f"X has {moments.n_samples} rows with a positive weight: a fit needs at least 2."
        )
    return moments


def _frame_parts(X: Any, groups: dict[str, Any], summarise: Callable[..., Any]) -> list[Any]:
    """Delayed sums where everything is a data frame.

    One expression for all of them: Dask joins small partitions while it optimises a read, and how
    many depends on the columns, so that frames optimised apart would not fit together any more.
    """
    import pandas as pd
    from dask import delayed

    present = {name: part for name, part in groups.items() if part is not None}
    for name, part in present.items():
        _check_partitions(name, part.npartitions, X.npartitions)
    function = partial(
        _frame_moments,
        summarise=summarise,
        metas={name: part._meta for name, part in present.items()},
        order=list(groups),
    )
    sums = X.map_partitions(
        function,
        *present.values(),
        align_dataframes=False,
        enforce_metadata=False,
        meta=pd.Series([], dtype=object),
    )
    return [delayed(_only)(part) for part in sums.to_delayed()]


def _frame_moments(
    X: Any,
    *parts: Any,
    summarise: Callable[..., Any],
    metas: dict[str, Any],
    order: list[str],
) -> Any:
    """Moments of one partition, in a Series because Dask wants one."""
    import pandas as pd

    blocks = {
        name: as_declared(part, meta)
        for (name, meta), part in zip(metas.items(), parts, strict=True)
    }
    return pd.Series([summarise(X, *(blocks.get(name) for name in order))], dtype=object)


def _only(series: Any) -> Any:
    return series.iloc[0]


def _block_parts(X: Any, groups: dict[str, Any], summarise: Callable[..., Any]) -> list[Any]:
    """Delayed sums where arrays take part."""
    from dask import delayed

    others = [aligned_blocks(part, X, name) for name, part in groups.items()]
    blocks = row_blocks(X, optimize=False)
    return [
        delayed(summarise)(block, *(parts[index] for parts in others))
        for index, block in enumerate(blocks)
    ]


def _check_partitions(name: str, found: int, wanted: int) -> None:
    if found != wanted:
        raise InvalidInputError(
            f"{name} has {found} partitions but X has {wanted}: take both from the same table, or "
            "give them the same partitions."
        )


def row_blocks(X: Any, *, optimize: bool = True) -> list[Any]:
    """Delayed blocks of whole rows.

    Parameters
    ----------
    X : dask array or data frame
        Rows.
    optimize : bool, default True
        Whether a data frame may join partitions; not where others have to fit to them.

    Returns
    -------
    list of dask Delayed
        One for each partition.
    """
    if hasattr(X, "rechunk"):
        if X.ndim == 2:
            X = X.rechunk({1: -1})
        return list(X.to_delayed().ravel())
    return list(X.to_delayed(optimize_graph=optimize))


def aligned_blocks(part: Any, X: Any, name: str) -> list[Any]:
    """Blocks of groups or weights that belong to the blocks of X.

    Parameters
    ----------
    part : dask collection, array-like or None
        Groups or weights of the rows of X.
    X : dask array or data frame
        The rows.
    name : str
        Name of the argument, for messages.

    Returns
    -------
    list
        Delayed blocks, slices, or None for each block of X.
    """
    count = X.numblocks[0] if hasattr(X, "numblocks") else X.npartitions
    if part is None:
        return [None] * count
    chunks = X.chunks[0] if hasattr(X, "chunks") else (np.nan,)
    known = not np.isnan(chunks).any()
    if is_lazy(part):
        if known and hasattr(part, "rechunk") and not np.isnan(part.chunks[0]).any():
            part = part.rechunk({0: chunks}) if part.shape[0] == X.shape[0] else part
        blocks = [_declare(block, part) for block in row_blocks(part, optimize=False)]
        _check_partitions(name, len(blocks), count)
        return blocks
    if not known:
        raise InvalidInputError(
            f"{name} is in memory while X is a Dask collection whose partitions have unknown "
            f"lengths: give a Dask column of the same table, for example {name}=table['group']."
        )
    if len(part) != X.shape[0]:
        raise InvalidInputError(f"{name} has {len(part)} rows but X has {X.shape[0]}.")
    ends = np.cumsum(chunks)
    rows = part.iloc if hasattr(part, "iloc") else np.asarray(part)
    return [rows[end - size : end] for end, size in zip(ends, chunks, strict=True)]


def _declare(block: Any, part: Any) -> Any:
    """Give a partition the number types of the whole, which one partition may not show."""
    meta = getattr(part, "_meta", None)
    if not hasattr(meta, "iloc"):
        return block
    from dask import delayed

    return delayed(as_declared)(block, meta)


def as_declared(block: Any, meta: Any) -> Any:
    """Cast the number columns of a pandas block to the types that the whole table has.

    Parameters
    ----------
    block : pandas.Series or DataFrame
        One partition.
    meta : pandas.Series or DataFrame
        An empty table with the types of the whole.

    Returns
    -------
    pandas.Series or DataFrame
        The block; a column of whole numbers that came as floats is whole numbers again.
    """
    if meta.ndim == 1:
        kind = getattr(meta.dtype, "kind", "O")
        return block.astype(meta.dtype) if kind in "iufb" and len(block) else block
    types = {
        name: dtype
        for name, dtype in meta.dtypes.items()
        if getattr(dtype, "kind", "O") in "iufb" and block[name].dtype != dtype
    }
    return block.astype(types) if types and len(block) else block


def _block_moments(
    X: Any, sensitive: Any, control: Any, weight: Any, *, numeric: Any, names: Any
) -> GroupMoments:
    """Moments of one block; a block without rows or weights is empty moments."""
    rows = check_array(X, dtype=FLOATS, accept_sparse="csr", ensure_min_samples=0)
    if weight is not None:
        weight = np.asarray(weight, dtype=np.float64)
        if len(weight) and not weight.any():  # whole partitions of weight zero are no error
            rows, weight = rows[:0], weight[:0]
            sensitive, control = _no_rows(sensitive), _no_rows(control)
    groups = strata = None
    if sensitive is not None:
        groups = encode_groups(sensitive, n_rows=rows.shape[0], numeric=numeric)
    if sensitive is not None and control is not None:
        strata = encode_groups(control, n_rows=rows.shape[0], argument="control_features")
    check_cells([part for part in (groups, strata) if part is not None], MAX_CELLS)
    return GroupMoments.from_groups(rows, groups, strata, weight, feature_names=names)


def _no_rows(part: Any) -> Any:
    if part is None:
        return None
    return part.iloc[:0] if hasattr(part, "iloc") else part[:0]


def check_fan_in(fan_in: int) -> None:
    """Refuse a tree that would never come together.

    Parameters
    ----------
    fan_in : int
        Parts that one task adds.
    """
    if fan_in < 2:
        raise InvalidInputError(f"fan_in must be at least 2, not {fan_in!r}.")


def tree_sum(parts: Sequence[Any], add: Callable[[Any], Any], fan_in: int = FAN_IN) -> Any:
    """Sum delayed parts as a tree, so that no worker holds more than a few of them.

    Parameters
    ----------
    parts : sequence of dask Delayed
        At least one.
    add : callable
        Sum of a list of parts.
    fan_in : int, default FAN_IN
        Parts that one task adds.

    Returns
    -------
    dask Delayed
        The sum; always added in the same order.
    """
    from dask import delayed

    check_fan_in(fan_in)
    if not parts:
        raise InvalidInputError("X has no partitions: give a table with rows.")
    level = list(parts)
    while len(level) > 1:
        level = [
            delayed(add)(level[start : start + fan_in]) for start in range(0, len(level), fan_in)
        ]
    return level[0]


def lazy_transform(estimator: Any, X: Any, scale: Any) -> Any:
    """Scores of a Dask collection as a Dask collection; nothing is computed yet.

    Parameters
    ----------
    estimator : estimator
        Fitted.
    X : dask array or data frame
        Rows.
    scale : ndarray or None
        What the scores are divided by.

    Returns
    -------
    dask array or data frame
        With the partitions (and the index) of X; the columns of a data frame are named after the
        components.
    """
    sample = validate_data(estimator, _sample(X), dtype=FLOATS, reset=False, ensure_min_samples=0)
    function = partial(
        _project_block, mean=estimator.mean_, components=estimator.components_, scale=scale
    )
    d = len(estimator.components_)
    if hasattr(X, "rechunk"):
        X = X.rechunk({1: -1})
        meta = np.empty((0, d), dtype=sample.dtype)
        return X.map_blocks(function, chunks=(X.chunks[0], (d,)), dtype=sample.dtype, meta=meta)
    names = list(estimator.get_feature_names_out())
    meta = X._meta.iloc[:, :0].assign(**{name: np.empty(0, sample.dtype) for name in names})
    return X.map_partitions(partial(_project_frame, function, names), meta=meta)


def _sample(X: Any) -> Any:
    """No rows of the type, width and names of X."""
    if hasattr(X, "_meta") and hasattr(X, "columns"):
        return X._meta
    if getattr(X, "ndim", 2) != 2:
        raise InvalidInputError(f"X has {X.ndim} dimensions: give a table with rows and columns.")
    return np.empty((0, X.shape[1]), dtype=X.dtype)


def _project_block(X: Any, mean: Any, components: Any, scale: Any) -> Any:
    rows = check_array(X, dtype=FLOATS, accept_sparse="csr", ensure_min_samples=0)
    return project(rows, mean, components, scale)


def _project_frame(function: Callable[[Any], Any], names: list[str], frame: Any) -> Any:
    scores = function(frame)
    return type(frame)(scores, columns=names, index=frame.index)
