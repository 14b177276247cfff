"""The scikit-learn surface: rows become moments, solutions become fitted attributes."""

from fairpca.estimators._delta_fair_pca import DeltaFairPCA
from fairpca.estimators._fair_kernel_pca import FairKernelPCA
from fairpca.estimators._fair_pca import FairPCA
from fairpca.estimators._fair_pca_cv import FairPCACV
from fairpca.estimators._onnx import register_onnx, to_onnx
from fairpca.estimators._persistence import load_model

__all__ = [
    "DeltaFairPCA",
    "FairKernelPCA",
    "FairPCA",
    "FairPCACV",
    "load_model",
    "register_onnx",
    "to_onnx",
]
