"""Moments of Parquet files of any size, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fairpca.distributed._checkpoint import Checkpoint, State
from fairpca.distributed._files import Source, find_files
from fairpca.distributed._kernel import summarise_batches
from fairpca.distributed._partial import Partial, finish, merge_partials
from fairpca.distributed._plan import MAX_LEVELS, Missing, Names, Plan, make_plan
from fairpca.distributed._progress import Bar, Progress
from fairpca.distributed._stream import (
    ParquetPart,
    affordable_threads,
    check_same_columns,
    default_threads,
    in_order,
    open_part,
    row_group_batches,
)
from fairpca.estimators._limits import MAX_CELLS
from fairpca.exceptions import InvalidInputError
from fairpca.linalg import single_blas_thread
from fairpca.moments import GroupMoments

SUFFIXES = (".parquet", ".parq", ".pq")


def moments_from_parquet(
    source: Source,
    sensitive: Names,
    features: Names = None,
    control: Names = None,
    weight: str | None = None,
    *,
    numeric: Names = None,
    categorical: Names = None,
    missing: Missing = "error",
    max_cells: int = MAX_CELLS,
    max_levels: int = MAX_LEVELS,
    filesystem: Any = None,
    threads: int | None = None,
    progress: Progress = False,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = 5.0,
) -> GroupMoments:
    """Sum the rows of Parquet files in one pass, in memory that does not grow with them.

    Parameters
    ----------
    source : str, path or iterable of them
        Files, globs, directories (with ``key=value`` directories as columns) or addresses that
        pyarrow knows, such as ``s3://bucket/table``.
    sensitive : str or iterable of str
        Protected attributes. Their groups are found on the way.
    features : iterable of str, optional
        Features; None: every column that has no other part. Other columns are not read.
    control : str or iterable of str, optional
        Strata.
    weight : str, optional
        Column of weights ≥ 0; rows of weight zero are left out altogether.
    numeric : iterable of str, optional
        Sensitive columns that are numbers whatever their type.
    categorical : iterable of str, optional
        Features that become one indicator ``column=value`` for each of their values.
    missing : {"error", "drop-rows"}, default "error"
        "error" counts the missing values of all columns and raises; "drop-rows" leaves the rows
        out and warns with their number.
    max_cells : int, default 1000
        Largest number of distinct combinations of groups.
    max_levels : int, default 1000
        Largest number of values of a categorical feature.
    filesystem : pyarrow or fsspec file system, optional
        Where plain paths lie; None: the local disk.
    threads : int, optional
        Row groups that are read and summed at the same time; None: one for each core, at most 8.
        Fewer where the table is so wide that their readers would be felt in memory. The result
        does not depend on it.
    progress : bool or callable, default False
        True draws a bar on standard error; a function is called with rows done and rows in all.
    checkpoint : str or path, optional
        Directory in which the sums so far are kept, so that a pass that was interrupted, or that
        met a damaged file, goes on where it stopped when called again. Removed at the end.
    checkpoint_seconds : float, default 5.0
        Shortest time between two states on disk; 0 keeps one after every row group.

    Returns
    -------
    GroupMoments
        What `GroupMoments.from_arrays` gives for the same rows in memory, but for rounding.

    Raises
    ------
    InvalidInputError
        Naming the file where one cannot be read, lacks a column or has another type.

    Examples
    --------
    >>> import os, tempfile
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> from fairpca.distributed import moments_from_parquet
    >>> table = pa.table({"height": [1.6, 1.8, 1.7], "sex": ["f", "m", "f"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(table, os.path.join(folder, "people.parquet"))
    ...     moments = moments_from_parquet(folder, sensitive=["sex"])
    >>> moments.n_samples, moments.feature_names, moments.levels("sex")
    (3, ('height',), ('f', 'm'))
    """
    threads = default_threads() if threads is None else max(int(threads), 1)
    files = find_files(source, SUFFIXES, filesystem)
    parts = list(in_order(open_part, files, threads))
    plan = make_plan(
        parts[0].schema,
        sensitive,
        features=features,
        control=control,
        weight=weight,
        numeric=numeric,
        categorical=categorical,
        missing=missing,
        max_cells=max_cells,
        max_levels=max_levels,
    )
    for part in parts[1:]:
        check_same_columns(parts[0], part, plan.columns)
    parts = [part for part in parts if part.rows] or parts[:1]  # some writers leave empty files
    readers = affordable_threads(parts[0], plan.columns, threads)
    kept = None
    if checkpoint is not None:
        kept = Checkpoint(checkpoint, plan.as_dict(), checkpoint_seconds)
    with Bar(sum(sum(part.rows) for part in parts), progress) as bar, single_blas_thread():
        total = _run(parts, plan, readers, threads, bar, kept)
    moments = finish(total, plan)
    if kept is not None:
        kept.remove()
    return moments


def _run(
    parts: list[ParquetPart],
    plan: Plan,
    readers: int,
    threads: int,
    bar: Bar,
    kept: Checkpoint | None,
) -> Partial:
    """Sum all row groups in order, from wherever an earlier pass has stopped."""
    state = State()
    if kept is not None:
        state = kept.load([part.file.fingerprint for part in parts])
    for partial in (state.total, state.current):
        bar.skip(0 if partial is None else partial.n_rows)
    units = _units(parts, len(state.files), state.groups)
    # Where there are fewer readers than threads, Arrow decodes the columns of a batch in parallel.
    spare = min(readers, sum(len(part.rows) for part in parts)) < threads
    failing = False  # read by the threads: after a missing value rows are only counted

    def work(unit: tuple[int, int]) -> Partial:
        part = parts[unit[0]]
        batches = row_group_batches(part, unit[1], plan.columns, use_threads=spare)
        try:
            return summarise_batches(batches, plan, counting=failing)
        except InvalidInputError as error:
            # Reading errors name the file already.
            known = str(error).startswith(part.file.path)
            raise error if known else type(error)(f"{part.file.path}: {error}") from None

    try:
        for (file, _), result in _pairs(work, units, readers):
            state = _advance(state, parts[file], result, plan)
            failing = failing or (plan.missing == "error" and bool(result.missing))
            if kept is not None and not failing:
                kept.save(state)
            bar.add(result.n_rows)
    finally:
        if kept is not None and not failing and (state.files or state.groups):
            kept.save(state, now=True)
    done = [partial for partial in (state.total, state.current) if partial is not None]
    return merge_partials(done, plan) if done else Partial()


def _units(parts: list[ParquetPart], first_file: int, first_group: int) -> list[tuple[int, int]]:
    """Row groups left to read, as numbers of file and row group."""
    return [
        (file, group)
        for file in range(first_file, len(parts))
        for group in range(first_group if file == first_file else 0, len(parts[file].rows))
    ]


def _pairs(work: Any, units: list[tuple[int, int]], threads: int) -> Iterator[Any]:
    return zip(units, in_order(work, units, threads), strict=True)


def _advance(state: State, part: ParquetPart, result: Partial, plan: Plan) -> State:
    """Add a row group to the state; a complete file joins the total."""
    current = result if state.current is None else merge_partials([state.current, result], plan)
    groups = state.groups + 1
    if groups < len(part.rows):
        return replace(state, current=current, current_file=part.file.fingerprint, groups=groups)
    total = current if state.total is None else merge_partials([state.total, current], plan)
    return State(total=total, files=(*state.files, part.file.fingerprint))
