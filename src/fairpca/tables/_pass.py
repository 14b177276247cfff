"""One pass over a table: by several threads in order, with progress, and resumable.

A checkpoint is a directory. ``state.json`` says what has been read and names the files of moments
that go with it; it is replaced in one step, after those files are complete, so that it is right
at every moment. Sums of whole files are kept apart from the sum of the file being read: a file
that was changed while it was half read is read again from its start; one that was changed after
it was read completely is an error, since its old rows are in the sum.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from fairpca._files import replacing
from fairpca._progress import Counter
from fairpca.exceptions import InvalidInputError
from fairpca.moments import GroupMoments
from fairpca.tables._kernel import batch_rows, rebatch, summarise_batches
from fairpca.tables._parquet import RowGroup
from fairpca.tables._partial import Partial, merge_partials, refused
from fairpca.tables._roles import Roles

Item = TypeVar("Item")
Result = TypeVar("Result")

MAX_THREADS = 8
FORMAT, VERSION = "fairpca.checkpoint", 1


def default_threads() -> int:
    """Cores that this process may use, at most `MAX_THREADS`."""
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), MAX_THREADS)
    return min(os.cpu_count() or 1, MAX_THREADS)


def in_order(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int
) -> Iterator[Result]:
    """Apply a function by several threads; results come in order, and few wait at a time."""
    if threads <= 1:
        yield from map(function, items)
        return
    pool = ThreadPoolExecutor(threads, thread_name_prefix="fairpca")
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            del item  # or it would be held while the next is made
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def summarise_unit(
    unit: Any, roles: Roles, *, counting: bool = False, tell: Callable[[int], None] | None = None
) -> Partial:
    """Sum what one thread or task reads of a table; errors name the file."""

    def batches() -> Iterator[Any]:
        for batch in unit.batches(roles.columns):
            if tell is not None:
                tell(batch.num_rows)
            yield batch

    found = batches()
    if not isinstance(unit, RowGroup):  # whose batches are as large as they should be
        found = rebatch(found, batch_rows(len(roles.columns)))
    try:
        return summarise_batches(found, roles, counting=counting)
    except InvalidInputError as error:
        raise error.at(unit.path) from None


def sum_units(units: Iterable[Any], roles: Roles, counter: Counter) -> Partial:
    """Sum units one after the other, in this thread."""
    total = Partial(levels=dict.fromkeys(roles.categorical, ()))
    for unit in units:
        counting = refused(total.missing, roles)
        part = summarise_unit(unit, roles, counting=counting, tell=counter.add)
        total = merge_partials([total, part], roles)
    return total


def sum_row_groups(
    groups: Sequence[RowGroup],
    roles: Roles,
    threads: int,
    counter: Counter,
    kept: Checkpoint | None,
) -> Partial:
    """Sum row groups in order by several threads, from wherever an earlier pass has stopped."""
    state = State()
    if kept is not None:
        files = {group.path: group.part.file.fingerprint for group in groups}
        state = kept.load(list(files.values()))
    for partial in (state.total, state.current):
        counter.skip(0 if partial is None else partial.n_rows)
    failing = False  # read by the threads: after a missing value rows are only counted

    def work(group: RowGroup) -> Partial:
        return summarise_unit(group, roles, counting=failing)

    left = groups[_groups_done(groups, state) :]
    try:
        for group, result in zip(left, in_order(work, left, threads), strict=True):
            state = _advance(state, group, result, roles)
            failing = failing or refused(result.missing, roles)
            if kept is not None and not failing:
                kept.save(state)
            counter.add(result.n_rows)
    finally:
        if kept is not None and not failing and (state.files or state.groups):
            kept.save(state, now=True)
    done = [partial for partial in (state.total, state.current) if partial is not None]
    return merge_partials(done, roles) if done else Partial()


@dataclass(frozen=True)
class State:
    """How far a pass has come: whole files, and some row groups of the next one."""

    total: Partial | None = None
    current: Partial | None = None
    files: tuple[list[Any], ...] = ()  # fingerprints, in order
    current_file: list[Any] | None = None
    groups: int = 0  # of that file in `current`
    mark: tuple[int, str] | None = None  # of a stream: rows and digest of its last batch


def _groups_done(groups: Sequence[RowGroup], state: State) -> int:
    done = [file[0] for file in state.files]
    return sum(group.path in done for group in groups) + state.groups


def _advance(state: State, group: RowGroup, result: Partial, roles: Roles) -> State:
    """Add a row group to the state; a complete file joins the total."""
    current = result if state.current is None else merge_partials([state.current, result], roles)
    groups, file = state.groups + 1, group.part.file.fingerprint
    if groups < len(group.part.rows):
        return replace(state, current=current, current_file=file, groups=groups)
    total = current if state.total is None else merge_partials([state.total, current], roles)
    return State(total=total, files=(*state.files, file))


class Checkpoint:
    """A directory that holds the last state of a pass; a state of another request is refused."""

    def __init__(self, path: str | os.PathLike[str], request: dict[str, Any], seconds: float):
        self.path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise InvalidInputError(
                f"checkpoint={str(path)!r} is a file: name a directory.", parameter="checkpoint"
            )
        self.request = json.loads(json.dumps(request))
        self.seconds = seconds  # shortest time between two states
        self._number = 0
        self._saved = time.monotonic()
        self._state_file = self.path / "state.json"

    def load(self, fingerprints: list[list[Any]]) -> State:
        """Read the last state and check it against the files as they are now."""
        if not self._state_file.exists():
            return State()
        content = self._read()
        name = repr(str(self.path))
        if content["request"] != self.request:
            raise self._refused(
                f"the checkpoint {name} belongs to a pass with other columns or options: remove "
                "it, or name another one."
            )
        self._number = content["number"]
        done = [list(item) if isinstance(item, list) else [item] for item in content["files"]]
        for was, now in zip(done, fingerprints, strict=False):
            if was != now:
                raise self._refused(
                    f"{was[0]} has changed (or moved) since its rows were summed in the checkpoint "
                    f"{name}: remove the checkpoint and start again."
                )
        if len(done) > len(fingerprints):
            raise self._refused(
                f"{done[len(fingerprints)][0]} is in the checkpoint {name} but not among the "
                "files: remove the checkpoint and start again."
            )
        try:
            return self._state(content, done, fingerprints[len(done) : len(done) + 1])
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self._unreadable() from None

    def _state(
        self, content: dict[str, Any], done: list[list[Any]], following: list[list[Any]]
    ) -> State:
        state = State(total=self._partial(content["total"]), files=tuple(done))
        if [content["current_file"]] != following:
            return state
        current, groups = self._partial(content["current"]), content["groups"]
        mark = tuple(content["mark"]) if content.get("mark") else None
        return replace(state, current=current, current_file=following[0], groups=groups, mark=mark)

    def save(self, state: State, *, now: bool = False) -> None:
        """Keep a state, unless the last one is recent."""
        if not now and time.monotonic() - self._saved < self.seconds:
            return
        self.path.mkdir(parents=True, exist_ok=True)
        self._number += 1
        content = {
            "format": FORMAT,
            "version": VERSION,
            "number": self._number,
            "request": self.request,
            "files": state.files,
            "current_file": state.current_file,
            "groups": state.groups,
            "mark": state.mark,
            "total": self._keep(state.total, "total"),
            "current": self._keep(state.current, "current"),
        }
        with replacing(self._state_file) as beside:
            beside.write_text(json.dumps(content))
        self._clean(keep=content)
        self._saved = time.monotonic()

    def remove(self) -> None:
        """Remove the checkpoint of a pass that is complete."""
        if self.path.is_dir():
            self._state_file.unlink(missing_ok=True)
            self._clean(keep={})
            if not any(self.path.iterdir()):
                self.path.rmdir()

    def _keep(self, partial: Partial | None, name: str) -> dict[str, Any] | None:
        if partial is None:
            return None
        stored = None
        if partial.moments is not None:
            stored = partial.moments.save(self.path / f"{name}-{self._number}.npz").name
        return {
            "moments": stored,
            "levels": dict(partial.levels),
            "n_rows": partial.n_rows,
            "incomplete": partial.incomplete,
            "missing": dict(partial.missing),
        }

    def _partial(self, content: dict[str, Any] | None) -> Partial | None:
        if content is None:
            return None
        moments = None
        if content["moments"] is not None:
            moments = GroupMoments.load(self.path / content["moments"])
        levels = {name: tuple(values) for name, values in content["levels"].items()}
        return replace(Partial(**{**content, "moments": moments}), levels=levels)

    def _read(self) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads(self._state_file.read_text())
            known = (content["format"], content["version"]) == (FORMAT, VERSION)
            shapes = {"request": dict, "number": int, "files": list}
            if known and all(isinstance(content[name], kind) for name, kind in shapes.items()):
                return content
        except (ValueError, KeyError, TypeError, OSError, RecursionError):
            pass
        raise self._unreadable()

    def _unreadable(self) -> InvalidInputError:
        return self._refused(
            f"{str(self.path)!r} is not a checkpoint that this fairpca can read: remove it, or "
            "name another one."
        )

    def _refused(self, message: str) -> InvalidInputError:
        return InvalidInputError(message, parameter="checkpoint")

    def _clean(self, keep: dict[str, Any]) -> None:
        """Remove the moments of earlier states."""
        kept = {(keep.get(part) or {}).get("moments") for part in ("total", "current")}
        for file in self.path.glob("*-*.npz"):
            if file.name not in kept and file.name.startswith(("total-", "current-")):
                file.unlink()
