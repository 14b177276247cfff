"""What the campaigns share: tries with seeds of their own, and failures gathered by class."""

import signal
import time
import warnings
from contextlib import contextmanager

import numpy as np

from fairpca.exceptions import FairnessWarning, InvalidInputError

TOO_LONG = 5.0  # seconds of processor time for one fit, metric or command
ENDLESS = 60.0  # after which it is not waited for any longer


class Endless(Exception):
    """A try that does not end."""


@contextmanager
def ended_in_time():
    """Interrupt what uses processor time without end; another process does not count."""

    def stop(*_):
        raise Endless

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, ENDLESS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


class Failures(dict):
    """Failures by class, each with the seeds that reproduce it."""

    def __missing__(self, kind):
        self[kind] = []
        return self[kind]


def campaign(attempt, tries, seed, calls=1):
    """Call `attempt(rng)` with a generator of its own each time; what it raises is a failure.

    InvalidInputError is an answer, not a failure. An AssertionError names its class by the first
    line of its message. The time is that of `calls` fits, metrics or commands.
    """
    from sklearn.exceptions import ConvergenceWarning

    failures = Failures()
    for number in range(tries):
        rng = np.random.default_rng([seed, number])
        start = time.process_time()
        try:
            with warnings.catch_warnings(), ended_in_time():
                warnings.simplefilter("error")
                warnings.simplefilter("ignore", FairnessWarning)
                warnings.simplefilter("ignore", ConvergenceWarning)
                # scikit-learn 1.7 to polars 1.40
                warnings.filterwarnings("ignore", "Support for the dataframe interchange protocol")
                attempt(rng)
        except InvalidInputError:
            pass
        except Endless:
            pass  # said below
        except AssertionError as error:
            failures[str(error).splitlines()[0] if str(error) else "assertion"].append(number)
        except Exception as error:
            failures[f"{type(error).__name__}: {error}"[:100]].append(number)
        if time.process_time() - start > calls * TOO_LONG:
            failures["takes too long"].append(number)
    return dict(failures)


def same(one, other, what, tolerance=1e-8, scale=None):
    """Assert that numbers agree relative to their size."""
    one, other = np.asarray(one, dtype=float), np.asarray(other, dtype=float)
    assert one.shape == other.shape, f"{what}: shapes differ"
    if one.size:
        unit = max(np.abs(other).max(), 1e-300) if scale is None else scale
        assert np.isfinite(one).all(), f"{what}: not finite"
        assert np.abs(one - other).max() <= tolerance * unit, f"{what}: values differ"
