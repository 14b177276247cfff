"""Fair principal component analysis with certificates."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairpca.estimators import (
        SKOPS_TRUSTED,
        DeltaFairPCA,
        FairKernelPCA,
        FairPCA,
        FairPCACV,
        SparseFairPCA,
        load_model,
    )
    from fairpca.moments import GroupMoments
    from fairpca.solvers import Certificate

__version__ = version("fairpca")
__all__ = [
    "SKOPS_TRUSTED",
    "Certificate",
    "DeltaFairPCA",
    "FairKernelPCA",
    "FairPCA",
    "FairPCACV",
    "GroupMoments",
    "SparseFairPCA",
    "__version__",
    "load_model",
]

# Imported when first used: scikit-learn takes seconds to load, and the command line has to be
# there before that, to take an interrupt or to say that something is missing.
_HOME = {
    "SKOPS_TRUSTED": "fairpca.estimators",
    "Certificate": "fairpca.solvers",
    "DeltaFairPCA": "fairpca.estimators",
    "FairKernelPCA": "fairpca.estimators",
    "FairPCA": "fairpca.estimators",
    "FairPCACV": "fairpca.estimators",
    "GroupMoments": "fairpca.moments",
    "SparseFairPCA": "fairpca.estimators",
    "load_model": "fairpca.estimators",
}
_PACKAGES = ("datasets", "estimators", "metrics", "moments", "solvers", "tables")


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name in _PACKAGES:
        return import_module(f"fairpca.{name}")
    raise AttributeError(f"module 'fairpca' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
