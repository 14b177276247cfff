"""Dask collections: summed in one pass on whichever scheduler is active, projected lazily.

Dask is imported where a Dask collection has been handed in, so it is never needed otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, reduce
from operator import add, methodcaller
from typing import Any, Unpack

import numpy as np
import pyarrow as pa
from scipy.sparse import issparse

from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.linalg import single_blas_thread
from fairpca.moments import GroupMoments
from fairpca.rows import Rows, encode_groups
from fairpca.rows._checks import check_matrix, fill_means
from fairpca.rows._containers import PARTS
from fairpca.tables import input_kind
from fairpca.tables._kernel import merge_partials, to_rows
from fairpca.tables._partitions import (
    columns_of,
    draw_rows,
    merge_draws,
    on_partition,
    sum_columns,
    sum_features,
    sum_file,
    sum_frame,
    weigh_by_cell,
)
from fairpca.tables._roles import Names, RoleOptions, Roles, as_names, assign_roles
from fairpca.tables._stream import finish
from fairpca.tables.table import Table

# Partial sums that one task adds, so that no worker holds more than a few of them.
FAN_IN = 8


def moments_from_dask(
    data: Any,
    sensitive: Any,
    features: Names = None,
    control: Any = None,
    weight: Any = None,
    **options: Unpack[RoleOptions],
) -> GroupMoments:
    """Sum the rows of a Dask collection in one pass; partial sums are merged as a tree.

    The work goes to the active scheduler: threads by default, or the cluster of the current
    ``distributed.Client``. A worker that dies during the pass costs time, not correctness.

    Parameters
    ----------
    data : dask.dataframe.DataFrame or dask.array.Array
        The table, or the features alone.
    sensitive : str, iterable of str, or collection
        Names of the protected columns of a data frame. For an array: a Dask or NumPy array with
        its rows, one column for each attribute.
    control, weight : str, iterable of str, or collection, optional
        Strata and weights, likewise; so is the option `target`.
    features, **options
        As in `moments_from_files`. An array has no categorical features; its attributes are
        named ``sensitive_feature`` or ``sensitive_feature_0``, …

    See Also
    --------
    moments_from_files, moments_from_arrow, moments_from_spark : Other inputs.

    Examples
    --------
    >>> import dask.dataframe as dd
    >>> import pandas as pd
    >>> from fairpca.tables import moments_from_dask
    >>> frame = pd.DataFrame({"height": [1.6, 1.8, 1.7], "sex": ["f", "m", "f"]})
    >>> moments = moments_from_dask(dd.from_pandas(frame, npartitions=2), sensitive=["sex"])
    >>> moments.n_samples, moments.levels("sex")
    (3, ('f', 'm'))
    """
    if input_kind(data) != "dask":
        raise InvalidInputError(
            f"data is a {type(data).__name__}: give a Dask array or data frame, or use "
            "GroupMoments.from_arrays for rows in memory."
        )
    if hasattr(data, "rechunk"):
        if features is not None or options.pop("categorical", None) is not None:
            raise InvalidInputError("an array has no names: features and categorical need a table.")
        if sensitive is None:
            raise GroupsError("sensitive is None: give an array with a value for each row.")
        y: Any = options.pop("target", None)
        return DaskRows(data, sensitive, control, weight, y=y, **options).moments()
    if not all(isinstance(name, str) for name in data.columns):  # as FairPCA.fit takes them
        data = data.rename(columns={name: str(name) for name in data.columns})
        named: tuple[Any, ...] = (sensitive, features, control)
        sensitive, features, control = (
            None if part is None else [str(name) for name in np.atleast_1d(part)] for part in named
        )
    schema = pa.schema(
        (name, pa.string() if dtype.kind == "O" else pa.Array.from_pandas(data._meta[name]).type)
        for name, dtype in data._meta.dtypes.items()
    )
    roles = assign_roles(schema, sensitive, features, control, weight, **options)
    sums = _frame_tasks(data[list(roles.columns)], {}, partial(sum_frame, roles=roles))
    return finish(merge_tree(sums, partial(merge_partials, roles=roles)), roles)


def moments_by_dask(table: Table, roles: Roles, scheduler: str | None = None) -> GroupMoments:
    """Sum the files of a table by the tasks of a scheduler, each as the local pass would."""
    if table.files is None:
        raise InvalidInputError("the dask engine reads files only.", parameter="engine")
    try:
        from dask import delayed
    except ImportError:
        raise InvalidInputError(
            "the dask engine needs: pip install 'fairpca[dask]'.", parameter="engine"
        ) from None
    work = partial(sum_file, roles=roles, wanted=table.role_schema(roles))
    units = [unit for part in table.files.parts for unit in part.row_groups()]
    sums = [delayed(work, pure=False)(unit) for unit in units]
    with _client(scheduler):
        try:
            return finish(merge_tree(sums, partial(merge_partials, roles=roles)), roles)
        except InvalidInputError:
            raise
        except (ValueError, KeyError, TypeError, OSError) as error:
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            raise InvalidInputError(
                f"the dask engine failed on these files ({reason}): leave --engine out to learn "
                "which one and where.",
                parameter="engine",
            ) from error


@contextmanager
def _client(scheduler: str | None) -> Iterator[None]:
    """Connect to a Dask scheduler for as long as the block lasts; None: whatever is active."""
    if scheduler is None:
        yield
        return
    from distributed import Client

    try:
        client = Client(scheduler, timeout=30)
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"no Dask scheduler answers at {scheduler!r} ({error}).", parameter="scheduler"
        ) from None
    with client:
        yield


class DaskRows:
    """Features whose groups, strata and weights are collections of their own, for an estimator.

    `names` are those of the features, and `options` those of `Roles`.
    """

    def __init__(
        self,
        X: Any,
        sensitive: Any = None,
        control: Any = None,
        weight: Any = None,
        *,
        names: Sequence[str] | None = None,
        numeric: Names = None,
        y: Any = None,
        **options: Any,
    ) -> None:
        empty, numbers = sample(X), as_names(numeric)
        control = None if sensitive is None else control
        self.X, self.is_named = X, names is not None
        parts = zip((*PARTS, "y"), (sensitive, control, weight, y), strict=True)
        self.groups = {name: part for name, part in parts if part is not None}
        types = empty.dtypes if hasattr(empty, "dtypes") else [empty.dtype]
        label = getattr(getattr(weight, "_meta", weight), "name", None)  # of a Series
        self.roles = Roles(
            features=tuple([f"x{i}" for i in range(empty.shape[1])] if names is None else names),
            sensitive=_group_names(sensitive, PARTS[0], numbers),
            control=_group_names(control, PARTS[1], ()),
            weight=None if weight is None else PARTS[2] if label is None else str(label),
            numeric=numbers,
            target=_group_names(y, "y", ()),
            single=all(kind == np.float32 for kind in types),
            **options,
        )

    def moments(self, at_least: int = 1) -> Any:
        """Sum all rows."""
        merge = partial(merge_partials, roles=self.roles)
        moments = finish(self._compute(sum_columns, merge), self.roles, named=self.is_named)
        if moments.n_samples < at_least:
            raise InvalidInputError(
                f"X has {moments.n_samples} rows with a positive weight: a fit needs at least 2."
            )
        return moments

    def feature_moments(self, function: Callable[[Any], Any]) -> Any:
        """Sum what a function makes of the features of every row."""
        return self._compute(partial(sum_features, function=function), partial(reduce, add))

    def sample(self, moments: GroupMoments, size: int, seed: int = 0) -> Rows:
        """Draw rows, from all cells in proportion but some of each at least.

        `moments` are those of all rows: the rows drawn weigh as much together as all rows of their
        cell. All rows, in order, where there are no more. What is missing is NaN where it counts as
        the mean.
        """
        draw = partial(draw_rows, size=size, seed=seed)
        drawn = self._compute(draw, partial(merge_draws, size=size))
        rows, _ = to_rows(columns_of(drawn, self.roles), self.roles)
        rows = rows if self.is_named else replace(rows, feature_names=None)
        return rows if len(rows) == moments.n_samples else weigh_by_cell(rows, drawn, moments)

    def _compute(self, work: Callable[..., Any], merge: Callable[[list[Any]], Any]) -> Any:
        """Do some work on the columns of each partition, and merge the results."""
        function = partial(on_partition, work=work, roles=self.roles)
        is_frames = all(hasattr(part, "map_partitions") for part in (self.X, *self.groups.values()))
        tasks = _frame_tasks if is_frames else _array_tasks
        return merge_tree(tasks(self.X, self.groups, function), merge)


def sample(X: Any) -> Any:
    """No rows of the type, width and names of a collection."""
    if hasattr(X, "_meta") and hasattr(X, "columns"):
        return X._meta
    if getattr(X, "ndim", 2) != 2:
        raise InvalidInputError(f"X has {X.ndim} dimensions: give a table with rows and columns.")
    return np.empty((0, X.shape[1]), dtype=X.dtype)


def _group_names(part: Any, argument: str, numeric: Sequence[str]) -> tuple[str, ...]:
    """Names of group columns, which the one validator reads from none of their rows."""
    if part is None:
        return ()
    if hasattr(meta := getattr(part, "_meta", part), "iloc"):
        empty = meta.iloc[:0]
    else:
        like = part if input_kind(part) == "dask" else np.asarray(part)
        empty = np.empty((0, *like.shape[1:]), dtype=like.dtype)
    return encode_groups(empty, n_rows=0, argument=argument, numeric=numeric).names


# Tasks: one for each partition, merged as a tree.


def merge_tree(tasks: Sequence[Any], function: Callable[[list[Any]], Any]) -> Any:
    """Merge the results of delayed tasks as a tree, always in the same order; None is nothing."""
    from dask import delayed

    if not tasks:
        raise InvalidInputError("X has no partitions: give a table with rows.")
    merge = delayed(partial(_merge, function=function))
    level = list(tasks)
    while len(level) > 1:
        level = [merge(level[start : start + FAN_IN]) for start in range(0, len(level), FAN_IN)]
    return level[0].compute()


def _merge(parts: list[Any], function: Callable[[list[Any]], Any]) -> Any:
    known = [part for part in parts if part is not None]
    with single_blas_thread():
        return function(known) if known else None


def _frame_tasks(X: Any, groups: Mapping[str, Any], function: Callable[..., Any]) -> list[Any]:
    """Apply a function to the partitions of data frames."""
    # One expression for all of them: Dask joins small partitions while it optimises a read, and how
    # many depends on the columns, so that frames optimised apart would not fit together any more.
    import pandas as pd
    from dask import delayed

    for name, part in groups.items():
        _check_partitions(name, part.npartitions, X.npartitions)
    metas = {"X": X._meta, **{name: part._meta for name, part in groups.items()}}
    results = X.map_partitions(
        partial(_on_frames, function=function, metas=metas),
        *groups.values(),
        align_dataframes=False,
        enforce_metadata=False,
        meta=pd.Series([], dtype=object),
    )
    return [delayed(methodcaller("item"))(part) for part in results.to_delayed()]


def _on_frames(*parts: Any, function: Callable[..., Any], metas: Mapping[str, Any]) -> Any:
    """Return the result for one partition in a Series, because Dask wants one."""
    import pandas as pd

    declared = (_as_declared(part, meta) for part, meta in zip(parts, metas.values(), strict=True))
    named = dict(zip(metas, declared, strict=True))
    return pd.Series([function(named.pop("X"), named)], dtype=object)


def _as_declared(part: Any, meta: Any) -> Any:
    """Cast the number columns of a pandas partition to the types that the whole table has."""
    if meta.ndim == 1:
        return _as_declared(part.to_frame(), meta.to_frame()).iloc[:, 0]
    types = {
        name: dtype
        for name, dtype in meta.dtypes.items()
        if getattr(dtype, "kind", "O") in "iufb" and part[name].dtype != dtype
    }
    return part.astype(types) if types and len(part) else part


def _array_tasks(X: Any, groups: Mapping[str, Any], function: Callable[..., Any]) -> list[Any]:
    """Apply a function to the partitions of collections among which there are arrays."""
    from dask import delayed

    others = {name: _aligned(part, X, name) for name, part in groups.items()}
    return [
        delayed(function)(part, {name: blocks[index] for name, blocks in others.items()})
        for index, part in enumerate(_row_partitions(X))
    ]


def _row_partitions(X: Any) -> list[Any]:
    """Delayed partitions of whole rows."""
    if hasattr(X, "rechunk"):
        return list((X.rechunk({1: -1}) if X.ndim == 2 else X).to_delayed().ravel())
    return list(X.to_delayed(optimize_graph=False))


def _aligned(part: Any, X: Any, name: str) -> list[Any]:
    """Partitions of groups or weights that belong to those of X."""
    from dask import delayed

    chunks = X.chunks[0] if hasattr(X, "chunks") else (np.nan,) * X.npartitions
    known = not np.isnan(chunks).any()
    if input_kind(part) == "dask":
        if known and hasattr(part, "rechunk") and not np.isnan(part.chunks[0]).any():
            part = part.rechunk({0: chunks}) if part.shape[0] == X.shape[0] else part
        partitions = _row_partitions(part)
        _check_partitions(name, len(partitions), len(chunks))
        if hasattr(part, "rechunk"):
            return partitions
        return [delayed(_as_declared)(partition, part._meta) for partition in partitions]
    if not known:
        raise InvalidInputError(
            f"{name} is in memory while X is a Dask collection whose partitions have unknown "
            f"lengths: give a Dask column of the same table, for example {name}=table['group']."
        )
    if len(part) != X.shape[0]:
        raise InvalidInputError(f"{name} has {len(part)} rows but X has {X.shape[0]}.")
    rows = part.iloc if hasattr(part, "iloc") else np.asarray(part)
    return [rows[end - size : end] for end, size in zip(np.cumsum(chunks), chunks, strict=True)]


def _check_partitions(name: str, count: int, wanted: int) -> None:
    if count != wanted:
        raise InvalidInputError(
            f"{name} has {count} partitions but X has {wanted}: take both from the same table, or "
            "give them the same partitions."
        )


def lazy_transform(
    X: Any, function: Callable[[Any], Any], names: Sequence[str], dtype: Any, means: Any = None
) -> Any:
    """Scores of a Dask collection as one with the same partitions; nothing is computed yet.

    `function` maps a matrix (n, p) to its scores (n, d); `means` (p,) stand for missing values.
    """
    apply = partial(_score_partition, function=function, means=means)
    if hasattr(X, "rechunk"):
        X = X.rechunk({1: -1})
        chunks = (X.chunks[0], (len(names),))
        meta = np.empty((0, len(names)), dtype=dtype)
        return X.map_blocks(apply, chunks=chunks, dtype=dtype, meta=meta)
    meta = X._meta.iloc[:, :0].assign(**{name: np.empty(0, dtype) for name in names})
    return X.map_partitions(partial(_score_frame, apply, list(names)), meta=meta)


def _score_partition(X: Any, function: Callable[[Any], Any], means: Any) -> Any:
    if means is not None:
        X = fill_means(X if issparse(X) else np.asarray(X, dtype=np.float64), means)
    return function(check_matrix(X)[0])


def _score_frame(function: Callable[[Any], Any], names: list[str], frame: Any) -> Any:
    return type(frame)(function(frame), columns=names, index=frame.index)
