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
_ELSEWHERE = {"Certificate": "fairpca.solvers", "GroupMoments": "fairpca.moments"}
_PACKAGES = ("datasets", "estimators", "metrics", "moments", "solvers", "tables")


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(_ELSEWHERE.get(name, "fairpca.estimators")), name)
    if name in _PACKAGES:
        return import_module(f"fairpca.{name}")
    raise AttributeError(f"module 'fairpca' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
