"""The groups themselves, one by one: what each varies by about its own mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpca._present import label
from fairpca.linalg import Array, top_eigenpairs
from fairpca.moments._cells import Cell, merge
from fairpca.moments._form_contrasts import _groups, _strata
from fairpca.moments._table import Table


@dataclass(frozen=True, eq=False)
class GroupCovariances:
    """Every group of a question by itself.

    Parameters
    ----------
    attributes, groups, strata : tuple
        Of each group its attribute, its name and its stratum (None: there are no strata).
    n_rows : tuple of int
        Its rows.
    covariances : ndarray of shape (K, p, p)
        Its covariance about its own mean, with its weight as divisor.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca import GroupMoments
    >>> X = np.array([[0.0, 1.0], [2.0, 1.0], [5.0, 2.0], [5.0, 4.0]])
    >>> found = GroupMoments.from_arrays(X, list("aabb")).group_covariances()
    >>> found.groups, found.best(1)
    (('a', 'b'), array([1., 1.]))
    """

    attributes: tuple[str, ...]
    groups: tuple[str, ...]
    strata: tuple[str | None, ...]
    n_rows: tuple[int, ...]
    covariances: Array

    def __len__(self) -> int:
        return len(self.groups)

    def label(self, place: int) -> str:
        """One-line name of a group."""
        return label(self.attributes[place], self.groups[place], "", self.strata[place])

    def best(self, n_components: int) -> Array:
        """Return the variance that each group's own principal components keep, shape (K,)."""
        count = min(n_components, self.covariances.shape[-1])
        found = [top_eigenpairs(matrix, count)[0].sum() for matrix in self.covariances]
        return np.maximum(np.array(found, dtype=np.float64), 0.0)

    def kept(self, basis: Array) -> Array:
        """Return the variance that each group keeps on an orthonormal basis (p, d), shape (K,)."""
        found = np.einsum("gij,ij->g", self.covariances @ basis, basis)
        return np.maximum(np.asarray(found, dtype=np.float64), 0.0)

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


def group_covariances(table: Table, n_features: int, *, joint: bool) -> GroupCovariances:
    """Gather the levels of every attribute, or the cells of their cross table, in every stratum."""
    found: list[tuple[str, str, str | None, Cell]] = []
    names = table.categorical
    for stratum, cells in _strata(table):
        if joint and len(names) > 1:
            keyed = (" × ".join(map(str, key)) for key in cells)
            found += [
                (" × ".join(names), name, stratum, cell)
                for name, cell in zip(keyed, cells.values(), strict=True)
            ]
            continue
        for position, attribute in enumerate(names):
            levels = _groups(cells, position)
            found += [
                (attribute, str(level), stratum, levels[level])
                for level in table.levels(position)
                if level in levels
            ]
        if not names:
            found.append(("", "all rows", stratum, merge(list(cells.values()))))
    shape = (len(found), n_features, n_features)
    covariances = np.array([cell.covariance for *_, cell in found]).reshape(shape)
    return GroupCovariances(
        tuple(entry[0] for entry in found),
        tuple(entry[1] for entry in found),
        tuple(entry[2] for entry in found),
        tuple(entry[3].n_rows for entry in found),
        covariances,
    )
