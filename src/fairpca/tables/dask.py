"""Dask collections: summed in one pass on whichever scheduler is active, projected lazily.

Dask is imported where a Dask collection has been handed in, so it is never needed otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from operator import methodcaller
from typing import Any, Unpack

import numpy as np
import pyarrow as pa
from scipy.sparse import issparse

from fairpca._progress import Counter
from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.linalg import single_blas_thread
from fairpca.moments import GroupMoments
from fairpca.rows import encode_groups
from fairpca.rows._checks import check_matrix
from fairpca.rows._columns import PARTS
from fairpca.tables import is_lazy
from fairpca.tables._files import FilePart
from fairpca.tables._kernel import Columns, batch_rows, decoded, summarise_batches
from fairpca.tables._partial import Partial, finish, merge_partials
from fairpca.tables._roles import Names, RoleOptions, Roles, as_names, assign_roles, check_numbers
from fairpca.tables._stream import sum_parts
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
        Strata and weights, likewise.
    features, **options
        As in `moments_from_files`. An array has no categorical features; its attributes are
        named ``sensitive_feature`` or ``sensitive_feature_0``, …

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
    if not is_lazy(data):
        raise InvalidInputError(
            f"data is a {type(data).__name__}: give a Dask array or data frame, or use "
            "GroupMoments.from_arrays for rows in memory."
        )
    if hasattr(data, "rechunk"):
        if features is not None or options.pop("categorical", None) is not None:
            raise InvalidInputError("an array has no names: features and categorical need a table.")
        if sensitive is None:
            raise GroupsError("sensitive is None: give an array with a value for each row.")
        inputs = (data, sensitive, control, weight, None)
        roles, parts = collections(_sum_features, *inputs, **options)
        return finish(_compute(parts, roles), roles, named=False)
    if not all(isinstance(name, str) for name in data.columns):  # as FairPCA.fit takes them
        data = data.rename(columns={name: str(name) for name in data.columns})
        sensitive, features, control = map(_as_text, (sensitive, features, control))
    schema = _frame_schema(data._meta)
    roles = assign_roles(schema, sensitive, features, control, weight, **options)
    parts = _frame_parts(data[list(roles.columns)], {}, partial(_sum_frame, roles=roles))
    return finish(_compute(parts, roles), roles)


def lazy_moments(
    X: Any,
    sensitive: Any,
    control: Any,
    weight: Any,
    *,
    numeric: Names = None,
    names: Sequence[str] | None = None,
    at_least: int = 1,
    **options: Any,
) -> GroupMoments:
    """Moments of Dask features whose groups are collections of their own, as for an estimator."""
    control = None if sensitive is None else control
    inputs = (X, sensitive, control, weight, names)
    roles, parts = collections(_sum_features, *inputs, numeric=numeric, **options)
    moments = finish(_compute(parts, roles), roles, named=names is not None)
    if moments.n_samples < at_least:
        raise InvalidInputError(
            f"X has {moments.n_samples} rows with a positive weight: a fit needs at least 2."
        )
    return moments


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
    units = [unit for part in table.files.parts for unit in part.row_groups()]
    work = partial(_sum_part, roles=roles, wanted=table.role_schema(roles))
    parts = [delayed(work, pure=False)(unit) for unit in units]
    with _client(scheduler):
        try:
            return finish(_compute(parts, roles) if parts else Partial(), roles)
        except InvalidInputError:
            raise
        except (ValueError, KeyError, TypeError, OSError) as error:
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            raise InvalidInputError(
                f"the dask engine failed on these files ({reason}): leave --engine out to learn "
                "which one and where.",
                parameter="engine",
            ) from error


def _sum_part(part: FilePart, roles: Roles, wanted: pa.Schema) -> Partial:
    with single_blas_thread():
        return sum_parts([part], roles, wanted, threads=1, counter=Counter())


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


def _compute(parts: Sequence[Any], roles: Roles) -> Partial:
    return merge_tree(parts, partial(_merge, roles=roles))


def merge_tree(parts: Sequence[Any], function: Callable[[list[Any]], Any]) -> Any:
    """Merge the results of delayed tasks as a tree, always in the same order."""
    from dask import delayed

    if not parts:
        raise InvalidInputError("X has no partitions: give a table with rows.")
    merge = delayed(function)
    level = list(parts)
    while len(level) > 1:
        level = [merge(level[start : start + FAN_IN]) for start in range(0, len(level), FAN_IN)]
    return level[0].compute()


def _merge(parts: list[Partial], roles: Roles) -> Partial:
    with single_blas_thread():
        return merge_partials(parts, roles)


def collections(
    work: Callable[..., Any],
    X: Any,
    sensitive: Any,
    control: Any,
    weight: Any,
    names: Sequence[str] | None,
    **options: Any,
) -> tuple[Roles, list[Any]]:
    """Roles of features and groups that are collections of their own, and the delayed work."""
    # `work` is called with a partition of features, its groups by argument, and the roles.
    empty = sample(X)
    numeric = as_names(options.pop("numeric", None))
    inputs = dict(zip(PARTS, (sensitive, control, weight), strict=True))
    groups, strata = (_group_names(inputs[name], name, numeric) for name in PARTS[:2])
    types = getattr(empty, "dtypes", [empty.dtype] if hasattr(empty, "dtype") else [])
    roles = Roles(
        features=tuple(f"x{i}" for i in range(empty.shape[1])) if names is None else tuple(names),
        sensitive=groups,
        control=strata,
        weight=None if weight is None else _weight_name(weight),
        numeric=numeric,
        single=all(kind == np.float32 for kind in types),
        **options,
    )
    inputs = {name: part for name, part in inputs.items() if part is not None}
    function = partial(work, roles=roles)
    if all(hasattr(part, "map_partitions") for part in (X, *inputs.values())):
        return roles, _frame_parts(X, inputs, function)
    return roles, _array_parts(X, inputs, function)


def _group_names(part: Any, argument: str, numeric: tuple[str, ...]) -> tuple[str, ...]:
    """Names of group columns, which the one validator reads from none of their rows."""
    if part is None:
        return ()
    if hasattr(part, "_meta") and hasattr(part._meta, "iloc"):
        empty = part._meta
    elif hasattr(part, "iloc"):
        empty = part.iloc[:0]
    else:
        like = part if is_lazy(part) else np.asarray(part)
        empty = np.empty((0, *like.shape[1:]), dtype=like.dtype)
    forced = numeric if argument == "sensitive_features" else ()
    return encode_groups(empty, n_rows=0, argument=argument, numeric=forced).names


def _weight_name(weight: Any) -> str:
    """Name of a Series; what is no column of a table has none."""
    meta = getattr(weight, "_meta", weight)
    return str(meta.name) if getattr(meta, "name", None) is not None else PARTS[2]


def _as_text(names: Any) -> Any:
    """Names of columns as text; they may be numbers in a pandas frame."""
    return None if names is None else [str(name) for name in np.atleast_1d(names)]


def _frame_schema(meta: Any) -> pa.Schema:
    """Arrow types of the columns of an empty pandas frame; objects are taken for text."""
    types = {
        str(name): pa.string() if dtype.kind == "O" else pa.Array.from_pandas(meta[name]).type
        for name, dtype in meta.dtypes.items()
    }
    return pa.schema(types)


def _frame_parts(X: Any, groups: Mapping[str, Any], function: Callable[..., Any]) -> list[Any]:
    """Delayed sums where everything is a data frame."""
    # One expression for all of them: Dask joins small partitions while it optimises a read, and how
    # many depends on the columns, so that frames optimised apart would not fit together any more.
    import pandas as pd
    from dask import delayed

    for name, part in groups.items():
        _check_partitions(name, part.npartitions, X.npartitions)
    metas = {"X": X._meta, **{name: part._meta for name, part in groups.items()}}
    sums = X.map_partitions(
        partial(_sum_partition, function=function, metas=metas),
        *groups.values(),
        align_dataframes=False,
        enforce_metadata=False,
        meta=pd.Series([], dtype=object),
    )
    return [delayed(methodcaller("item"))(part) for part in sums.to_delayed()]


def _sum_partition(*parts: Any, function: Callable[..., Partial], metas: Mapping[str, Any]) -> Any:
    """Sum one partition, in a Series because Dask wants one."""
    import pandas as pd

    declared = [as_declared(part, meta) for part, meta in zip(parts, metas.values(), strict=True)]
    groups = dict(zip(list(metas)[1:], declared[1:], strict=True))
    return pd.Series([function(declared[0], groups)], dtype=object)


def _array_parts(X: Any, groups: Mapping[str, Any], function: Callable[..., Any]) -> list[Any]:
    """Delayed sums where arrays take part."""
    from dask import delayed

    others = {name: _aligned(part, X, name) for name, part in groups.items()}
    return [
        delayed(function)(part, {name: blocks[index] for name, blocks in others.items()})
        for index, part in enumerate(_row_partitions(X))
    ]


def _check_partitions(name: str, count: int, wanted: int) -> None:
    if count != wanted:
        raise InvalidInputError(
            f"{name} has {count} partitions but X has {wanted}: take both from the same table, or "
            "give them the same partitions."
        )


def _row_partitions(X: Any) -> list[Any]:
    """Delayed partitions of whole rows."""
    if hasattr(X, "rechunk"):
        return list((X.rechunk({1: -1}) if X.ndim == 2 else X).to_delayed().ravel())
    return list(X.to_delayed(optimize_graph=False))


def _aligned(part: Any, X: Any, name: str) -> list[Any]:
    """Partitions of groups or weights that belong to those of X."""
    from dask import delayed

    count = X.numblocks[0] if hasattr(X, "numblocks") else X.npartitions
    chunks = X.chunks[0] if hasattr(X, "chunks") else (np.nan,)
    known = not np.isnan(chunks).any()
    if is_lazy(part):
        if known and hasattr(part, "rechunk") and not np.isnan(part.chunks[0]).any():
            part = part.rechunk({0: chunks}) if part.shape[0] == X.shape[0] else part
        partitions = _row_partitions(part)
        _check_partitions(name, len(partitions), count)
        if not hasattr(meta := getattr(part, "_meta", None), "iloc"):
            return partitions
        return [delayed(as_declared)(part, meta) for part in partitions]
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


def as_declared(part: Any, meta: Any) -> Any:
    """Cast the number columns of a pandas partition to the types that the whole table has."""
    if meta.ndim == 1:
        return as_declared(part.to_frame(), meta.to_frame()).iloc[:, 0]
    types = {
        name: dtype
        for name, dtype in meta.dtypes.items()
        if getattr(dtype, "kind", "O") in "iufb" and part[name].dtype != dtype
    }
    return part.astype(types) if types and len(part) else part


def _sum_frame(frame: Any, _: Any, *, roles: Roles) -> Partial:
    """Sum a pandas partition that has all columns."""
    arrays = _arrow_columns(frame, list(frame.columns))
    batch = pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))
    return _sum_columns(Columns.of(batch, roles), roles)


def _sum_features(X: Any, groups: Mapping[str, Any], *, roles: Roles) -> Partial:
    """Sum a partition of features with its groups."""
    return _sum_columns(partition_columns(X, groups, roles), roles)


def partition_columns(X: Any, groups: Mapping[str, Any], roles: Roles) -> Columns:
    """Return the columns of a partition of features with its groups."""
    parts = {name: _arrow_columns(part, roles.aligned[name]) for name, part in groups.items()}
    n_rows = X.shape[0]
    for name, column in (item for part in parts.values() for item in part.items()):
        if len(column) != n_rows:
            raise InvalidInputError(
                f"{name} has {len(column)} rows in a partition of {n_rows}: give both the same "
                "chunks."
            )
    features: dict[str, pa.Array] = {}
    matrix: Any = None
    if issparse(X):
        matrix, _ = check_matrix(X)
    else:
        features = _arrow_columns(X, roles.features)
        check_numbers({name: column.type for name, column in features.items()})
    columns = Columns(n_rows, features, {}, *(parts.get(name, {}) for name in PARTS))
    return replace(columns, matrix=matrix)


def _sum_columns(columns: Columns, roles: Roles) -> Partial:
    size = batch_rows(len(roles.columns))
    starts = range(0, max(columns.n_rows, 1), size)
    with single_blas_thread():
        return summarise_batches((columns.slice(start, size) for start in starts), roles)


def _arrow_columns(part: Any, names: Sequence[str]) -> dict[str, pa.Array]:
    """Arrow arrays of the columns of a pandas or NumPy partition, by their places."""
    part = part if hasattr(part, "iloc") else np.asarray(part)
    if part.ndim == 1:
        columns = [part]
    elif hasattr(part, "iloc"):
        columns = [part.iloc[:, index] for index in range(part.shape[1])]
    else:
        columns = list(np.ascontiguousarray(part.T))
    arrays = {}
    for name, column in zip(names, columns, strict=True):
        try:
            arrays[str(name)] = _arrow_column(column)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise InvalidInputError(
                f"column {name!r} holds values of several types ({error}): convert it first."
            ) from None
    return arrays


def _arrow_column(values: Any) -> pa.Array:
    """Convert a column; plain floats are not searched for NaN, which the kernel does if need be."""
    dtype = values.dtype
    if isinstance(dtype, np.dtype) and dtype.kind == "f":
        return pa.array(np.asarray(values))
    array = pa.array(values, from_pandas=True)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
    return decoded(array)


def sample(X: Any) -> Any:
    """No rows of the type, width and names of a collection."""
    if hasattr(X, "_meta") and hasattr(X, "columns"):
        return X._meta
    if getattr(X, "ndim", 2) != 2:
        raise InvalidInputError(f"X has {X.ndim} dimensions: give a table with rows and columns.")
    return np.empty((0, X.shape[1]), dtype=X.dtype)
