"""The BLAS thread guard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import ThreadpoolController


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Keep BLAS at one thread inside the block.

    The matrices here are small: handing a 50×50 product to a second thread costs more than the
    product, and on a machine whose cores are busy the threads wait for each other.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.linalg import single_blas_thread
    >>> with single_blas_thread():
    ...     float(np.eye(2).trace())
    2.0
    """
    with ThreadpoolController().limit(limits=1, user_api="blas"):
        yield
