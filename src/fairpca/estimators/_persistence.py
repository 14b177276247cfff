"""Fitted models on disk: arrays in an npz file, the rest in a JSON header, no pickle.

A file can be read without running code from it, by any later version that knows its format
version, and by other programs: it is a zip of plain arrays and one JSON text.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fairpca._files import DAMAGED, read_npz, write_npz
from fairpca.exceptions import InvalidInputError
from fairpca.moments import GroupMoments, Standardization
from fairpca.solvers import Certificate

FORMAT = "fairpca.model"
VERSION = 1

Model = TypeVar("Model", bound="SavedModelMixin")


class SavedModel(NamedTuple):
    """What a model file holds.

    Parameters
    ----------
    model : estimator
        The fitted estimator.
    standardization : Standardization or None
        Mean and scale that rows need before `model.transform`, where the model was fitted to
        standardised moments.
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
        """Write the fitted model to an ``.npz`` file, without pickle.

        The file appears complete or not at all, and replaces a file of the same name.

        Parameters
        ----------
        path : str or path
            Where to; ``.npz`` is added to a name that does not end in it.
        standardization : Standardization, optional
            Where the model was fitted to standardised moments: `moments.standardization()`, so
            that the file knows how to treat rows.
        moments : bool, default=True
            Whether to keep the moments, which `partial_fit` needs. They are most of the file.

        Returns
        -------
        Path
            The file written.

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
        arrays: dict[str, Any] = {}
        state = {
            name: _encode(value, name, arrays)
            for name, value in sorted(vars(self).items())
            if name.endswith("_") and not name.startswith("_") and (moments or name != "moments_")
        }
        parameters = self.get_params(deep=False)  # type: ignore[attr-defined]
        header = {
            "format": FORMAT,
            "version": VERSION,
            "written_by": version("fairpca"),
            "class": type(self).__name__,
            "parameters": {name: _encode(parameters[name], name, arrays) for name in parameters},
            "state": state,
            "standardization": _encode(
                None if standardization is None else list(standardization),
                "standardization",
                arrays,
            ),
        }
        return write_npz(path, header, arrays)

    @classmethod
    def load(cls: type[Model], path: str | os.PathLike[str]) -> Model:
        """Read a model written by `save`, where the example is.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        estimator
            Fitted, with the same parameters and attributes.
        """
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

    Returns
    -------
    SavedModel
        The estimator and its standardisation, or None.

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
    what = "a model file, as the save method of an estimator writes it"
    header, arrays = read_npz(path, FORMAT, VERSION, what)
    known = {kind.__name__: kind for kind in SavedModelMixin.__subclasses__()}
    try:
        kind = known[header["class"]]
        parameters = {name: _decode(value, arrays) for name, value in header["parameters"].items()}
        model = kind(**parameters)
        for name, value in header["state"].items():
            setattr(model, name, _decode(value, arrays))
        values = _decode(header["standardization"], arrays)
        standardization = None if values is None else Standardization(*values)
        _check_model(model, standardization)
    except DAMAGED as error:
        raise InvalidInputError(
            f"{os.fspath(path)!r} is damaged, or of a model that this fairpca does not know "
            f"({error}): write it again."
        ) from None
    return SavedModel(model, standardization)


def _check_model(model: Any, standardization: Standardization | None) -> None:
    """Refuse a fitted state that no fit can have."""
    d, p = model.components_.shape
    shapes = {
        "components_": (d, p),
        "mean_": (p,),
        "explained_variance_": (d,),
        "explained_variance_ratio_": (d,),
    }
    for name, shape in shapes.items():
        array = getattr(model, name)
        if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
            raise ValueError(f"{name} is not {shape} finite numbers")
    if np.abs(model.components_ @ model.components_.T - np.eye(d)).max(initial=0.0) > 1e-6:
        raise ValueError("the components are not orthonormal")
    if (model.explained_variance_ < 0).any():
        raise ValueError("a variance is negative")
    widths = [model.n_features_in_, *(len(part) for part in standardization or ())]
    widths += [len(getattr(model, "feature_names_in_", model.mean_))]
    if hasattr(model, "moments_"):
        widths.append(model.moments_.n_features)
    if set(widths) != {p}:
        raise ValueError(f"{p} features in one place and {sorted(set(widths))} in others")
    if standardization is not None and not (
        np.isfinite(standardization.mean).all()
        and np.isfinite(standardization.scale).all()
        and (standardization.scale > 0).all()
    ):
        raise ValueError("the standardisation is not finite and positive")


def _encode(value: Any, name: str, arrays: dict[str, Any]) -> Any:
    """Turn a value into JSON, with its arrays set aside under numbered names."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_encode(item, name, arrays) for item in value]}
    if isinstance(value, dict):
        pairs = value.items()
        return {"dict": [[_encode(k, name, arrays), _encode(v, name, arrays)] for k, v in pairs]}
    if isinstance(value, Certificate):
        return {"certificate": asdict(value)}
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        return {"objects": [_encode(item, name, arrays) for item in value.tolist()]}
    key = f"{name}.{len(arrays)}"
    if isinstance(value, np.ndarray):
        arrays[key] = value
        return {"array": key}
    if isinstance(value, GroupMoments):
        arrays[key] = _moments_to_bytes(value)
        return {"moments": key}
    raise InvalidInputError(
        f"{name} is a {type(value).__name__}, which cannot be written to a model file: only "
        "numbers, text, arrays and lists of them can."
    )


def _decode(value: Any, arrays: dict[str, Any]) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind in ("list", "tuple", "objects"):
        items = [_decode(item, arrays) for item in content]
        if kind == "objects":
            return np.array(items, dtype=object)
        return tuple(items) if kind == "tuple" else items
    if kind == "dict":
        return {_decode(k, arrays): _decode(v, arrays) for k, v in content}
    if kind == "certificate":
        return Certificate(**content)
    if kind == "moments":
        return _moments_from_bytes(arrays[content])
    if kind == "array":
        return arrays[content]
    raise ValueError(f"a value of kind {kind!r}")


def _moments_to_bytes(moments: GroupMoments) -> Any:
    """Moments in their own format, so that there is one description of it only."""
    with tempfile.TemporaryDirectory() as folder:
        return np.fromfile(moments.save(Path(folder, "moments.npz")), dtype=np.uint8)


def _moments_from_bytes(content: Any) -> GroupMoments:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "moments.npz")
        path.write_bytes(content.tobytes())
        return GroupMoments.load(path)
