"""Moments of CSV files, in bounded memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyarrow import csv

from fairpca.distributed._files import DataFile, Source, find_files
from fairpca.distributed._kernel import batch_rows, rebatch, summarise_batches
from fairpca.distributed._partial import Partial, finish, merge_partials
from fairpca.distributed._plan import MAX_LEVELS, Missing, Names, Plan, make_plan
from fairpca.distributed._progress import Bar, Progress
from fairpca.distributed._stream import READ_ERRORS, unreadable
from fairpca.estimators._limits import MAX_CELLS
from fairpca.exceptions import InvalidInputError
from fairpca.linalg import single_blas_thread
from fairpca.moments import GroupMoments

SUFFIXES = (".csv", ".csv.gz", ".csv.bz2", ".csv.zst")
BLOCK_BYTES = 8 << 20


def moments_from_csv(
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
    separator: str = ",",
    types: Mapping[str, str] | None = None,
    filesystem: Any = None,
    progress: Progress = False,
) -> GroupMoments:
    r"""Sum the rows of CSV files in one pass, in memory that does not grow with them.

    The types of the columns are inferred from the first 8 MB of the first file and hold for all;
    number features are always read as floats.

    Parameters
    ----------
    source : str, path or iterable of them
        Files (``.gz``, ``.bz2`` and ``.zst`` are unpacked on the way), globs, directories or
        addresses, with a header line.
    sensitive, features, control, weight, numeric, categorical, missing, max_cells, max_levels
        As in `moments_from_parquet`.
    separator : str, default ","
        Between the fields.
    types : mapping, optional
        Arrow types by column where the start of the file misleads, such as ``{"zip": "string"}``.
    filesystem, progress
        As in `moments_from_parquet`.

    Returns
    -------
    GroupMoments
        What `GroupMoments.from_arrays` gives for the same rows in memory, but for rounding.

    Examples
    --------
    >>> import os, tempfile
    >>> from pathlib import Path
    >>> from fairpca.distributed import moments_from_csv
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "people.csv")
    ...     _ = file.write_text("height,sex\n1.6,f\n1.8,m\n")
    ...     moments = moments_from_csv(file, sensitive="sex")
    >>> moments.n_samples, moments.levels("sex")
    (2, ('f', 'm'))
    """
    files = find_files(source, SUFFIXES, filesystem)
    given = {name: pa.type_for_alias(kind) for name, kind in (types or {}).items()}
    with _open(files[0], separator, given) as reader:
        schema = reader.schema
    plan = make_plan(
        schema,
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
    kinds = {name: _settled(name, schema, plan) for name in plan.columns} | given
    total = Partial(levels=dict.fromkeys(plan.categorical, ()))
    with Bar(0, progress) as bar, single_blas_thread():
        for file in files:
            total = merge_partials([total, _sum_file(file, plan, separator, kinds, bar)], plan)
    return finish(total, plan)


def csv_columns(file: DataFile, separator: str = ",") -> list[str]:
    """Read the header of a CSV file.

    Parameters
    ----------
    file : DataFile
        The file.
    separator : str, default ","
        Between the fields.

    Returns
    -------
    list of str
        Names of the columns.
    """
    with _open(file, separator, {}) as reader:
        return list(reader.schema.names)


def _settled(name: str, schema: pa.Schema, plan: Plan) -> pa.DataType:
    """Type of a column for the whole pass."""
    kind = schema.field(name).type
    if name in plan.features or name == plan.weight or name in plan.numeric:
        return pa.float64()
    return pa.string() if kind == pa.null() else kind


def _open(
    file: DataFile, separator: str, kinds: Mapping[str, pa.DataType], columns: Any = None
) -> Any:
    try:
        return csv.open_csv(
            file.filesystem.open_input_stream(file.path),
            read_options=csv.ReadOptions(block_size=BLOCK_BYTES),
            parse_options=csv.ParseOptions(delimiter=separator),
            convert_options=csv.ConvertOptions(
                column_types=dict(kinds),
                include_columns=columns,
                # An empty field of text is as absent as one of numbers.
                strings_can_be_null=True,
            ),
        )
    except (*READ_ERRORS, KeyError) as error:
        raise _failure(file, error) from None


def _sum_file(
    file: DataFile, plan: Plan, separator: str, kinds: Mapping[str, pa.DataType], bar: Bar
) -> Partial:
    def batches() -> Iterator[pa.RecordBatch]:
        try:
            with _open(file, separator, kinds, list(plan.columns)) as reader:
                for batch in reader:
                    bar.add(batch.num_rows)
                    yield batch
        except READ_ERRORS as error:
            raise _failure(file, error) from None

    try:
        return summarise_batches(rebatch(batches(), batch_rows(len(plan.columns))), plan)
    except InvalidInputError as error:
        known = str(error).startswith(file.path)
        raise error if known else type(error)(f"{file.path}: {error}") from None


def _failure(file: DataFile, error: BaseException) -> InvalidInputError:
    text = str(error)
    if absent := re.search(r"Column '(.*)' in include_columns", text):
        return InvalidInputError(
            f"{file.path}: column {absent[1]!r} is missing, which the first file has."
        )
    if "conversion error" in text or "onversion" in text:
        reason = " ".join(text.split())
        return InvalidInputError(
            f"{file.path}: {reason}. The types come from the start of the first file: write the "
            "column in one way, or give moments_from_csv its type."
        )
    return unreadable(file.path, "the file", error)
