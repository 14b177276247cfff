"""What goes wrong names the file; what was done is kept; nothing half-written is left."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_support import FEATURES, assert_same_moments, in_memory, people, write_files

from fairpca.exceptions import DroppedRowsWarning, InvalidInputError
from fairpca.tables import moments_from_parquet


def damage(path, group):
    """Overwrite bytes in the middle of a row group."""
    column = pq.read_metadata(path).row_group(group).column(1)
    content = bytearray(path.read_bytes())
    start = column.data_page_offset + column.total_compressed_size // 2
    content[start : start + 40] = bytes(range(100, 140))
    path.write_bytes(content)


def bits(moments):
    return {key: cell.scatter.tobytes() for key, cell in moments.table.cells.items()}


@pytest.fixture
def table(tmp_path):
    frame = people(900)
    return frame, write_files(
        frame, tmp_path / "table", [300, 300, 300], 50, write_page_checksum=True
    )


@pytest.mark.parametrize("threads", [1, 3])
def test_a_damaged_row_group_names_the_file(table, threads):
    _, folder = table
    damage(folder / "part-01.parquet", 2)
    with pytest.raises(InvalidInputError, match=r"part-01\.parquet: row group 2 cannot be read"):
        moments_from_parquet(folder, ["sex"], FEATURES, threads=threads)


@pytest.mark.parametrize("size", [0, 3, 2000])
def test_a_truncated_file_is_named(table, size):
    _, folder = table
    path = folder / "part-02.parquet"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(InvalidInputError, match=r"part-02\.parquet: the file cannot be read"):
        moments_from_parquet(folder, ["sex"], FEATURES)


def test_a_missing_column_names_the_file(table):
    frame, folder = table
    frame.iloc[:50].drop(columns="b").to_parquet(folder / "part-07.parquet")
    with pytest.raises(InvalidInputError, match=r"part-07\.parquet: column 'b' is missing, which"):
        moments_from_parquet(folder, ["sex"], FEATURES)
    assert moments_from_parquet(folder, ["sex"], ["a", "c"]).n_samples == 950


@pytest.mark.parametrize(
    ("column", "kind"), [("b", "float32"), ("race", "float64"), ("race", "str"), ("b", "str")]
)
def test_another_type_names_the_file(table, column, kind):
    frame, folder = table
    frame.iloc[:50].astype({column: kind}).to_parquet(folder / "part-07.parquet")
    with pytest.raises(InvalidInputError, match=rf"part-07\.parquet: column '{column}' is .*, but"):
        moments_from_parquet(folder, ["race"], FEATURES)


def test_errors_inside_a_file_name_it(table):
    frame, folder = table
    bad = frame.iloc[:50].copy()
    bad.loc[7, "c"] = np.inf
    bad.to_parquet(folder / "part-08.parquet")
    with pytest.raises(InvalidInputError, match=r"part-08\.parquet: column 'c' holds infinite"):
        moments_from_parquet(folder, ["sex"], FEATURES)
    bad = frame.iloc[:50].copy()
    bad.loc[7, "w"] = -1.0
    bad.to_parquet(folder / "part-08.parquet")
    with pytest.raises(InvalidInputError, match=r"part-08\.parquet: .*negative"):
        moments_from_parquet(folder, ["sex"], FEATURES, weight="w")


@pytest.mark.parametrize("threads", [1, 3])
def test_a_pass_goes_on_after_the_file_is_mended(table, tmp_path, threads):
    frame, folder = table
    given = {"sensitive": ["sex"], "features": FEATURES, "threads": threads}
    whole = moments_from_parquet(folder, **given)
    path = folder / "part-01.parquet"
    sound = path.read_bytes()
    damage(path, 3)
    kept = {"checkpoint": tmp_path / "kept", "checkpoint_seconds": 0.0}
    with pytest.raises(InvalidInputError, match="row group 3"):
        moments_from_parquet(folder, **given, **kept)
    state = json.loads((tmp_path / "kept" / "state.json").read_text())
    assert (len(state["files"]), state["groups"]) == (1, 3)
    path.write_bytes(sound)
    calls = []
    mended = moments_from_parquet(folder, **given, **kept, progress=lambda *x: calls.append(x))
    # The first file is not read again; the mended one is, since it may have changed anywhere.
    assert calls[-1] == (600, 600)
    assert bits(mended) == bits(whole)
    assert_same_moments(mended, in_memory(frame, ["sex"]))
    assert not (tmp_path / "kept").exists()


def test_an_unchanged_file_goes_on_at_its_row_group(table, tmp_path):
    _, folder = table
    whole = moments_from_parquet(folder, ["sex"], FEATURES)

    def stop(done, total):
        if done == 450:
            raise KeyboardInterrupt

    kept = {"checkpoint": tmp_path / "kept", "checkpoint_seconds": 1e9}
    with pytest.raises(KeyboardInterrupt):
        moments_from_parquet(folder, ["sex"], FEATURES, progress=stop, **kept)
    calls = []
    found = moments_from_parquet(
        folder, ["sex"], FEATURES, progress=lambda *x: calls.append(x), **kept
    )
    assert calls[-1] == (450, 450)
    assert bits(found) == bits(whole)


def test_indicators_and_counts_survive_a_checkpoint(table, tmp_path):
    frame, folder = table
    frame.loc[600:, "city"] = "east"
    frame.loc[[10, 20, 700], "a"] = None
    write_files(frame, folder, [300, 300, 300], 50)
    given = {
        "sensitive": ["sex"],
        "features": FEATURES,
        "categorical": ["city"],
        "missing": "drop-rows",
    }
    with pytest.warns(DroppedRowsWarning, match="3 of 900 rows have missing values"):
        whole = moments_from_parquet(folder, **given)
    sound = (folder / "part-02.parquet").read_bytes()
    damage(folder / "part-02.parquet", 4)
    with pytest.raises(InvalidInputError, match="part-02"):
        moments_from_parquet(folder, **given, checkpoint=tmp_path / "kept")
    (folder / "part-02.parquet").write_bytes(sound)
    with pytest.warns(DroppedRowsWarning, match="3 of 900 rows have missing values"):
        found = moments_from_parquet(folder, **given, checkpoint=tmp_path / "kept")
    assert found.feature_names == (*FEATURES, "city=east", "city=north", "city=south")
    assert bits(found) == bits(whole)


@pytest.fixture
def interrupted(table, tmp_path):
    """A checkpoint of a pass that stopped in the third file."""
    frame, folder = table

    def stop(done, total):
        if done == 700:
            raise KeyboardInterrupt

    given = {"sensitive": ["sex"], "features": FEATURES, "checkpoint": tmp_path / "kept"}
    with pytest.raises(KeyboardInterrupt):
        moments_from_parquet(folder, **given, progress=stop)
    return frame, folder, given


def test_a_file_changed_after_it_was_summed_is_an_error(interrupted):
    frame, folder, given = interrupted
    frame.iloc[:200].to_parquet(folder / "part-00.parquet")
    with pytest.raises(InvalidInputError, match=r"part-00\.parquet has changed"):
        moments_from_parquet(folder, **given)


def test_a_file_that_is_gone_is_an_error(interrupted):
    _, folder, given = interrupted
    (folder / "part-01.parquet").unlink()
    with pytest.raises(InvalidInputError, match=r"part-01\.parquet has changed \(or moved\)"):
        moments_from_parquet(folder, **given)
    (folder / "part-02.parquet").unlink()
    with pytest.raises(InvalidInputError, match=r"part-01\.parquet is in the checkpoint"):
        moments_from_parquet(folder, **given)


def test_another_request_is_an_error(interrupted):
    _, folder, given = interrupted
    with pytest.raises(InvalidInputError, match="other columns or options"):
        moments_from_parquet(folder, **{**given, "sensitive": ["race"]})


def test_a_damaged_checkpoint_is_an_error(interrupted):
    _, folder, given = interrupted
    (given["checkpoint"] / "state.json").write_text("{")
    with pytest.raises(InvalidInputError, match="is not a checkpoint"):
        moments_from_parquet(folder, **given)


def test_files_that_came_later_are_read_too(interrupted):
    _, folder, given = interrupted
    more = people(100, seed=9)
    more.to_parquet(folder / "part-09.parquet")
    found = moments_from_parquet(folder, **given)
    assert found.n_samples == 1000


SCRIPT = """
import sys, time
from fairpca.tables import moments_from_parquet
def slow(done, total):
    print(done, flush=True)
    time.sleep(0.05)
moments_from_parquet(sys.argv[1], ["sex"], ["a", "b", "c", "d"], progress=slow,
                     checkpoint=sys.argv[2], checkpoint_seconds=0.0)
"""


@pytest.mark.slow  # the quick tests interrupt a pass in their own process
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_a_killed_process_goes_on(table, tmp_path, sent):
    _, folder = table
    kept = tmp_path / "kept"
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(folder), str(kept)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        # A shell that runs the tests in the background has them ignore interrupts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        for line in process.stdout:
            if int(line) >= 400:
                process.send_signal(sent)
                break
        process.wait(timeout=60)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert process.returncode != 0
    calls = []
    found = moments_from_parquet(
        folder, ["sex"], FEATURES, checkpoint=kept, progress=lambda *x: calls.append(x)
    )
    assert calls[-1][1] <= 500  # at least 400 of the 900 rows were not read again
    assert bits(found) == bits(moments_from_parquet(folder, ["sex"], FEATURES))


def test_states_are_not_kept_more_often_than_asked(table, tmp_path):
    _, folder = table
    seen = []

    def look(done, total):
        seen.append((tmp_path / "kept").exists())

    moments_from_parquet(
        folder,
        ["sex"],
        FEATURES,
        checkpoint=tmp_path / "kept",
        checkpoint_seconds=60,
        progress=look,
    )
    assert not any(seen)


def test_old_states_are_removed(table, tmp_path):
    _, folder = table
    counts = []

    def look(done, total):
        counts.append(len(list((tmp_path / "kept").glob("*"))))
        time.sleep(0.001)

    moments_from_parquet(
        folder, ["sex"], FEATURES, checkpoint=tmp_path / "kept", checkpoint_seconds=0, progress=look
    )
    assert max(counts) == 3  # the state, the total and the current file


def test_a_foreign_directory_is_left_alone(table, tmp_path):
    _, folder = table
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "mine.txt").write_text("mine")
    moments_from_parquet(folder, ["sex"], FEATURES, checkpoint=kept, checkpoint_seconds=0)
    assert [file.name for file in kept.iterdir()] == ["mine.txt"]


def test_a_file_that_is_not_parquet(tmp_path):
    (tmp_path / "x.parquet").write_text("a,b\n1,2\n")
    with pytest.raises(InvalidInputError, match=r"x\.parquet: the file cannot be read"):
        moments_from_parquet(tmp_path, ["b"])


def test_nested_columns_are_no_features(tmp_path):
    table = pa.table({"a": [1.0, 2.0], "s": [{"x": 1}, {"x": 2}], "g": ["u", "v"]})
    pq.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(InvalidInputError, match=r"not numbers: 's' \(struct"):
        moments_from_parquet(tmp_path, ["g"])
    assert moments_from_parquet(tmp_path, ["g"], ["a"]).n_samples == 2
