"""Run experiments cell by cell: resumable, in several processes, with a manifest."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import platform
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from fairpca._progress import Progress
from fairpca.datasets import dataset_info, load_dataset
from fairpca.datasets._load import find_file
from fairpca.exceptions import InvalidInputError
from fairpca.experiments import NAMES
from fairpca.experiments._experiment import (
    BASES,
    CODE_VERSION,
    Cell,
    Experiment,
    Options,
    Row,
    Store,
    digest,
    write_atomically,
    write_csv,
)
from fairpca.experiments._methods import SEED

EXPERIMENTS: dict[str, Experiment] = {
    name: import_module(f"fairpca.experiments.{name}").EXPERIMENT for name in NAMES
}
_ALL = {**EXPERIMENTS, "bases": BASES}
_PACKAGES = ("fairpca", "numpy", "scipy", "scikit-learn", "pandas", "matplotlib")

_Task = tuple[Cell, Options, str, str]


def fingerprint(options: Options) -> str:
    """Hash of everything that a stored cell depends on."""
    sums = {name: dataset_info(name).sha256 for name in _datasets(_ALL.values())}
    relevant = {k: v for k, v in options.as_dict().items() if k != "splits"}
    return digest([CODE_VERSION, SEED, relevant, sums, version("fairpca")])


def run(
    names: Sequence[str],
    options: Options,
    out: str | os.PathLike[str],
    *,
    jobs: int = 1,
    progress: Progress | None = None,
    started: Callable[[str], None] | None = None,
) -> list[Path]:
    """Compute what is missing and write the numbers and the manifest.

    Parameters
    ----------
    names : sequence of str
        Names out of `EXPERIMENTS`; "all" stands for all of them.
    options : Options
        What the numbers depend on.
    out : path
        Folder for the results; finished cells are kept in its subfolder ``cells``.
    jobs : int, default=1
        Processes.
    progress : callable, default=None
        Called with the cells done and the cells in all.
    started : callable, default=None
        Called with the names of the cells that are running, whenever that changes.

    Returns
    -------
    list of pathlib.Path
        The files written, cells aside.

    Examples
    --------
    >>> import tempfile
    >>> from fairpca.experiments import Options, run
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = run(["figure1"], Options(quick=True), folder)
    ...     sorted(path.name for path in files)
    ['figure1.csv', 'manifest.json']
    """
    chosen = choose(names)
    folder = Path(out)
    store = Store(folder / "cells", fingerprint(options))
    cells = [cell for experiment in chosen for cell in experiment.cells(options)]
    _compute_missing(_first_needed(chosen, options), cells, options, store, jobs, progress, started)
    files = []
    for experiment in chosen:
        rows = collect(experiment, options, store)
        path = folder / f"{experiment.name}.csv"
        write_csv(path, rows, list(experiment.columns))
        files.append(path)
    return [*files, _write_manifest(folder, chosen, options, store)]


def choose(names: Sequence[str]) -> list[Experiment]:
    """Look up experiments by name, in the order of the paper."""
    unknown = [name for name in names if name not in EXPERIMENTS and name != "all"]
    if unknown:
        raise InvalidInputError(
            f"there is no experiment called {unknown[0]!r}; choose from "
            f"{', '.join(EXPERIMENTS)} or all."
        )
    return [e for e in EXPERIMENTS.values() if "all" in names or e.name in names]


def collect(experiment: Experiment, options: Options, store: Store) -> list[Row]:
    """Rows of all finished cells of an experiment, in the order of its cells."""
    rows: list[Row] = []
    for cell in experiment.cells(options):
        found = store.read(cell.full_key)
        rows += [] if found is None else found["rows"]
    return rows


def _first_needed(chosen: Sequence[Experiment], options: Options) -> list[Cell]:
    """Bases that several tables share: computing them first keeps two from doing the same."""
    cells: dict[str, Cell] = {}
    for experiment in chosen:
        if experiment.prepare is not None:
            cells.update({cell.full_key: cell for cell in experiment.prepare(options)})
    return list(cells.values())


def _compute_missing(
    first: Sequence[Cell],
    then: Sequence[Cell],
    options: Options,
    store: Store,
    jobs: int,
    progress: Progress | None,
    started: Callable[[str], None] | None,
) -> None:
    # Whole splits first, so that a run stopped early can be reported with fewer; then dear cells.
    stages = [
        sorted(
            (cell for cell in stage if store.read(cell.full_key) is None),
            key=lambda cell: (cell.params.get("split", 0), -cell.cost),
        )
        for stage in (first, then)
    ]
    _check_data(_datasets(_ALL[name] for name in {cell.experiment for s in stages for cell in s}))
    total = len(first) + len(then)
    done = total - sum(len(stage) for stage in stages)
    for stage in stages:
        before = done
        for running, left in _running(stage, options, store, jobs):
            done = before + len(stage) - left
            if started is not None and running:
                started(", ".join(cell.full_key for cell in running))
            if progress is not None:
                progress(done, total)


def _check_data(names: Sequence[str]) -> None:
    """Miss a data set before the first hour of work, not after it."""
    for name in names:
        if find_file(dataset_info(name)) is None:
            load_dataset(name)  # fetches it, or says where to put which file


def _running(
    cells: Sequence[Cell], options: Options, store: Store, jobs: int
) -> Iterator[tuple[list[Cell], int]]:
    """Compute cells; yield those running and the number left whenever a cell starts or ends."""
    tasks = [(cell, options, str(store.folder), store.fingerprint) for cell in cells]
    if jobs == 1 or len(tasks) < 2:
        for i, task in enumerate(tasks):
            yield [task[0]], len(tasks) - i
            _work(task)
    else:
        yield from _running_in_processes(tasks, min(jobs, len(tasks)))
    yield [], 0


def _running_in_processes(tasks: Sequence[_Task], jobs: int) -> Iterator[tuple[list[Cell], int]]:
    """Keep as many cells going as there are processes; an interrupt ends them at once."""
    pool = _make_pool(jobs)
    results: queue.SimpleQueue[Cell | BaseException] = queue.SimpleQueue()
    running: dict[str, Cell] = {}
    waiting, left = iter(tasks), len(tasks)
    try:
        while left:
            # No more than there are processes, so that what has been handed out does run.
            for task in itertools.islice(waiting, jobs - len(running)):
                pool.apply_async(_work, (task,), callback=results.put, error_callback=results.put)
                running[task[0].full_key] = task[0]
            yield list(running.values()), left
            result = results.get()
            if isinstance(result, BaseException):
                raise result
            del running[result.full_key]
            left -= 1
    finally:
        pool.terminate()
        pool.join()


def _make_pool(jobs: int) -> Any:
    """Start processes that leave interrupts to this one, from their first moment on."""
    # Fresh processes: forked ones would inherit the threads of BLAS and of the progress bar.
    context = multiprocessing.get_context("spawn")
    if threading.current_thread() is not threading.main_thread():
        return context.Pool(jobs, _ignore_interrupts)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # inherited
    try:
        return context.Pool(jobs, _ignore_interrupts)
    finally:
        signal.signal(signal.SIGINT, before)


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _work(task: _Task) -> Cell:
    cell, options, folder, stamp = task
    store = Store(folder, stamp)
    wall, cpu = time.perf_counter(), time.process_time()
    # One thread a process, for BLAS and for the OpenMP of k-means.
    with threadpool_limits(1):
        rows = _ALL[cell.experiment].compute(cell.params, options, store)
    store.write(
        cell.full_key,
        rows=rows,
        seconds=time.perf_counter() - wall,
        cpu_seconds=time.process_time() - cpu,
    )
    return cell


def _datasets(experiments: Any) -> list[str]:
    return sorted({name for experiment in experiments for name in experiment.datasets})


def _write_manifest(
    folder: Path, chosen: Sequence[Experiment], options: Options, store: Store
) -> Path:
    """Everything needed to run again; nothing that differs between two equal runs."""
    path = folder / "manifest.json"
    known: dict[str, Any] = {}
    if path.is_file():
        known = json.loads(path.read_text(encoding="utf-8"))
    before = known.get("experiments", {}) if known.get("fingerprint") == store.fingerprint else {}
    counts = {e.name: len(e.cells(options)) for e in chosen}
    sums = {name: dataset_info(name).sha256 for name in _datasets(chosen)}
    sums.update(known.get("datasets", {}) if before else {})
    manifest = {
        "fingerprint": store.fingerprint,
        "options": options.as_dict(),
        "seed": SEED,
        "code_version": CODE_VERSION,
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "datasets": dict(sorted(sums.items())),
        "experiments": dict(sorted({**before, **counts}.items())),
    }
    write_atomically(path, json.dumps(manifest, indent=2) + "\n")
    return path


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
