"""Fitted estimators written to files and read from them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeVar

from sklearn.utils.validation import check_is_fitted

from fairpca._files import damaged_file
from fairpca._models import ModelFile, read_model_file, write_model
from fairpca.exceptions import InvalidInputError
from fairpca.moments.contrasts import ContrastTable

Model = TypeVar("Model", bound="SavedModelMixin")


class SavedModelMixin:
    """Adds `save` and `load` to an estimator whose fitted state is arrays and plain values."""

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        moments: bool = True,
    ) -> Path:
        """Write the fitted model to a file, as `GroupMoments.save` does; return its path.

        Parameters
        ----------
        path : str or path
            Where to; ``.npz`` is added where it is missing.
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
        return write_model(path, ModelFile(type(self).__name__, parameters, state))

    @classmethod
    def load(cls: type[Model], path: str | os.PathLike[str]) -> Model:
        """Read a model written by `save`, where the example is; the same in every attribute."""
        model = load_model(path)
        if type(model) is not cls:
            raise InvalidInputError(
                f"{os.fspath(path)!r} holds a {type(model).__name__}: use "
                f"{type(model).__name__}.load."
            )
        return model


def load_model(path: str | os.PathLike[str]) -> Any:
    """Read a model of any class.

    Parameters
    ----------
    path : str or path
        A file written by the `save` method of an estimator.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from fairpca import FairPCA, load_model
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> fair = FairPCA(1, standardize=True).fit(X, sensitive_features=np.arange(50) % 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = load_model(fair.save(os.path.join(folder, "model")))
    >>> type(again).__name__, bool((again.transform(X) == fair.transform(X)).all())
    ('FairPCA', True)
    """
    kind, parameters, state = read_model_file(path)
    known = {cls.__name__: cls for cls in SavedModelMixin.__subclasses__()}
    try:
        model: Any = known[kind](**parameters)
    except (KeyError, TypeError) as error:
        raise damaged_file(path, error) from None
    for name, value in state.items():
        setattr(model, name, ContrastTable(value) if name == "contrasts_" else value)
    return model
