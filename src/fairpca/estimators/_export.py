"""Fitted models read from files, and exported as ONNX graphs by a converter for skl2onnx."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fairpca import estimators
from fairpca._files import damaged_file
from fairpca._models import read_model_file
from fairpca.exceptions import InvalidInputError
from fairpca.moments.contrasts import ContrastTable

_SAVED = ("FairPCA", "DeltaFairPCA", "SparseFairPCA")  # classes with a save method

SKOPS_TRUSTED = [
    "fairpca.estimators._delta_fair_pca.DeltaFairPCA",
    "fairpca.estimators._fair_kernel_pca.FairKernelPCA",
    "fairpca.estimators._fair_pca.FairPCA",
    "fairpca.estimators._fair_pca_cv.FairPCACV",
    "fairpca.estimators._sparse_fair_pca.SparseFairPCA",
    "fairpca.estimators._target.TargetInformation",
    "fairpca.kernels._anchors.Anchors",  # FairKernelPCA, and the next three
    "fairpca.kernels._anchors._gaussian",
    "functools.partial",
    "sklearn.metrics.pairwise.pairwise_kernels",
    "fairpca.moments._cells.Cell",  # the moments, which partial_fit needs
    "fairpca.moments._cells.Pooled",
    "fairpca.moments._maps.MissingIndicators",
    "fairpca.moments._maps.Span",
    "fairpca.moments._table.CellTable",
    "fairpca.moments._targets.TargetMoments",
    "fairpca.moments.contrasts.ContrastTable",
    "fairpca.moments.group_moments.GroupMoments",
    "fairpca.solvers._solution.Certificate",
]
"""Types of fitted estimators, for ``trusted=`` of skops and what builds on it."""


def load_model(path: str | os.PathLike[str]) -> Any:
    """Read a model of any class.

    Parameters
    ----------
    path : str or path
        A file written by the `save` method of an estimator.

    See Also
    --------
    FairPCA.save : What writes the file.

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
    try:
        if kind not in _SAVED:
            raise TypeError(f"a {kind}")
        model = getattr(estimators, kind)(**parameters)
    except TypeError as error:
        raise damaged_file(path, error) from None
    for name, value in state.items():
        setattr(model, name, ContrastTable(value) if name == "contrasts_" else value)
    return model


def to_onnx(model: Any, X: Any, **options: Any) -> Any:
    """Export a fitted linear estimator of this package, or a pipeline with one, to ONNX.

    The graph computes in float64, whatever it is fed with, and returns the type it was given.
    Needs ``pip install 'fairpca[onnx]'``.

    Parameters
    ----------
    model : estimator
        Fitted. Other steps of a pipeline need converters of their own, which skl2onnx has for
        scikit-learn's.
    X : array or data frame
        Rows as `transform` takes them; one is enough, for its types. An array makes one input
        ``X``, a data frame one input for each column.
    **options
        Of ``skl2onnx.to_onnx``, such as ``target_opset``.

    Returns
    -------
    onnx.ModelProto
        ``.SerializeToString()`` gives the bytes of a file.

    See Also
    --------
    FairPCA.to_sklearn : A plain PCA of scikit-learn.
    register_onnx : For skl2onnx's own functions.

    Examples
    --------
    >>> from fairpca.estimators import to_onnx
    >>> content = to_onnx(fair, X).SerializeToString()  # doctest: +SKIP
    """
    register_onnx()
    check_is_fitted(model)
    from skl2onnx import to_onnx as convert

    return convert(model, X[:1], **options)


def register_onnx() -> None:
    """Tell skl2onnx how to convert our models, so that its own functions can be used.

    See Also
    --------
    to_onnx : Registers and exports in one call.

    Examples
    --------
    >>> from fairpca.estimators import register_onnx
    >>> register_onnx()  # doctest: +SKIP
    """
    try:
        from skl2onnx import update_registered_converter
    except ImportError:
        raise ImportError(
            "the export to ONNX needs skl2onnx: pip install 'fairpca[onnx]'"
        ) from None
    for name in (*_SAVED, "FairPCACV"):
        kind = getattr(estimators, name)
        update_registered_converter(kind, f"Fairpca{name}", _shape, _convert, overwrite=True)


def _shape(operator: Any) -> None:
    """Declare the type and width of the output."""
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    inputs = _features(operator)
    single = all(isinstance(item.type, FloatTensorType) for item in inputs)
    rows = inputs[0].get_first_dimension()
    kind = FloatTensorType if single else DoubleTensorType
    operator.outputs[0].type = kind([rows, len(operator.raw_operator.components_)])


def _features(operator: Any) -> list[Any]:
    """Choose the inputs that are features: one matrix, or columns by the names of the fit."""
    inputs = list(operator.inputs)
    if len(inputs) == 1:
        return inputs
    by_name = {item.raw_name: item for item in inputs}
    names = getattr(operator.raw_operator, "feature_names_in_", list(by_name))
    lacking = [str(name) for name in names if name not in by_name]
    if lacking or len(names) != operator.raw_operator.n_features_in_:
        raise InvalidInputError(
            f"X: its columns are {', '.join(map(str, by_name))}, and those of the fit "
            f"{', '.join(map(str, names))}: pass the features as an array, or under the names of "
            "the fit.",
            parameter="X",
        )
    return [by_name[name] for name in names]


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Write (x − mean)·directionsᵀ in float64: a large mean costs no digits."""
    from onnx import TensorProto
    from skl2onnx.common.data_types import FloatTensorType

    model = operator.raw_operator
    model = getattr(model, "best_estimator_", model)  # of FairPCACV
    directions = model._directions.T
    if model.whiten:
        directions = directions / model._whitening
    single = isinstance(operator.outputs[0].type, FloatTensorType)
    name = scope.get_unique_variable_name
    mean, matrix, wide, centred, scores = map(name, ("mean", "matrix", "wide", "centred", "scores"))
    for place, values in ((mean, model.mean_), (matrix, directions)):
        flat = np.ascontiguousarray(values, dtype=np.float64)
        container.add_initializer(place, TensorProto.DOUBLE, list(flat.shape), flat.ravel())

    def add(kind: str, inputs: Any, output: str, **attributes: Any) -> None:
        container.add_node(
            kind, inputs, output, name=scope.get_unique_operator_name(kind), **attributes
        )

    columns = []
    for item in _features(operator):
        columns.append(name("column"))
        add("Cast", item.full_name, columns[-1], to=TensorProto.DOUBLE)
    add("Concat", columns, wide, axis=1)
    if model.missing == "mean":
        absent, filled = name("absent"), name("filled")
        add("IsNaN", wide, absent)
        add("Where", [absent, mean, wide], filled)
        wide = filled
    add("Sub", [wide, mean], centred)
    add("MatMul", [centred, matrix], scores)
    target = TensorProto.FLOAT if single else TensorProto.DOUBLE
    add("Cast", scores, operator.outputs[0].full_name, to=target)
