"""Helpers for small symmetric matrices; knows NumPy, SciPy and the BLAS thread guard only."""

from fairpca.linalg._blas import single_blas_thread
from fairpca.linalg._gaussian import gaussian_delta
from fairpca.linalg._spectral import (
    Array,
    complement_basis,
    eigenvalue_excess,
    fix_signs,
    ky_fan,
    orthonormalize,
    project,
    spectral_norms,
    symmetrize,
    top_eigenpairs,
)
from fairpca.linalg._thresholds import clipping_level, fantope_eigenvalues, shared_level

__all__ = [
    "Array",
    "clipping_level",
    "complement_basis",
    "eigenvalue_excess",
    "fantope_eigenvalues",
    "fix_signs",
    "gaussian_delta",
    "ky_fan",
    "orthonormalize",
    "project",
    "shared_level",
    "single_blas_thread",
    "spectral_norms",
    "symmetrize",
    "top_eigenpairs",
]
