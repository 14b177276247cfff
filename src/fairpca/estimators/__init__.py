"""The scikit-learn surface: rows become moments, solutions become fitted attributes."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairpca.estimators._delta_fair_pca import DeltaFairPCA
    from fairpca.estimators._export import SKOPS_TRUSTED, load_model, register_onnx, to_onnx
    from fairpca.estimators._fair_kernel_pca import FairKernelPCA
    from fairpca.estimators._fair_pca import FairPCA
    from fairpca.estimators._fair_pca_cv import FairPCACV
    from fairpca.estimators._sparse_fair_pca import SparseFairPCA

__all__ = [
    "SKOPS_TRUSTED",
    "DeltaFairPCA",
    "FairKernelPCA",
    "FairPCA",
    "FairPCACV",
    "SparseFairPCA",
    "load_model",
    "register_onnx",
    "to_onnx",
]

# Imported when first used: FairPCA needs neither kernels nor adversaries.
_MODULES = {
    "SKOPS_TRUSTED": "_export",
    "DeltaFairPCA": "_delta_fair_pca",
    "FairKernelPCA": "_fair_kernel_pca",
    "FairPCA": "_fair_pca",
    "FairPCACV": "_fair_pca_cv",
    "SparseFairPCA": "_sparse_fair_pca",
    "load_model": "_export",
    "register_onnx": "_export",
    "to_onnx": "_export",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'fairpca.estimators' has no attribute {name!r}")
    return getattr(import_module(f"fairpca.estimators.{_MODULES[name]}"), name)
