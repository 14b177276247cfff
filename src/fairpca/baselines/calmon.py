"""CalmonPreprocessor: optimised preprocessing of Calmon et al. as the paper runs it."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils import ClassifierTags, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_feature_names_in,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from fairpca._choices import MISSING_GROUPS
from fairpca.baselines._transport import (
    Binning,
    draw_from_rows,
    most_correlated,
    observed_cells,
    solve_mapping,
    source_shares,
)
from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.rows import Rows, encode_groups

_FLOATS = [np.float64, np.float32]


class CalmonPreprocessor(TransformerMixin, BaseEstimator):
    """Optimised preprocessing: a randomised map of rows that evens out the label between groups.

    The features most correlated with the label are cut into bins. Over the observed cells (bins,
    label, group) a linear program finds the mapping of cells that changes the distribution of
    bins and label least, such that the label depends little on the group and no cell is distorted
    much (Calmon et al. 2017, with the choices of Olfat and Aswani 2019). Distortion is 0 where
    nothing changes, 0.5 where the label is kept and no feature moves by more than one bin, else 1.

    Parameters
    ----------
    n_selected : int, default=3
        Number of features to keep.
    n_bins : int, default=8
        Bins of each feature.
    distortion_bound : float, default=0.1
        Bound c on the expected distortion of every cell of bins and label.
    parity_bound : float, default=0.3
        Bound d on ``|P(new label | group) / P(label) − 1|``.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width or of equal share.
    version : {"random", "expected"}, default="random"
        Whether `transform` draws a cell for each row or returns the expected value.
    unseen : {"nearest", "unchanged"}, default="nearest"
        Rows in a cell without training rows: treated like the nearest observed cell (fewest bins
        apart, then the most frequent), or left in their own bins.
    random_state : int, RandomState or None, default=0
        Seed of the random version.
    missing_groups : {"raise", "ignore"}, default="raise"
        What to do when `sensitive_features` is not given; "ignore": all rows are one group.

    Attributes
    ----------
    selected_ : ndarray of int, shape (n_selected,)
        The features kept, by falling correlation with the label.
    classes_ : ndarray of shape (2,)
        The two labels.
    deviation_ : float
        Total variation between the old and the new distribution of cells.
    cells_ : Cells
        The observed cells.
    mapping_ : Mapping
        The randomised mapping.
    n_features_in_, feature_names_in_ : int and ndarray of str
        Number of features, and their names where X had any.

    References
    ----------
    F. Calmon, D. Wei, B. Vinzamuri, K. Natesan Ramamurthy and K. Varshney (2017). Optimized
    pre-processing for discrimination prevention. NeurIPS 30.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.baselines import CalmonPreprocessor
    >>> rng = np.random.default_rng(0)
    >>> group = rng.integers(0, 2, 1000)
    >>> X = rng.normal(size=(1000, 4)) + np.outer(group, [0.5, 0, 0, 0])
    >>> y = (X[:, 0] + X[:, 1] + rng.normal(size=1000) > 0).astype(int)
    >>> calmon = CalmonPreprocessor(n_bins=4).fit(X, y, sensitive_features=group)
    >>> calmon.transform(X).shape
    (1000, 3)
    """

    __metadata_request__fit: ClassVar = {"sensitive_features": True}

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_selected": [Interval(Integral, 1, None, closed="left")],
        "n_bins": [Interval(Integral, 2, None, closed="left")],
        "distortion_bound": [Interval(Real, 0, 1, closed="both")],
        "parity_bound": [Interval(Real, 0, None, closed="left")],
        "strategy": [StrOptions({"uniform", "quantile"})],
        "version": [StrOptions({"random", "expected"})],
        "unseen": [StrOptions({"nearest", "unchanged"})],
        "random_state": ["random_state"],
        "missing_groups": [StrOptions(set(MISSING_GROUPS))],
    }

    def __init__(
        self,
        n_selected=3,
        n_bins=8,
        *,
        distortion_bound=0.1,
        parity_bound=0.3,
        strategy="uniform",
        version="random",
        unseen="nearest",
        random_state=0,
        missing_groups="raise",
    ):
        self.n_selected = n_selected
        self.n_bins = n_bins
        self.distortion_bound = distortion_bound
        self.parity_bound = parity_bound
        self.strategy = strategy
        self.version = version
        self.unseen = unseen
        self.random_state = random_state
        self.missing_groups = missing_groups

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, *, sensitive_features=None, sample_weight=None):
        """Learn the mapping.

        Parameters
        ----------
        X, y : array-like of shapes (n_samples, n_features) and (n_samples,)
            Features, and a label of two classes.
        sensitive_features, sample_weight
            As for `FairPCA.fit`; several attributes count by their combinations.

        Raises
        ------
        InfeasibleError
            If no mapping meets both bounds; it states the smallest feasible `distortion_bound`.
        """
        X, y = validate_data(self, X, y, dtype=_FLOATS, ensure_min_samples=2)
        X = X.astype(np.float64)
        rows = Rows.attach(X, sensitive_features, None, sample_weight)
        weights = np.ones(len(X)) if rows.weights is None else rows.weights
        kept = weights > 0.0
        labels = self._encode_labels(y, kept)
        groups = self._fit_groups(rows)
        X, labels, groups, weights = X[kept], labels[kept], groups[kept], weights[kept]
        self.selected_ = most_correlated(X, labels, weights, self.n_selected)
        X = X[:, self.selected_]
        self._binning = Binning.fit(X, self.n_bins, self.strategy, weights)
        self.cells_ = observed_cells(self._binning.codes(X), labels, groups, weights)
        self.mapping_ = solve_mapping(self.cells_, self.distortion_bound, self.parity_bound)
        self.deviation_ = self.mapping_.deviation
        return self

    def transform(self, X, *, sensitive_features=None):
        """Map rows whose label is not known.

        The mapping is averaged over what is not given: over the label, and over the group unless
        `sensitive_features` is given, both as they occurred in that cell in training. Parameters
        are as for `fit`.

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_selected)
            New values of the selected features: a value that stands for the bin drawn, or the
            expectation of that value.
        """
        return self._map(X, None, sensitive_features)[0]

    def transform_pairs(self, X, y, *, sensitive_features=None):
        """Map rows together with their labels, as for training data; parameters as for `fit`.

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_selected)
            As for `transform`.
        y_new : ndarray of shape (n_samples,)
            New labels, or for version="expected" the probability of ``classes_[1]``.
        """
        X_new, positive = self._map(X, column_or_1d(y), sensitive_features)
        if self.version == "expected":
            return X_new, positive
        return X_new, self.classes_[positive.astype(int)]

    def get_feature_names_out(self, input_features=None):
        """Names of the selected features, out of `input_features` where X had no names."""
        check_is_fitted(self, "selected_")
        return _check_feature_names_in(self, input_features)[self.selected_]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.classifier_tags = ClassifierTags(multi_class=False)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.non_deterministic = self.random_state is None and self.version == "random"
        return tags

    def _encode_labels(self, y, kept):
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        if len(np.unique(codes[kept])) != 2 or len(classes) != 2:
            raise InvalidInputError(
                f"y has {len(classes)} classes; optimised preprocessing needs a label of two. "
                "Binarise it, or choose another label."
            )
        self.classes_ = classes
        return codes

    def _fit_groups(self, rows):
        if rows.groups is None:
            if self.missing_groups == "raise":
                raise GroupsError(
                    "sensitive_features was not given. Pass the protected attribute to fit, or "
                    "set missing_groups='ignore' to treat all rows as one group."
                )
            self._groups = {(): 0}
            return np.zeros(len(rows), dtype=np.intp)
        combinations = _combinations(rows.groups)
        self._groups = {key: i for i, key in enumerate(sorted(set(combinations), key=repr))}
        if len(self._groups) < 2 and self.missing_groups == "raise":
            raise GroupsError(
                "sensitive_features has one group only: there is nothing to be fair between. Check "
                "that the right column was given, or set missing_groups='ignore'."
            )
        return np.array([self._groups[key] for key in combinations])

    def _known_groups(self, sensitive_features, n_rows):
        if sensitive_features is None:
            return None
        combinations = _combinations(encode_groups(sensitive_features, n_rows=n_rows))
        unknown = sorted(set(combinations) - set(self._groups), key=repr)
        if unknown:
            raise GroupsError(
                f"sensitive_features holds groups that were not there in fit: {unknown[:3]}. "
                "Leave sensitive_features out to average over the groups."
            )
        return np.array([self._groups[key] for key in combinations])

    def _map(self, X, y, sensitive_features):
        """Return new values of the selected features, and the label (or its probability)."""
        check_is_fitted(self, "mapping_")
        X = validate_data(self, X, dtype=_FLOATS, reset=False)
        labels = None
        if y is not None:
            if not np.isin(y, self.classes_).all():
                raise InvalidInputError(f"y holds labels other than {self.classes_.tolist()}.")
            labels = np.searchsorted(self.classes_, y)
        groups = self._known_groups(sensitive_features, len(X))
        codes = self._binning.codes(X[:, self.selected_])
        mixture, seen = self._sources(codes, labels, groups)
        values = self._binning.decode(self.cells_.bins)
        outcome = np.column_stack([values, self.cells_.labels])
        if self.version == "expected":
            new = mixture @ self.mapping_.expectation(outcome, self.cells_.group)
        else:
            new = outcome[self._draw(mixture)]
        if self.unseen == "unchanged" and not seen.all():
            own = self._binning.decode(codes)
            new[~seen, :-1] = own[~seen]
            if labels is not None:
                new[~seen, -1] = labels[~seen]
        return new[:, :-1].astype(X.dtype), new[:, -1]

    def _sources(self, codes, labels, groups):
        """For each row the probabilities of the sources it may be, and whether its cell is seen."""
        cells, n_rows = self.cells_, len(codes)
        match = np.zeros((n_rows, 2), dtype=np.intp)
        if labels is not None:
            match[:, 0] = labels
        if groups is not None:
            match[:, 1] = groups
        seen = np.zeros(n_rows, dtype=bool)
        entries = []
        for condition in np.unique(match, axis=0):
            rows = np.flatnonzero((match == condition).all(axis=1))
            allowed = np.ones(len(cells.mass), dtype=bool)
            if labels is not None:
                allowed &= cells.labels[cells.cell] == condition[0]
            if groups is not None and (allowed & (cells.group == condition[1])).any():
                allowed &= cells.group == condition[1]
            row, source, share, here = source_shares(codes[rows], cells, np.flatnonzero(allowed))
            entries.append((rows[row], source, share))
            seen[rows] = here
        row, source, share = (np.concatenate(parts) for parts in zip(*entries, strict=True))
        shape = (n_rows, len(cells.mass))
        return sparse.csr_array((share, (row, source)), shape=shape), seen

    def _draw(self, mixture):
        """Draw a source for each row, then a cell from its short moves or its pool."""
        random = check_random_state(self.random_state)
        picks = random.uniform(size=(mixture.shape[0], 2))
        source = draw_from_rows(mixture, picks[:, 0])
        near, far = self.mapping_.near, self.mapping_.far
        cell = np.empty(len(source), dtype=np.intp)
        pooled = picks[:, 1] < far[source]
        scaled = (picks[:, 1] - far[source]) / np.where(pooled, 1.0, 1.0 - far[source])
        cell[~pooled] = draw_from_rows(near[source[~pooled]], scaled[~pooled])
        share = picks[pooled, 1] / far[source[pooled]]
        totals = np.cumsum(self.mapping_.pool, axis=1)
        group = self.cells_.group[source[pooled]]
        pairs = zip(group, share, strict=True)
        places = [np.searchsorted(totals[g], u, side="right") for g, u in pairs]
        cell[pooled] = np.minimum(np.array(places, dtype=np.intp), totals.shape[1] - 1)
        return cell


def _combinations(groups):
    if groups.numeric:
        raise GroupsError(
            f"sensitive_features column {groups.numeric[0].name!r} holds numbers; cut it into "
            "groups first."
        )
    columns = [[c.levels[code] for code in c.codes] for c in groups.categorical]
    return list(zip(*columns, strict=True))
