"""Fitted estimators written to files and read from them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from sklearn.utils.validation import check_is_fitted

from fairpca._models import ModelFile, damaged_model, read_model_file, write_model
from fairpca.exceptions import InvalidInputError
from fairpca.moments import Standardization
from fairpca.moments.contrasts import ContrastTable

Model = TypeVar("Model", bound="SavedModelMixin")


class SavedModel(NamedTuple):
    """A fitted estimator, and the mean and scale that rows need before its `transform`.

    They are None unless the model was fitted to standardised moments.

    Examples
    --------
    >>> from fairpca import FairPCA
    >>> from fairpca.estimators import SavedModel
    >>> SavedModel(FairPCA(2), None).standardization is None
    True
    """

    model: Any
    standardization: Standardization | None


class SavedModelMixin:
    """Adds `save` and `load` to an estimator whose fitted state is arrays and plain values."""

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        standardization: Standardization | None = None,
        moments: bool = True,
    ) -> Path:
        """Write the fitted model to a file, as `GroupMoments.save` does; return its path.

        Parameters
        ----------
        path : str or path
            Where to; ``.npz`` is added where it is missing.
        standardization : Standardization, optional
            Where the model was fitted to standardised moments: `moments.standardization()`, so
            that the file knows how to treat rows.
        moments : bool, default=True
            Whether to keep the moments, which `partial_fit` needs. They are most of the file.

        Examples
        --------
        >>> import os, tempfile
        >>> import numpy as np
        >>> from fairpca import FairPCA
        >>> X = np.random.default_rng(0).normal(size=(50, 3))
        >>> fair = FairPCA(1).fit(X, sensitive_features=np.arange(50) % 2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = fair.save(os.path.join(folder, "model"))
        ...     again = FairPCA.load(path)
        >>> bool((again.transform(X) == fair.transform(X)).all())
        True
        """
        check_is_fitted(self, "components_")
        state = {
            name: value
            for name, value in sorted(vars(self).items())
            if name.endswith("_") and not name.startswith("_") and (moments or name != "moments_")
        }
        parameters = self.get_params(deep=False)  # type: ignore[attr-defined]
        found = ModelFile(type(self).__name__, parameters, state, standardization)
        return write_model(path, found)

    @classmethod
    def load(cls: type[Model], path: str | os.PathLike[str]) -> Model:
        """Read a model written by `save`, where the example is; the same in every attribute."""
        model, standardization = load_model(path)
        if type(model) is not cls:
            raise InvalidInputError(
                f"{os.fspath(path)!r} holds a {type(model).__name__}: use "
                f"{type(model).__name__}.load."
            )
        if standardization is not None:
            raise InvalidInputError(
                f"{os.fspath(path)!r} holds a model of standardised features: use "
                "fairpca.estimators.load_model, which also returns how to standardise rows."
            )
        return model


def load_model(path: str | os.PathLike[str]) -> SavedModel:
    """Read a model of any class, with the standardisation its rows need.

    Parameters
    ----------
    path : str or path
        A file written by the `save` method of an estimator.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from fairpca import FairPCA, GroupMoments
    >>> from fairpca.estimators import load_model
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> moments = GroupMoments.from_arrays(X, np.arange(50) % 2)
    >>> fair = FairPCA(1).fit_moments(moments.standardized())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = fair.save(os.path.join(folder, "m"), standardization=moments.standardization())
    ...     model, (mean, scale) = load_model(path)
    >>> model.transform((X - mean) / scale).shape
    (50, 1)
    """
    found = read_model_file(path)
    known = {kind.__name__: kind for kind in SavedModelMixin.__subclasses__()}
    try:
        model = known[found.kind](**found.parameters)
    except (KeyError, TypeError) as error:
        raise damaged_model(path, error) from None
    for name, value in found.state.items():
        setattr(model, name, ContrastTable(value) if name == "contrasts_" else value)
    return SavedModel(model, found.standardization)
