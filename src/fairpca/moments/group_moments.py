"""GroupMoments: all that the rest of the library needs to know about the rows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fairpca._choices import MIN_ROWS
from fairpca.exceptions import InvalidInputError, warn_user
from fairpca.linalg import symmetrize
from fairpca.moments._cells import Pooled, Standardization, merge
from fairpca.moments._form_contrasts import form_contrasts, group_covariances
from fairpca.moments._maps import (
    MIN_FEATURES,
    MissingIndicators,
    Span,
    align_spans,
    complete,
    fill_missing,
    filled_means,
    find_one_hot,
    find_scaling,
    find_span,
    merge_indicators,
    move,
    rescale,
    with_zeros,
)
from fairpca.moments._table import (
    CellTable,
    MomentsReprMixin,
    TargetColumn,
    merge_tables,
    tabulate,
)
from fairpca.moments.contrasts import ContrastSet, GroupCovariances
from fairpca.rows import Level, Rows

if TYPE_CHECKING:
    from fairpca.moments._targets import TargetMoments

_FORMAT = "fairpca.GroupMoments"  # in the header of a file


@dataclass(frozen=True, eq=False, repr=False)
class GroupMoments(MomentsReprMixin):
    """Weighted moments of the rows, cell by cell; merged with ``+``.

    There is one cell for each combination of attribute and control levels that occurs, so that any
    contrast can be formed later without the rows. Made by `from_arrays`, `from_rows` or
    `load`.

    Parameters
    ----------
    n_features : int
        Number of features p.
    feature_names : tuple of str, or None
        Their names.
    table : CellTable
        The cells.
    span : Span or None
        Where there are more features than rows: the directions in which the rows differ. The
        cells then hold the moments of coordinates in it.
    indicators : MissingIndicators or None
        Where values are missing and count as the mean of all rows: which columns they are in.
    one_hot : tuple of int, or None
        Places of the indicators of one-hot encoded columns, where means stand for missing values,
        among which they cannot be seen; None: they can be found in the moments.
    columns : tuple of str, or None
        Column that each feature comes from, where text was one-hot encoded: moments in which other
        values occur can then be added, and lack none of them.
    merged : tuple of str
        Cells that were added to a cell "other", because they had few rows.
    noise : tuple of float, or None
        ε and δ, where noise hides single rows; see `privatized`.

    See Also
    --------
    fairpca.FairPCA.fit_moments : Components from moments.
    fairpca.tables.moments_from_files : Moments of files.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.moments import GroupMoments
    >>> X = np.array([[0.0, 1.0], [2.0, 1.0], [5.0, 2.0], [7.0, 4.0]])
    >>> moments = GroupMoments.from_arrays(X[:3], ["a", "a", "b"])
    >>> moments = moments + GroupMoments.from_arrays(X[3:], ["b"])
    >>> moments.n_samples, moments.levels("sensitive_feature"), moments.pooled().mean
    (4, ('a', 'b'), array([3.5, 2. ]))
    """

    n_features: int
    feature_names: tuple[str, ...] | None
    table: CellTable
    span: Span | None = None
    indicators: MissingIndicators | None = None
    one_hot: tuple[int, ...] | None = None
    columns: tuple[str, ...] | None = None
    merged: tuple[str, ...] = ()
    noise: tuple[float, float] | None = None

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        sensitive_features: Any,
        control_features: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        numeric: Iterable[str] = (),
        feature_names: Iterable[str] | None = None,
        y: Any = None,
    ) -> GroupMoments:
        """Sum the rows of a matrix.

        Parameters
        ----------
        X : array-like, data frame or SciPy sparse matrix, shape (n, p)
            Features; the column names of a data frame are kept. A sparse matrix is not filled:
            it costs its non-zeros.
        sensitive_features : array-like, Series or data frame
            Protected attributes, one column each; see `encode_groups` for their types.
        control_features : array-like, Series or data frame, optional
            Columns whose combinations of levels are the strata.
        sample_weight : array-like, shape (n,), optional
            Weights ≥ 0; rows of weight zero are left out altogether.
        numeric, feature_names
            As for `Rows.read`.
        y : array-like, Series or data frame, optional
            What the features are to predict, for `FairPCA(target_weight=…)`: numbers or labels, one
            or several columns. Rows in which one is missing count in all other moments.
        """
        parts = (sensitive_features, control_features, sample_weight)
        names: dict[str, Any] = {"numeric": numeric, "feature_names": feature_names}
        return cls.from_rows(Rows.read(X, *parts, **names, y=y))

    @classmethod
    def privatized(
        cls,
        X: Any,
        sensitive_features: Any,
        *,
        groups: Sequence[Level],
        center: ArrayLike,
        scale: ArrayLike,
        epsilon: float,
        delta: float = 1e-6,
        bound: float = 1.3,
        random_state: Any = None,
    ) -> GroupMoments:
        """Sum rows with noise, so that nobody can tell whether a row was among them.

        The moments, and all that is computed from them, are (ε, δ)-differentially private for
        adding or removing one row, its group included. It takes many rows: some thousands for ten
        features, ten thousand for forty, at ε = 1. Weights, strata, targets, several attributes and
        missing values are not supported: each would need noise of its own.

        Parameters
        ----------
        X, sensitive_features
            As for `from_arrays`: finite features, and one column that names groups.
        groups : sequence
            All groups that may occur, whether or not they do.
        center, scale : float or array-like of shape (p,)
            About the mean and deviation of each feature. They must not come from these rows.
        epsilon, delta : float
            A row may change the probability of any result by the factor exp(ε), but for δ.
        bound : float, default 1.3
            Rows are shortened to this root mean square of their features, in deviations.
        random_state : int, Generator or None, default None
            For tests. Whoever knows it can take the noise off; None: drawn anew.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> X, z = rng.normal(size=(9000, 3)), rng.integers(0, 2, 9000)
        >>> known = {"groups": (0, 1), "center": 0.0, "scale": 1.0}
        >>> noisy = GroupMoments.privatized(X, z, **known, epsilon=1.0, random_state=0)
        >>> 8900 < noisy.n_samples < 9100, noisy.noise
        (True, (1.0, 1e-06))
        """
        from fairpca.moments._release import private_table  # not needed by a fit

        rows, budget = Rows.read(X, sensitive_features), (epsilon, delta)
        table = private_table(rows, groups, (center, scale), budget, bound, random_state)
        noise = (float(epsilon), float(delta))
        return cls(int(rows.X.shape[1]), rows.feature_names, table, noise=noise)

    @classmethod
    def from_rows(
        cls, rows: Rows, *, wide: float = 1.0, indicators: MissingIndicators | None = None
    ) -> GroupMoments:
        """Sum rows that have been validated; with `indicators`, rows that `fill_missing` made.

        With more than `wide` features for each row the moments are kept in the span of the rows,
        so that no matrix of features × features is formed. Batches of a long stream want more,
        because their spans grow together.
        """
        n_rows, n_columns = map(int, rows.X.shape)
        n_features = n_columns if indicators is None else len(indicators.columns)
        if n_columns <= n_rows * wide or n_columns < MIN_FEATURES or not n_rows:
            return cls(n_features, rows.feature_names, tabulate(rows), None, indicators)
        span, coordinates = find_span(rows.X)
        table = tabulate(rows.with_features(coordinates))
        return cls(n_features, rows.feature_names, table, span, indicators)

    @classmethod
    def from_incomplete(cls, rows: Rows) -> GroupMoments:
        """Sum rows in which NaN stands for a missing value, which counts as the mean of all rows.

        The mean is that of the rows that have a value, over all moments that are merged, never of a
        group. It is exact, however the rows come in batches. Such rows are made by `Rows.attach`.

        Examples
        --------
        >>> from fairpca.rows import Rows
        >>> X = np.array([[1.0], [np.nan], [3.0]])
        >>> GroupMoments.from_incomplete(Rows.attach(X, ["a", "b", "b"])).pooled().mean
        array([2.])
        """
        columns = rows.feature_names or tuple(f"x{i}" for i in range(rows.X.shape[1]))
        X, indicators = fill_missing(rows.X, columns)
        return cls.from_rows(replace(rows, X=X), indicators=indicators)

    def missing(self) -> dict[str, float]:
        """Share of the rows in which each column is missing, where any is."""
        if self.indicators is None:
            return {}
        _, shares = filled_means((self.table, self.span), self.indicators)
        return dict(zip(self.indicators.incomplete, shares.tolist(), strict=True))

    def complete(self) -> GroupMoments:
        """Moments with the mean of all rows in the places of missing values; else `self`."""
        return self if self.indicators is None else self._completed

    @cached_property
    def _completed(self) -> GroupMoments:
        assert self.indicators is not None
        content, one_hot = (self.table, self.span), None
        if self.table.cells:
            zeros = GroupMoments(self.n_features, None, *with_zeros(content, self.indicators))
            one_hot = zeros._find_one_hot()
            content = complete(content, self.indicators)
        return GroupMoments(self.n_features, self.feature_names, *content, one_hot=one_hot)

    def _find_one_hot(self) -> tuple[int, ...]:
        whole = self.complete()
        if whole.one_hot is not None:
            return whole.one_hot
        _, mean, covariance = whole.coordinates().pooled()
        return find_one_hot(mean, covariance, whole.span)

    def __add__(self, other: object) -> GroupMoments:
        if not isinstance(other, GroupMoments):
            return NotImplemented
        from fairpca.moments._release import align_features  # not needed by a fit of one batch

        left, right = align_features(self, other)
        both = (((m.table, m.span), m.indicators) for m in (left, right))
        mine, theirs, indicators = merge_indicators(*both)
        span, *tables = align_spans(mine, theirs)
        names, columns = left.feature_names or right.feature_names, left.columns or right.columns
        one_hot = left.one_hot if left.one_hot == right.one_hot else None
        merged = tuple(sorted({*left.merged, *right.merged}))
        # A row is in one part only: the weaker of two promises holds for all rows that have one.
        noise = max((part.noise for part in (left, right) if part.noise), default=None)
        parts = (merge_tables(*tables), span, indicators, one_hot, columns, merged, noise)
        return GroupMoments(left.n_features, names, *parts)

    def coordinates(self) -> GroupMoments:
        """Moments of coordinates in the span of the rows; `self` where there is no span.

        Distances, variances and gaps are those of the features, because the directions of the span
        are orthonormal.
        """
        whole = self if self.indicators is None else self._completed
        return whole if whole.span is None else GroupMoments(len(whole.span), None, whole.table)

    def expanded(self) -> GroupMoments:
        """Moments of the features themselves, with a matrix of all features for every cell."""
        whole = self.complete()
        if whole.span is None:
            return whole
        return replace(whole, table=whole.span.expand(whole.table), span=None)

    def projected(self, components: ArrayLike, mean: ArrayLike | None = None) -> GroupMoments:
        """Moments of component scores, without the rows.

        Parameters
        ----------
        components : array-like of shape (d, p)
            A direction in each row.
        mean : array-like of shape (p,), optional
            What is subtracted from the rows first.
        """
        whole = self.complete()
        directions = np.asarray(components, dtype=np.float64)
        origin = np.zeros(self.n_features) if mean is None else -np.asarray(mean, dtype=np.float64)
        turn = directions
        if whole.span is not None:
            origin, turn = origin + whole.span.origin, directions @ whole.span.basis.T
        return GroupMoments(len(directions), None, move(whole.table, turn, directions @ origin))

    def pooled(self) -> Pooled:
        """Weight, mean and covariance (divisor: the weight) of all rows together."""
        return self._pooled

    @cached_property
    def _pooled(self) -> Pooled:
        if not self.table.cells:
            raise InvalidInputError("the moments hold no rows: add a batch with rows first.")
        if self.indicators is not None:
            return self._completed.pooled()
        whole = merge(list(self.table.cells.values()))
        pooled = Pooled(whole.weight, whole.mean, whole.covariance)
        if self.span is None:
            return pooled
        basis, (weight, mean, covariance) = self.span.basis, pooled
        return Pooled(weight, self.span.place(mean), symmetrize(basis.T @ covariance @ basis))

    def target_moments(self, columns: Sequence[TargetColumn] | None = None) -> TargetMoments | None:
        """Moments of targets and `coordinates`; None where no row has a target.

        `columns` are those of other moments, ``table.targets``, where theirs are wanted.
        """
        from fairpca.moments._targets import align_targets, merge_targets

        table = self.coordinates().table
        table = table if columns is None else align_targets(table, columns)
        return merge_targets([cell.targets for cell in table.cells.values()])

    def standardization(self, *, famd: bool = False) -> Standardization:
        """Mean and scale by which the features become centred with unit variance.

        A column counts as constant when its pooled deviation is at most 16 units of rounding of
        its mean, the level at which the stored values themselves cannot be distinguished; its scale
        is 1. Columns that are constant in the data have a deviation of exactly zero here.

        Parameters
        ----------
        famd : bool, default False
            Whether indicators of one-hot encoded columns (zeros and ones, of which two are never
            one together) are divided by the square root of their share instead.
        """
        _, mean, covariance = self.coordinates().pooled()
        one_hot = self._find_one_hot() if famd else ()
        return find_scaling(mean, covariance, self.complete().span, one_hot)

    def standardized(self, by: Standardization | None = None) -> GroupMoments:
        """Moments of (x - mean) / scale, without a second pass over the rows.

        Constant columns are centred only. Attributes keep their own scale.

        Parameters
        ----------
        by : Standardization, optional
            What is subtracted and divided by; None: what `standardization` returns.

        Examples
        --------
        >>> X = np.array([[1.0, 7.0], [5.0, 7.0]])
        >>> GroupMoments.from_arrays(X, ["a", "b"]).standardized().pooled().covariance
        array([[1., 0.],
               [0., 0.]])
        """
        whole = self.complete()
        by = whole.standardization() if by is None else by
        table, span = rescale((whole.table, whole.span), by)
        return replace(whole, table=table, span=span, one_hot=None)

    def contrasts(
        self,
        compare: str = "one-vs-rest",
        joint: bool = False,
        reference: Level | Mapping[str, Level] | None = None,
        min_group_size: int | None = None,
    ) -> ContrastSet:
        """Form the contrasts between the groups, inside every stratum.

        Those that could not be compared are included.

        Parameters
        ----------
        compare : {"one-vs-rest", "pairs", "reference"}, default "one-vs-rest"
            Which groups are compared in an attribute of more than two. Two groups are one
            contrast, the second in sorted order minus the first.
        joint : bool, default False
            Also compare each cell of the cross table of all categorical attributes with the rest
            of its stratum, whatever `compare` says; no effect on fewer than two such attributes.
        reference : level or dict of str to level, optional
            The reference group, for each attribute where there are several.
        min_group_size : int or None, default None
            Rows that both sides need for their covariances to be compared; the means of all
            groups are. None: the smallest groups, which together have less than a tenth of the
            rows of a stratum, are compared only where their means differ by more than chance
            (p < 0.05, or less where chance would cost variance), and their covariances
            from 500 rows on.
            A group that is not compared is in the rest of no other.

        Raises
        ------
        GroupsError
            If an attribute is constant, or holds one group only in every stratum.

        Warns
        -----
        SmallGroupWarning
            Once, naming all sides that are too small, with their rows.
        NestedAttributeWarning
            Once, naming attributes that are determined by others.

        Examples
        --------
        >>> moments = GroupMoments.from_arrays(np.arange(12.0).reshape(6, 2), list("aabbcc"))
        >>> moments.contrasts(compare="reference", reference="b").labels
        ['sensitive_feature: a vs b', 'sensitive_feature: c vs b']
        """
        if self.span is not None or self.indicators is not None:
            return self.expanded().contrasts(compare, joint, reference, min_group_size)
        options = (compare, joint, reference, min_group_size)
        contrasts = form_contrasts(self.table, self.n_features, *options)
        for note in contrasts.notes:
            warn_user(note)
        return contrasts

    def group_covariances(self, joint: bool = False) -> GroupCovariances:
        """Covariance of every group about its own mean, inside every stratum.

        Parameters
        ----------
        joint : bool, default False
            Whether the groups are the cells of the cross table of all categorical attributes,
            instead of the levels of each. Numeric attributes have no groups; where there are no
            others, all rows are one.

        Returns
        -------
        object
            attributes, groups, strata and n_rows, one entry for each group, and covariances
            (K, p, p); `best` and `kept` are what d components of its own, or a basis, keep of it.
        """
        whole = self.expanded()
        if not whole.table.cells:
            raise InvalidInputError("the moments hold no rows: add a batch with rows first.")
        return group_covariances(whole.table, self.n_features, joint=joint)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        min_rows: int = MIN_ROWS,
        merge_small: bool = False,
    ) -> Path:
        """Write the moments to an ``.npz`` file, without pickle; return its path.

        The file appears complete or not at all, and replaces a file of the same name. Cells with
        few rows are refused: the sums of a single row are that row.

        Parameters
        ----------
        path : str or path
            Where to; ``.npz`` is added to a name that does not end in it, as NumPy does.
        min_rows : int, default 10
            Rows that each cell needs, and that every value of a column of zeros and ones (or of
            missing values) needs in it. 1 writes whatever there is, single persons included.
        merge_small : bool, default False
            Whether cells with fewer rows are added to a cell "other" of their stratum, which the
            file and every fit from it say. It needs `min_rows` rows too.

        Examples
        --------
        >>> import os, tempfile
        >>> moments = GroupMoments.from_arrays([[1.0], [3.0]] * 10, ["a", "b"] * 10)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = moments.save(os.path.join(folder, "batch"))
        ...     path.name, GroupMoments.load(path).n_samples
        ('batch.npz', 20)
        """
        from fairpca._files import write_npz  # not needed by a fit
        from fairpca.moments._release import release
        from fairpca.moments._storage import pack_moments

        released = release(self, min_rows, merge_small=merge_small)
        return write_npz(path, _FORMAT, *pack_moments(released))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> GroupMoments:
        """Read moments written by `save`, where the example is; exactly what was saved."""
        from fairpca._files import read_npz
        from fairpca.moments._storage import unpack_moments

        what = "a file of moments, as GroupMoments.save writes them"
        return read_npz(path, _FORMAT, what, unpack_moments)
