"""The way back: component columns for the rows of a table, written as they are read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pyarrow.types as kinds
from pyarrow import fs

from fairpca._choices import HELD_OUT, MISSING, UNKNOWN, Missing, Unknown
from fairpca._files import check_place, exists_error, replacing
from fairpca._present import Counter, Progress
from fairpca.exceptions import (
    DroppedRowsWarning,
    ImputedValuesWarning,
    InvalidInputError,
    warn_user,
)
from fairpca.linalg import single_blas_thread
from fairpca.rows._checks import scored_text
from fairpca.tables._files import SUFFIXES, open_filesystem, resolved
from fairpca.tables._kernel import held_out_column
from fairpca.tables._model import AnyModel, read_model
from fairpca.tables._roles import Columns, Names, Roles, as_names, check_choice, is_text
from fairpca.tables.table import Table

OUTPUTS = (".csv", ".csv.gz", ".parquet", ".feather", ".arrow")

# Numbers that are scored and written at once, a row group of a Parquet file: 64 MB of float64.
WRITE_ELEMENTS = 1 << 23

# What a spreadsheet takes for the beginning of a formula, unless it is a number.
_FORMULA, _NUMBER = r"^[=+\-@\t\r]", r"^[+\-]?[0-9.]+([eE][+\-]?[0-9]+)?$"


def project_table(
    table: Table,
    model: AnyModel,
    out: str | os.PathLike[str],
    *,
    keep: Names = (),
    force: bool = False,
    missing: Missing | None = None,
    unknown: Unknown = "error",
    safe_csv: bool = False,
    held_out: Roles | None = None,
    filesystem: Any = None,
    progress: Progress | None = None,
) -> Path:
    """Write the scores of the rows of a table, in bounded memory.

    The suffix of `out` decides the format: ``.csv``, ``.csv.gz``, ``.parquet``, ``.feather``
    or ``.arrow``; any other name is a directory with the same files below it, where the table is
    a directory of Parquet files. It appears complete or not at all. Returns `out`.

    Parameters
    ----------
    table : Table
        What `open_table` returned.
    model : FairPCA, str or path
        The fitted model, or a file written by its `save` method. Rows are standardised if the
        file says so; indicator features are formed from their columns.
    out : str or path
        File or directory to write, or an address that pyarrow knows.
    keep : str or iterable of str, default ()
        Columns to copy, which come before the components; "*" copies all.
    force : bool, default False
        Whether what is there may be replaced.
    missing : {"error", "drop-rows", "mean"}, optional
        What happens to rows that lack a feature; None: what the model says, but for "drop-rows",
        by which rows are left out of a fit only: they get a score here, as by `transform`. Under
        "mean" the mean that the model has learned takes the place.
    unknown : {"error", "ignore"}, default "error"
        What happens to values of a categorical column that the model has not seen; "ignore"
        takes them for none of those it knows.
    safe_csv : bool, default False
        Whether text that a spreadsheet would run as a formula gets an apostrophe in front, in CSV
        files; no other program then reads what was there.
    held_out : Roles, optional
        The roles of a fit that held rows out, for a last column ``held_out`` that says which.
    filesystem, progress
        As in `moments_from_files`.

    See Also
    --------
    project_into : The same into a database.
    moments_from_files : What the components are fitted from.

    Examples
    --------
    >>> import os, tempfile
    >>> import pandas as pd, pyarrow as pa
    >>> from fairpca import FairPCA
    >>> from fairpca.tables import open_table, project_table
    >>> frame = pd.DataFrame({"a": [1.0, 2, 4, 3], "b": [0.0, 1, 1, 0], "z": list("xyxy")})
    >>> fair = FairPCA(1).fit(frame[["a", "b"]], sensitive_features=frame["z"])
    >>> table = open_table(pa.Table.from_pandas(frame))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     out = project_table(table, fair, os.path.join(folder, "reduced.csv"), keep="z")
    ...     list(pd.read_csv(out))
    ['z', 'fairpca0']
    """
    check_target(table, out, force=force, filesystem=filesystem)
    job = Job(table, model, keep, missing, unknown, as_text=_is_csv(out), held_out=held_out)
    system, path = open_filesystem(os.fspath(out), filesystem)
    is_file = path.lower().endswith(OUTPUTS)
    is_local = is_file and isinstance(system, fs.LocalFileSystem)
    counter = Counter(table.n_rows, progress)
    with replacing(path, None if is_local else system) as temporary, single_blas_thread():
        place = os.fspath(temporary)
        if is_file:
            safe = _without_formulas if safe_csv and _is_csv(out) else (lambda batch: batch)
            schema = safe(pa.RecordBatch.from_pylist([], schema=job.schema)).schema
            with open_writer(system, place, path, schema) as writer:
                for batch in job.batches(table.parts, counter):
                    writer.write_batch(safe(batch))
        else:
            for part in table.parts:  # the hive keys of a file are in its path
                schema = job.schema_without(part.keys)
                target = f"{place}/{part.relative}"
                with open_writer(system, target, ".parquet", schema) as writer:
                    for batch in job.batches([part], counter, schema):
                        writer.write_batch(batch)
        if is_local and Path(path).exists() and not force:  # it may have appeared meanwhile
            raise exists_error(path, "out")
    job.warn_of_incomplete()
    return Path(out)


class Job:
    """A table, a model bound to its columns, and the columns to write."""

    def __init__(
        self,
        table: Table,
        model: AnyModel,
        keep: Names,
        missing: Missing | None = None,
        unknown: Unknown = UNKNOWN[0],
        as_text: bool = False,
        held_out: Roles | None = None,
    ) -> None:
        if missing is not None:
            check_choice("missing", missing, MISSING)
        check_choice("unknown", unknown, UNKNOWN)
        self.table, self.held_out = table, held_out
        self.projection = read_model(model).bind(table.schema, missing, unknown)
        self.kept = self._kept_columns(keep, as_text)
        self.incomplete = 0  # rows that lack a feature, so far
        copied = [name for name in self.kept if name not in self.projection.columns]
        numbers = {name for _, name in self.projection.plain}
        # Whole numbers at the start of a CSV file may be followed by others; what is only copied
        # from text to text stays as it was written.
        self.wanted = table.read_as(
            (*self.projection.columns, *copied), numbers, copied if as_text else ()
        )
        table.check_columns(self.wanted.names)
        self.schema = self.schema_without(())

    def _kept_columns(self, keep: Names, as_text: bool) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(self.table.names if keep == "*" else as_names(keep)))
        unknown = [name for name in names if name not in self.table.names]
        marks = () if self.held_out is None else (HELD_OUT,)
        clash = [name for name in names if name in (*self.projection.output_names, *marks)]
        nested = [f.name for f in self.table.schema if f.name in names and kinds.is_nested(f.type)]
        if unknown:
            problem = f"{self.table.name} has no columns {unknown} to keep."
        elif clash:
            problem = f"column {clash[0]!r} has the name of a new column: rename or do not keep it."
        elif as_text and nested:
            problem = f"CSV cannot hold the values of {nested}: write Parquet instead."
        else:
            return names
        raise InvalidInputError(problem, parameter="keep")

    def schema_without(self, absent: Iterable[str]) -> pa.Schema:
        """Columns of the output, but for some of the kept ones."""
        kept = [self.wanted.field(name) for name in self.kept if name not in absent]
        scores = [pa.field(name, pa.float64()) for name in self.projection.output_names]
        marks = [] if self.held_out is None else [pa.field(HELD_OUT, pa.bool_())]
        return pa.schema(kept + scores + marks)

    def batches(
        self, parts: Iterable[Any], counter: Counter, schema: pa.Schema | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Score the rows of some parts, a batch at a time; errors name the file."""
        schema = self.schema if schema is None else schema
        rows = int(np.clip(WRITE_ELEMENTS // max(len(self.wanted), 1), 1024, 1 << 17))
        for part in parts:
            marks: Iterator[Any] = repeat(None)
            if self.held_out is not None:  # read again, as the types that the fit has seen
                marks = part.batches(self.table.role_schema(self.held_out), rows)
            for batch, roles in zip(part.batches(self.wanted, rows), marks, strict=False):
                if self.held_out is not None:
                    mark = held_out_column(Columns.of(roles, self.held_out), self.held_out)
                    batch = batch.append_column(HELD_OUT, mark)
                try:
                    complete, incomplete = self.projection.complete(batch)
                    scores = self.projection.scores(complete)
                except InvalidInputError as error:
                    raise error.at(part.path) from None
                self.incomplete += incomplete
                new = dict(zip(self.projection.output_names, scores.T, strict=True))
                arrays = [
                    pa.array(new[field.name])
                    if field.name in new
                    else complete.column(field.name).cast(field.type)
                    for field in schema
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
                counter.add(complete.num_rows)

    def warn_of_incomplete(self) -> None:
        """Say how many rows lack a feature, and what became of them."""
        if self.incomplete and self.projection.says_imputed:
            warn_user(scored_text(self.incomplete), ImputedValuesWarning)
        elif self.incomplete:
            message = f"{self.incomplete:,} rows lack a feature and were left out."
            warn_user(message, DroppedRowsWarning)


def _is_csv(path: str | os.PathLike[str]) -> bool:
    return os.fspath(path).lower().endswith(SUFFIXES["csv"])


@contextmanager
def open_writer(system: Any, place: str, name: str, schema: pa.Schema) -> Iterator[Any]:
    """Open a file of the kind that a name tells."""
    folder = place.rpartition("/")[0]
    if folder:
        system.create_dir(folder, recursive=True)
    packed = "gzip" if name.lower().endswith(".gz") else None
    with system.open_output_stream(place, compression=packed) as stream:
        if name.lower().endswith(SUFFIXES["parquet"]):
            writer: Any = pq.ParquetWriter(stream, schema)
        elif _is_csv(name):
            writer = pa_csv.CSVWriter(stream, schema)
        else:
            writer = pa.ipc.new_file(stream, schema)
        with writer:
            yield writer


def _without_formulas(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Put an apostrophe before text, in names and values, that begins like a formula."""
    columns = []
    for column in batch.columns:
        if is_text(column.type):
            text = column.cast(pa.string())
            formula = pc.match_substring_regex(text, _FORMULA)
            number = pc.match_substring_regex(text, _NUMBER)
            marked = pc.binary_join_element_wise("'", text, "")
            column = pc.if_else(pc.and_not(formula, number), marked, text)
        columns.append(column)
    names = [f"'{name}" if re.match(_FORMULA, name) else name for name in batch.schema.names]
    return pa.RecordBatch.from_arrays(columns, names=names)


def check_target(
    table: Table, out: str | os.PathLike[str], *, force: bool = False, filesystem: Any = None
) -> None:
    """Refuse what `project_table`, with these parameters, could not or must not write."""
    name = os.fspath(out)
    system, path = open_filesystem(name, filesystem)
    is_file = name.lower().endswith(OUTPUTS)
    if not is_file and (table.files is None or table.files.single or table.kind != "parquet"):
        raise _refused(f"{name}: the suffix decides the format: use one of {', '.join(OUTPUTS)}.")
    if isinstance(system, fs.LocalFileSystem):
        check_place(name, "out", force=True)
    place = resolved(system, path)
    for part in () if table.files is None else table.parts:
        source = resolved(part.filesystem, part.path)
        if source == place or source.startswith(f"{place}/"):
            raise _refused(f"{name} is or holds the input: choose another target.")
    if not is_file:
        _check_directory(table, name, place)
    info = system.get_file_info(path)
    if info.type == fs.FileType.NotFound:
        return
    if (info.type == fs.FileType.Directory) == is_file:
        kind, other = ("directory", "file") if is_file else ("file", "directory")
        raise _refused(f"{name} is a {kind}, not a {other}.")
    if not force:
        raise exists_error(name, "out")
    below = () if is_file else system.get_file_info(fs.FileSelector(path, recursive=True))
    for info in below:  # all of which would be removed
        if info.type == fs.FileType.File and not info.path.lower().endswith(SUFFIXES["parquet"]):
            raise _refused(
                f"{path!r} holds {info.base_name!r}, which is no Parquet file: it is not replaced, "
                "remove it first."
            )


def _refused(problem: str) -> InvalidInputError:
    return InvalidInputError(problem, parameter="out")


def _check_directory(table: Table, name: str, place: str) -> None:
    """Refuse a directory inside the input, and two files that would become one."""
    if table.files is not None and any(place.startswith(f"{f}/") for f in table.files.folders):
        raise _refused(f"{name} lies inside the input: choose another target.")
    relative = [part.relative for part in table.parts]
    if len(set(relative)) < len(relative):
        twice = next(name for name in relative if relative.count(name) > 1)
        raise _refused(
            f"several inputs are called {twice!r}, which would be one file in {name}: transform "
            "them one by one."
        )
