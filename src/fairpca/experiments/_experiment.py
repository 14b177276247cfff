"""What an experiment is: cells that can be computed one by one, and rows that come of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fairpca.experiments._store import Store

Row = dict[str, Any]

CODE_VERSION = 3
"""Raised whenever the meaning of a cell changes, so that older files do not count."""


@dataclass(frozen=True)
class Options:
    """What the numbers depend on.

    Parameters
    ----------
    splits : int, default=5
        Training-test splits of the tables.
    quick : bool, default=False
        Fewer rows for the Gaussian machines, fewer permutations.

    Examples
    --------
    >>> from fairpca.experiments import Options
    >>> Options(quick=True).permutations
    19
    """

    splits: int = 5
    quick: bool = False

    @property
    def permutations(self) -> int:
        """Permutations behind each null of a linear machine or a distribution function."""
        return 19 if self.quick else 99

    @property
    def kernel_rows(self) -> int:
        """Rows a Gaussian machine is trained on at most."""
        return 400 if self.quick else 2000

    def as_dict(self) -> dict[str, Any]:
        """All options, derived ones included."""
        derived = ("permutations", "kernel_rows")
        return {**asdict(self), **{name: getattr(self, name) for name in derived}}


@dataclass(frozen=True)
class Cell:
    """One piece of work.

    Parameters
    ----------
    experiment : str
        Name of the experiment.
    key : str
        Name of the cell, unique in the experiment.
    params : mapping
        Arguments of the computation, JSON values only.
    cost : float
        Rough cost; dear cells of a split start first.
    """

    experiment: str
    key: str
    params: Mapping[str, Any]
    cost: float = 1.0

    @property
    def full_key(self) -> str:
        """Key under which the result is stored."""
        return f"{self.experiment}-{self.key}"


@dataclass(frozen=True)
class Experiment:
    """A table or a figure of the paper.

    Parameters
    ----------
    name : str
        Name on the command line.
    columns : tuple of str
        Columns of its rows.
    cells : callable
        Options to cells.
    compute : callable
        Parameters of a cell, options and store to rows; pure but for the store's cache.
    datasets : tuple of str
        Data sets it needs, for the manifest.
    prepare : callable or None
        Options to cells of "bases" that should be computed before.
    """

    name: str
    columns: tuple[str, ...]
    cells: Callable[[Options], Sequence[Cell]]
    compute: Callable[[Mapping[str, Any], Options, Store], list[Row]]
    datasets: tuple[str, ...] = ()
    prepare: Callable[[Options], Sequence[Cell]] | None = None


def measures(values: Mapping[str, Any], **where: Any) -> list[Row]:
    """Turn named values into tidy rows; what is None is left out."""
    return [
        {**where, "measure": name, "value": float(value)}
        for name, value in values.items()
        if value is not None
    ]
