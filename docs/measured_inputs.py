"""What the guides say of the inputs, from benchmarks/results/inputs.json."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from figures import Rows, markdown, only, values


def _rates(rows: Rows) -> str:
    names = ("processor_seconds", "processor_seconds_to_read", "seconds", "largest_difference")
    lines = [
        [row["input"], str(row["threads"]), _shares(row)] + [f"{row[name]:.2g}" for name in names]
        for row in only(rows, table="streams")
    ]
    rate = "rate, of the Parquet pass: best turns (quartiles of the turns)"
    head = ["input", "threads", rate, "processor seconds", "reading alone"]
    return markdown([*head, "seconds", "largest difference, in deviations"], lines)


def _shares(row: dict) -> str:
    low, _, high = (100 * share for share in row["share_in_turns"])
    return f"{100 * row['share_of_the_parquet_rate']:.0f} % ({low:.0f} to {high:.0f})"


WANTED_SHARE, WANTED_MEGABYTES = 0.8, 600


def _duckdb(rows: Rows) -> str:
    """Return a sentence for each way of connecting: what share of the Parquet rate it reaches."""
    found = [row for row in only(rows, table="streams") if row["input"].startswith("DuckDB")]
    said = []
    for input in values(found, "input"):
        mine = only(found, input=input)
        cases = " and ".join(f"{_shares(row)} with threads={row['threads']}" for row in mine)
        reached = {row["share_of_the_parquet_rate"] >= WANTED_SHARE for row in mine}
        verdict = (
            "reached" if all(reached) else "reached in part" if any(reached) else "not reached"
        )
        said.append(f"{input}: {cases}; the {100 * WANTED_SHARE:.0f} % that we want are {verdict}.")
    return "\n".join(f"- {sentence}" for sentence in said) + "\n"


def _memory(rows: Rows) -> str:
    rows = only(rows, table="memory")
    peaks = {
        (
            row["input"],
            row["rows"],
        ): f"{row['megabytes']:.0f} ({row['megabytes_of_reading']:.0f}) MB"
        for row in rows
    }
    sizes = values(rows, "rows")
    lines = [[input, *(peaks[input, size] for size in sizes)] for input in values(rows, "input")]
    over = {row["input"] for row in rows if row["megabytes"] > WANTED_MEGABYTES}
    listed = "; ".join(input for input in values(rows, "input") if input in over) or "none"
    table = markdown(["input", *(f"{size:,} rows" for size in sizes)], lines)
    return f"{table}\nAbove {WANTED_MEGABYTES} MB: {listed}.\n"


def _server(table: str, ratio: str, words: str, rows: Rows) -> str:
    """Return a sentence about PostgreSQL or Spark, whose work other processes do."""
    found = [words.format(row[ratio], **row) for row in only(rows, table=table)]
    return found[0] + "\n" if found else "*Not measured yet.*\n"


COPY = (
    "PostgreSQL, `open_query`: {rows:,} rows in {seconds:.1f} s, {:.0%} of the rate at which "
    "`COPY … TO STDOUT (FORMAT binary)` alone delivers them, in {megabytes:.0f} MB; load {load:g}."
)
STAGE = (
    "The stage, solve and model included, takes {:.2f} times as long as `moments_from_spark` on "
    "the same table, by the best turn of each ({rows:,} rows "
    "of 50 features, `local[2]`, {seconds:.1f} s, load {load:g}); quartiles of {turns} turns, in "
    "each of which both ran: {ratio_in_turns[0]:.2f} to {ratio_in_turns[2]:.2f}."
)

PIECES: dict[str, tuple[str, Callable[[Rows], str]]] = {
    "inputs_rates": ("inputs", _rates),
    "inputs_duckdb": ("inputs", _duckdb),
    "inputs_memory": ("inputs", _memory),
    "inputs_copy": ("inputs", partial(_server, "postgresql", "share_of_the_copy_rate", COPY)),
    "inputs_stage": ("inputs", partial(_server, "spark", "stage_against_moments", STAGE)),
}
