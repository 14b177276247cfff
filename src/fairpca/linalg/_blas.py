"""The BLAS thread guard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import threadpoolctl


class _SharedLimit:
    """The limit belongs to the process: the first thread sets it, the last to leave lifts it."""

    def __init__(self) -> None:
        self.lock, self.users = Lock(), 0
        self.limits: Any = None

    def enter(self) -> None:
        with self.lock:
            if not self.users:
                self.limits = threadpoolctl.ThreadpoolController().limit(limits=1, user_api="blas")
            self.users += 1

    def leave(self) -> None:
        with self.lock:
            self.users -= 1
            if not self.users:
                _release_control()
                self.limits.restore_original_limits()
                _release_control()


def _release_control() -> None:
    # Newer threadpoolctl lets only the thread that set a limit lift it, but ours may be gone first.
    controller: Any = getattr(threadpoolctl, "OpenBLASController", None)
    if hasattr(controller, "clear_controlling_thread"):
        controller.clear_controlling_thread(force=True)


_SHARED_LIMIT = _SharedLimit()


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Keep BLAS at one thread inside the block.

    The matrices here are small: handing a 50×50 product to a second thread costs more than the
    product, and on a machine whose cores are busy the threads wait for each other. Blocks may
    nest and run in several threads at once; BLAS gets its threads back when the last one ends.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.linalg import single_blas_thread
    >>> with single_blas_thread():
    ...     float(np.eye(2).trace())
    2.0
    """
    _SHARED_LIMIT.enter()
    try:
        yield
    finally:
        _SHARED_LIMIT.leave()
