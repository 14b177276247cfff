"""What the guides say of the doors, from benchmarks/results/doors.json."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from figures import Rows, markdown, only, values


def _rates(rows: Rows) -> str:
    names = ("processor_seconds", "processor_seconds_to_read", "seconds", "largest_difference")
    lines = [
        [row["door"], str(row["threads"]), f"{100 * row['share_of_the_parquet_rate']:.0f} %"]
        + [f"{row[name]:.2g}" for name in names]
        for row in only(rows, table="streams")
    ]
    head = ["door", "threads", "rate, of the Parquet pass", "processor seconds", "reading alone"]
    return markdown([*head, "seconds", "largest difference, in deviations"], lines)


def _memory(rows: Rows) -> str:
    rows = only(rows, table="memory")
    peaks = {(row["door"], row["rows"]): row["megabytes"] for row in rows}
    sizes = values(rows, "rows")
    lines = [
        [door, *(f"{peaks[door, size]:.0f} MB" for size in sizes)] for door in values(rows, "door")
    ]
    return markdown(["door", *(f"{size:,} rows" for size in sizes)], lines)


def _server(table: str, ratio: str, words: str, rows: Rows) -> str:
    """Return a sentence about PostgreSQL or Spark, whose work other processes do."""
    found = [words.format(row[ratio], **row) for row in only(rows, table=table)]
    return found[0] + "\n" if found else "*Not measured yet.*\n"


COPY = (
    "PostgreSQL, `open_query`: {rows:,} rows in {seconds:.1f} s, {:.0%} of the rate at which "
    "`COPY … TO STDOUT (FORMAT binary)` alone delivers them, in {megabytes:.0f} MB; load {load:g}."
)
STAGE = (
    "The stage takes {:.2f} times as long as `moments_from_spark` on the same table ({rows:,} rows "
    "of 50 features, `local[2]`, {seconds:.1f} s, load {load:g})."
)

PIECES: dict[str, tuple[str, Callable[[Rows], str]]] = {
    "doors_rates": ("doors", _rates),
    "doors_memory": ("doors", _memory),
    "doors_copy": ("doors", partial(_server, "postgresql", "share_of_the_copy_rate", COPY)),
    "doors_stage": ("doors", partial(_server, "spark", "stage_against_moments", STAGE)),
}
