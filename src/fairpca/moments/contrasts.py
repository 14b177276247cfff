"""Contrasts: what is compared, and how far apart the two sides are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fairpca._choices import MIN_ROWS
from fairpca._present import html_table, label
from fairpca.exceptions import FairnessWarning, InvalidInputError
from fairpca.linalg import Array, spectral_norms, top_eigenpairs
from fairpca.moments._cells import Cell, FloatArray

Sides: TypeAlias = tuple[Cell | None, Cell | None]
_SHOWN = 60  # rows that a notebook shows


@dataclass(frozen=True, eq=False)
class Contrast:
    """Two sub-populations and the differences between their moments.

    Parameters
    ----------
    attribute : str
        Name of the protected attribute, or ``"sex × race"`` for an intersection.
    positive, negative : str
        The two sides; the gaps are positive minus negative. ``"rest"`` is everybody else in the
        stratum; a numeric attribute has the sides ``"numeric"`` and ``""``.
    stratum : str or None
        Stratum within which they are compared, for example ``"income=high"``.
    n_positive, n_negative : int
        Rows on each side. A numeric attribute counts all rows as positive.
    mean_gap : ndarray, shape (p,), or None
        Difference of the means; Cov(x, z) / σ_z for a numeric attribute. None: not compared.
    cov_gap : ndarray, shape (p, p), or None
        Difference of the covariances (divisor: the weight). None where a side is too small.
    status : str
        ``"compared"``, ``"mean only: …"`` or ``"not compared: …"``.
    sides : tuple of (Cell or None, Cell or None)
        Moments of both sides, where they are known; all rows and None for a numeric attribute.

    See Also
    --------
    ContrastSet : All of them.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.moments import GroupMoments
    >>> X = np.array([[0.0], [2.0], [5.0], [7.0]])
    >>> contrast = GroupMoments.from_arrays(X, [0, 0, 1, 1]).contrasts()[0]
    >>> contrast.label, contrast.mean_gap, contrast.cov_gap
    ('sensitive_feature: 1 vs 0', array([5.]), array([[0.]]))
    """

    attribute: str
    positive: str
    negative: str
    stratum: str | None
    n_positive: int
    n_negative: int
    mean_gap: FloatArray | None
    cov_gap: FloatArray | None
    status: str
    sides: Sides = field(default=(None, None), repr=False)

    @property
    def label(self) -> str:
        """One-line name, for messages and tables."""
        return label(self.attribute, self.positive, self.negative, self.stratum)


class ContrastTable(dict[str, list[Any]]):
    """Columns of a table of contrasts; a notebook shows it as one."""

    def _repr_html_(self) -> str:
        rows = list(zip(*self.values(), strict=True))
        notes = [f"{len(rows) - _SHOWN} more"] if len(rows) > _SHOWN else []
        if "mean_gap" in self and (small := sum(self.small())):
            notes.append(f"{small} with a group of fewer than {MIN_ROWS} rows: nearly persons")
        note = "; ".join(notes)
        return html_table(rows[:_SHOWN], head=[name.replace("_", " ") for name in self], note=note)

    def small(self, min_rows: int = MIN_ROWS) -> list[bool]:
        """Tell which contrasts have gaps of a group with fewer rows, which are nearly persons'."""
        columns = ("n_positive", "n_negative", "negative", "mean_gap")
        rows = zip(*(self[name] for name in columns), strict=True)
        return [
            gap is not None and (min(one, other) if name else one) < min_rows
            for one, other, name, gap in rows
        ]

    def without_small(self, min_rows: int = MIN_ROWS) -> ContrastTable:
        """Return the table without the gaps of groups that have fewer rows."""
        table = {name: list(column) for name, column in self.items()}
        for index in [i for i, small in enumerate(self.small(min_rows)) if small]:
            for name in table:
                if "_gap" in name:
                    table[name][index] = None
            table["status"][index] = f"not written: fewer than {min_rows} rows"
        return ContrastTable(table)


def without_small_groups(
    table: Mapping[str, list[Any]], min_rows: int = MIN_ROWS
) -> dict[str, list[Any]]:
    """Return a table of what groups keep without the figures of those that have fewer rows."""
    about = ("attribute", "group", "stratum", "n_rows", "weight")
    enough = [count >= min_rows for count in table["n_rows"]]
    return {
        name: [
            value if large or name in about else None
            for value, large in zip(column, enough, strict=True)
        ]
        for name, column in table.items()
    }


class ProjectedGaps(NamedTuple):
    """‖Vᵀf‖ and ‖VᵀQV‖ on a basis, one entry for each contrast; None: not compared."""

    mean: list[float | None]
    cov: list[float | None]


@dataclass(frozen=True, eq=False)
class ContrastSet(Sequence[Contrast]):
    """All contrasts of some moments, those that could not be compared included.

    Parameters
    ----------
    contrasts : tuple of Contrast
        The records.
    n_features : int
        Number of features p.
    notes : tuple of FairnessWarning
        What the user is warned of.

    See Also
    --------
    GroupMoments.contrasts : What makes it.
    Contrast : One of them.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.moments import GroupMoments
    >>> X = np.arange(12.0).reshape(6, 2)
    >>> contrasts = GroupMoments.from_arrays(X, list("aabbcc")).contrasts(compare="pairs")
    >>> contrasts.labels[0], contrasts.mean_gaps.shape, contrasts.cov_gaps.shape
    ('sensitive_feature: b vs a', (3, 2), (3, 2, 2))
    """

    contrasts: tuple[Contrast, ...]
    n_features: int
    notes: tuple[FairnessWarning, ...] = ()

    def __len__(self) -> int:
        return len(self.contrasts)

    def __iter__(self) -> Iterator[Contrast]:
        return iter(self.contrasts)

    def __getitem__(self, index: Any) -> Any:
        return self.contrasts[index]

    @property
    def mean_gaps(self) -> FloatArray:
        """Mean gaps of the contrasts that are compared, shape (C, p)."""
        gaps = [c.mean_gap for c in self.contrasts if c.mean_gap is not None]
        return np.array(gaps, dtype=np.float64).reshape(len(gaps), self.n_features)

    @property
    def cov_gaps(self) -> FloatArray:
        """Covariance gaps of the contrasts that have one, shape (C', p, p)."""
        gaps = [c.cov_gap for c in self.contrasts if c.cov_gap is not None]
        if len(gaps) == 1:
            return gaps[0][None]  # without a copy, which counts where features are many
        shape = (len(gaps), self.n_features, self.n_features)
        return np.array(gaps, dtype=np.float64).reshape(shape)

    @property
    def labels(self) -> list[str]:
        """One-line name of every contrast."""
        return [contrast.label for contrast in self.contrasts]

    def __repr__(self) -> str:
        n, p, compared = len(self), self.n_features, len(self.mean_gaps)
        return f"ContrastSet({n} contrasts, {compared} compared, {p} features)"

    def _repr_html_(self) -> str:
        return self.as_table()._repr_html_()

    def as_table(self, basis: FloatArray | None = None) -> ContrastTable:
        """Return the records as columns: all fields of `Contrast` but its moments.

        Parameters
        ----------
        basis : ndarray of shape (p, d), optional
            Where given, the gaps before and after a projection on it are columns too.
        """
        moments = ("mean_gap", "cov_gap", "sides")
        names = [f.name for f in fields(Contrast) if f.name not in moments]
        columns = ([getattr(contrast, name) for contrast in self.contrasts] for name in names)
        table = ContrastTable(zip(names, columns, strict=True))
        if basis is not None:
            before = self.projected_gaps(np.eye(len(basis)))
            after = self.projected_gaps(basis)
            table["mean_gap_before"], table["mean_gap"] = before.mean, after.mean
            table["cov_gap_before"], table["cov_gap"] = before.cov, after.cov
        return table

    def projected_gaps(self, basis: ArrayLike) -> ProjectedGaps:
        """Measure the gaps that remain after projecting on a basis: ‖Vᵀf‖ and ‖VᵀQV‖.

        Parameters
        ----------
        basis : array-like, shape (p, d)
            Basis V; its columns are the components.
        """
        v = np.asarray(basis, dtype=np.float64)
        if v.ndim != 2 or v.shape[0] != self.n_features:
            raise InvalidInputError(
                f"basis has shape {v.shape}: give a matrix with {self.n_features} rows, one for "
                "each feature, and a column for each component."
            )
        mean = [
            None if c.mean_gap is None else float(np.linalg.norm(v.T @ c.mean_gap))
            for c in self.contrasts
        ]
        cov = [
            None if c.cov_gap is None else float(spectral_norms(v.T @ c.cov_gap @ v))
            for c in self.contrasts
        ]
        return ProjectedGaps(mean, cov)


@dataclass(frozen=True, eq=False)
class GroupCovariances:
    """Every group by itself, inside every stratum: about its own mean, its weight the divisor."""

    attributes: tuple[str, ...]
    groups: tuple[str, ...]
    strata: tuple[str | None, ...]  # None: there are no strata
    n_rows: tuple[int, ...]
    covariances: Array  # (K, p, p)

    def __len__(self) -> int:
        return len(self.groups)

    def label(self, place: int) -> str:
        """One-line name of a group."""
        return label(self.attributes[place], self.groups[place], "", self.strata[place])

    def best(self, n_components: int) -> Array:
        """Return the variance that each group's own principal components keep, shape (K,)."""
        count = min(n_components, self.covariances.shape[-1])
        sums = [top_eigenpairs(matrix, count)[0].sum() for matrix in self.covariances]
        return np.maximum(np.array(sums, dtype=np.float64), 0.0)

    def kept(self, basis: Array) -> Array:
        """Return the variance that each group keeps on an orthonormal basis (p, d), shape (K,)."""
        kept = np.einsum("gij,ij->g", self.covariances @ basis, basis)
        return np.maximum(np.asarray(kept, dtype=np.float64), 0.0)

    def as_table(self, basis: Array, best: Array | None = None) -> dict[str, list[Any]]:
        """Return what each group keeps on a basis as columns: variance, own best and loss.

        The own best is computed where it is not given; what is rounding of it is no loss.
        """
        kept = self.kept(basis)
        best = self.best(basis.shape[1]) if best is None else best
        loss = np.where(best - kept <= 1e-12 * best, 0.0, best - kept)
        return {
            "attribute": list(self.attributes),
            "group": list(self.groups),
            "stratum": list(self.strata),
            "n_rows": list(self.n_rows),
            "total": np.einsum("gii->g", self.covariances).tolist(),
            "variance": kept.tolist(),
            "best": best.tolist(),
            "loss": loss.tolist(),
        }
