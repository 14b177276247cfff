"""Scorers for scikit-learn's model selection that receive the protected attribute by routing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import MetadataRequest

from fairpca.exceptions import DeltaNotReachedWarning, InvalidInputError, warn_user
from fairpca.linalg import Array
from fairpca.metrics.delta import delta_fairness
from fairpca.metrics.quality import explained_variance

_MAX_CLASSES = 50
_ROUTED = ("sensitive_features", "control_features", "sample_weight", "units")


class FairScorer:
    """Score a fitted transformer by the variance it keeps and by how well groups are predicted.

    The score is ``variance_weight · explained variance − delta_weight · Δ``, both on the rows it
    is called with; larger is better. In a pipeline the variance is that of the data the last
    transformer receives; where a pipeline ends in a classifier or regressor, what is scored is the
    representation that it receives.

    Parameters
    ----------
    variance_weight : float, default 1.0
        Weight of the explained variance; 0: fairness alone.
    delta_weight : float, default 1.0
        Share of variance worth giving up for one unit of Δ; 0: variance alone, without groups.
    of : {"representation", "decision"}, default "representation"
        Whether Δ is that of the representation, or the largest difference between groups in the
        share of any class that ``predict`` returns.
    **delta_options
        Arguments of `delta_fairness`, such as ``family`` and ``method``.

    See Also
    --------
    refit_within : Chooses by its two scores.
    fairpca.FairPCACV : Chooses from moments alone.

    Notes
    -----
    With ``sklearn.set_config(enable_metadata_routing=True)`` the scorer asks for
    ``sensitive_features``; `set_score_request` adds ``control_features``, ``sample_weight`` and
    ``units``, or changes the name under which the groups are passed.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.decomposition import PCA
    >>> from fairpca.metrics import FairScorer
    >>> rng = np.random.default_rng(0)
    >>> X, z = rng.normal(size=(200, 4)), np.repeat([0, 1], 100)
    >>> X[:, 0] += 3 * z
    >>> score = FairScorer()(PCA(1).fit(X), X, sensitive_features=z)
    >>> round(score, 1)
    -0.4
    """

    def __init__(
        self,
        variance_weight: float = 1.0,
        delta_weight: float = 1.0,
        *,
        of: str = "representation",
        **delta_options: Any,
    ) -> None:
        if of not in ("representation", "decision"):
            raise InvalidInputError(
                f"of must be 'representation' or 'decision', not {of!r}.", parameter="of"
            )
        self.of = of
        self.variance_weight = variance_weight
        self.delta_weight = delta_weight
        self.delta_options = delta_options
        self._requests: dict[str, Any] = {"sensitive_features": True} if delta_weight else {}

    def __call__(
        self,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        control_features: Any = None,
        sample_weight: Any = None,
        units: Any = None,
    ) -> float:
        """Score a fitted transformer, classifier or pipeline on rows X.

        `y` is ignored. `sensitive_features` are needed unless ``delta_weight=0``; the other
        arguments are those of `delta_fairness`.
        """
        score = 0.0
        if self.variance_weight:
            score += self.variance_weight * _variance(estimator, X, sample_weight)
        if self.delta_weight:
            if sensitive_features is None:
                raise InvalidInputError(
                    "The scorer needs sensitive_features: call "
                    "sklearn.set_config(enable_metadata_routing=True) and pass "
                    "sensitive_features=... to fit of the search."
                )
            decides = self.of == "decision"
            columns = _classes(estimator.predict(X)) if decides else [_transformer(estimator)(X)]
            deltas = [
                delta_fairness(
                    column,
                    sensitive_features,
                    control_features=control_features,
                    sample_weight=sample_weight,
                    units=units,
                    **self.delta_options,
                ).value
                for column in columns
            ]
            score -= self.delta_weight * max(deltas)
        return float(score)

    def set_score_request(self, **requests: bool | str | None) -> FairScorer:
        """Choose which metadata the scorer requests, and return the scorer.

        For ``sensitive_features``, ``control_features``, ``sample_weight`` and ``units``: True to
        request it, False to ignore it, None to refuse it, or the name under which it is passed.
        """
        unknown = sorted(set(requests) - set(_ROUTED))
        if unknown:
            raise InvalidInputError(f"The scorer takes {_ROUTED}, not {unknown}.")
        self._requests = {**self._requests, **requests}
        return self

    def get_metadata_routing(self) -> MetadataRequest:
        """Return what the scorer asks for, as scikit-learn expects it."""
        request = MetadataRequest(owner=self)
        for name, alias in self._requests.items():
            request.score.add_request(param=name, alias=alias)
        return request

    def __repr__(self) -> str:
        settings = {} if self.of == "representation" else {"of": self.of}
        settings |= self.delta_options
        options = "".join(f", {key}={value!r}" for key, value in settings.items())
        return (
            f"FairScorer(variance_weight={self.variance_weight:g}, "
            f"delta_weight={self.delta_weight:g}{options})"
        )


def _transformer(estimator: Any) -> Callable[[Any], Any]:
    """Return what makes the representation; of a pipeline all that comes before a classifier."""
    if hasattr(estimator, "transform"):
        return estimator.transform
    if isinstance(estimator, Pipeline) and len(estimator) > 1:
        return _transformer(estimator[:-1])
    raise InvalidInputError(
        f"{type(estimator).__name__} has no representation to score, since it does not transform: "
        "score a pipeline that does, or use of='decision'.",
        parameter="of",
    )


def _classes(predicted: Any) -> list[Array]:
    """Return an indicator of each class; of two classes one says it all."""
    values = np.asarray(predicted)
    classes = np.unique(values)
    if len(classes) > _MAX_CLASSES:
        raise InvalidInputError(
            f"predict returns {len(classes)} different values: of='decision' needs classes.",
            parameter="of",
        )
    return [(values == one).astype(float) for one in classes[len(classes) == 2 :]]


def _variance(estimator: Any, X: Any, sample_weight: Any) -> float:
    """Return the explained variance of the data that the last transformer receives."""
    transform = _transformer(estimator)
    data, last = X, estimator
    while isinstance(last, Pipeline):
        steps = last if hasattr(last[-1], "transform") else last[:-1]
        data, last = (steps[:-1].transform(data) if len(steps) > 1 else data), steps[-1]
    components = getattr(last, "components_", None)
    if components is not None and np.shape(components)[-1] == np.shape(data)[1]:
        return explained_variance(data, components=components, sample_weight=sample_weight)
    return explained_variance(data, U=transform(X), sample_weight=sample_weight)


def refit_within(
    max_delta: float, *, delta: str = "delta", variance: str = "variance"
) -> Callable[[Mapping[str, Any]], int]:
    """Make a ``refit`` rule for GridSearchCV: the most variance with Δ within a limit.

    Parameters
    ----------
    max_delta : float
        Largest mean Δ allowed on held-out rows.
    delta, variance : str
        Names of the two scorers in the dict of ``scoring``.

    Returns
    -------
    callable
        Takes ``cv_results_`` and returns the index of the chosen candidate. Where no candidate
        is within the limit it warns and returns the fairest.

    See Also
    --------
    FairScorer : The scores that it chooses by.

    Examples
    --------
    >>> from fairpca.metrics import refit_within
    >>> results = {"mean_test_delta": [-0.5, -0.1, -0.05], "mean_test_variance": [0.9, 0.6, 0.4]}
    >>> refit_within(0.2)(results)
    1
    """

    def choose(results: Mapping[str, Any]) -> int:
        deltas = -np.asarray(results[f"mean_test_{delta}"], dtype=float)
        variances = np.asarray(results[f"mean_test_{variance}"], dtype=float)
        within = np.flatnonzero(deltas <= max_delta)
        if not within.size:
            warn_user(
                f"No candidate has Δ ≤ {max_delta:g}; the smallest is {deltas.min():.3f}. "
                "The fairest candidate is used: widen the grid or raise the limit.",
                DeltaNotReachedWarning,
            )
            return int(np.argmin(deltas))
        return int(within[np.argmax(variances[within])])

    return choose
