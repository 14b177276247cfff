"""Feature maps of kernels: the space in which a kernel problem is linear.

Kernel functions and k-means are handed in by the caller: this package knows NumPy and SciPy only.
"""

from fairpca.kernels._anchors import (
    Anchors,
    all_rows,
    check_gram_memory,
    equivalent_kernel,
    few_rows,
    inverse_coefficients,
)
from fairpca.kernels._spaces import (
    KernelSpace,
    SpectrumOptions,
    coefficient_space,
    exact_space,
    is_positive,
    landmark_space,
    sum_in_batches,
)

__all__ = [
    "Anchors",
    "KernelSpace",
    "SpectrumOptions",
    "all_rows",
    "check_gram_memory",
    "coefficient_space",
    "equivalent_kernel",
    "exact_space",
    "few_rows",
    "inverse_coefficients",
    "is_positive",
    "landmark_space",
    "sum_in_batches",
]
