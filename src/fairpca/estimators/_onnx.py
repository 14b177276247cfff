"""Fitted linear models as ONNX graphs, by a converter that skl2onnx finds."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairpca.estimators._delta_fair_pca import DeltaFairPCA
from fairpca.estimators._fair_pca import FairPCA


def to_onnx(model: Any, X: Any, **options: Any) -> Any:
    """Export a fitted FairPCA, DeltaFairPCA, or a pipeline with one, to ONNX.

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

    Examples
    --------
    >>> from fairpca.estimators import to_onnx
    >>> content = to_onnx(fair, X).SerializeToString()  # doctest: +SKIP
    """
    register_onnx()
    from skl2onnx import to_onnx as convert

    return convert(model, X[:1], **options)


def register_onnx() -> None:
    """Tell skl2onnx how to convert our models, so that its own functions can be used.

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
    for kind in (FairPCA, DeltaFairPCA):
        name = f"Fairpca{kind.__name__}"
        update_registered_converter(kind, name, _shape, _convert, overwrite=True)


def _shape(operator: Any) -> None:
    """Declare the type and width of the output."""
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    single = isinstance(operator.inputs[0].type, FloatTensorType)
    rows = operator.inputs[0].get_first_dimension()
    kind = FloatTensorType if single else DoubleTensorType
    operator.outputs[0].type = kind([rows, len(operator.raw_operator.components_)])


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Write (x − mean)·directionsᵀ in float64: a large mean costs no digits."""
    from onnx import TensorProto
    from skl2onnx.common.data_types import FloatTensorType

    model = operator.raw_operator
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

    add("Cast", operator.inputs[0].full_name, wide, to=TensorProto.DOUBLE)
    add("Sub", [wide, mean], centred)
    add("MatMul", [centred, matrix], scores)
    target = TensorProto.FLOAT if single else TensorProto.DOUBLE
    add("Cast", scores, operator.outputs[0].full_name, to=target)
