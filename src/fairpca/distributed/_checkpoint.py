"""What a pass has done so far, on disk, so that an interrupted pass goes on where it stopped.

A checkpoint is a directory. ``state.json`` says what has been read and names the files of moments
that go with it; it is replaced in one step, after those files are complete, so that it is right
at every moment.

Sums of whole files are kept apart from the sum of the file being read. A file that was changed
while it was half read is read again from its start; a file that was changed after it was read
completely is an error, since its old rows are in the sum.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fairpca.distributed._partial import Partial
from fairpca.exceptions import InvalidInputError
from fairpca.moments import GroupMoments

FORMAT = "fairpca.checkpoint"
VERSION = 1


@dataclass(frozen=True)
class State:
    """How far a pass has come.

    Parameters
    ----------
    total : Partial or None
        Sum of the files that were read completely.
    current : Partial or None
        Sum of the row groups of the next file that were read.
    files : tuple
        Fingerprints of the files read completely, in order.
    current_file : list or None
        Fingerprint of the file being read.
    groups : int
        Row groups of that file in `current`.
    """

    total: Partial | None = None
    current: Partial | None = None
    files: tuple[list[Any], ...] = field(default=())
    current_file: list[Any] | None = None
    groups: int = 0


class Checkpoint:
    """A directory that holds the last state of a pass.

    Parameters
    ----------
    path : str or path
        The directory; made when there is something to keep.
    request : dict
        What the pass was asked for; a state of another request is refused.
    seconds : float
        Shortest time between two states.
    """

    def __init__(self, path: str | os.PathLike[str], request: dict[str, Any], seconds: float):
        self.path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise InvalidInputError(f"checkpoint={str(path)!r} is a file: name a directory.")
        self.request = json.loads(json.dumps(request))
        self.seconds = seconds
        self._number = 0
        self._saved = time.monotonic()

    @property
    def _state_file(self) -> Path:
        return self.path / "state.json"

    def load(self, fingerprints: list[list[Any]]) -> State:
        """Read the last state and check it against the files as they are now.

        Parameters
        ----------
        fingerprints : list
            Of the files of this pass, in order.

        Returns
        -------
        State
            Where to go on; an empty state where there is nothing to go on from.
        """
        if not self._state_file.exists():
            return State()
        content = self._read()
        if content["request"] != self.request:
            raise InvalidInputError(
                f"the checkpoint {str(self.path)!r} belongs to a pass with other columns or "
                "options: remove it, or name another one."
            )
        self._number = content["number"]
        done = [list(item) for item in content["files"]]
        for was, now in zip(done, fingerprints, strict=False):
            if was != now:
                raise InvalidInputError(
                    f"{was[0]} has changed (or moved) since its rows were summed in the checkpoint "
                    f"{str(self.path)!r}: remove the checkpoint and start again."
                )
        if len(done) > len(fingerprints):
            raise InvalidInputError(
                f"{done[len(fingerprints)][0]} is in the checkpoint {str(self.path)!r} but not "
                "among the files: remove the checkpoint and start again."
            )
        state = State(total=self._partial(content["total"]), files=tuple(done))
        following = fingerprints[len(done) : len(done) + 1]
        if [content["current_file"]] != following:
            return state
        return replace(
            state,
            current=self._partial(content["current"]),
            current_file=following[0],
            groups=content["groups"],
        )

    def save(self, state: State, *, now: bool = False) -> None:
        """Keep a state, unless the last one is recent.

        Parameters
        ----------
        state : State
            How far the pass has come.
        now : bool, default False
            Whether to keep it even so.
        """
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
            "total": self._keep(state.total, "total"),
            "current": self._keep(state.current, "current"),
        }
        beside = self._state_file.with_suffix(".tmp")
        beside.write_text(json.dumps(content))
        os.replace(beside, self._state_file)
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
            if (content["format"], content["version"]) == (FORMAT, VERSION):
                return content
        except (ValueError, KeyError, TypeError, OSError):
            pass
        raise InvalidInputError(
            f"{str(self.path)!r} is not a checkpoint that this fairpca can read: remove it, or "
            "name another one."
        )

    def _clean(self, keep: dict[str, Any]) -> None:
        """Remove the moments of earlier states."""
        kept = {(keep.get(part) or {}).get("moments") for part in ("total", "current")}
        for file in self.path.glob("*-*.npz"):
            if file.name not in kept and file.name.startswith(("total-", "current-")):
                file.unlink()
