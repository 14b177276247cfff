"""Every error and warning a user can meet; each message says what to do about it."""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Self

Setting = tuple[str, Any]
"""A parameter and a value that would help."""

WITH = "{with settings}"
"""Where in a message its settings stand, if not at its end."""

_INTERNAL = ("fairpca", "sklearn")


def warn_user(message: str | Warning, category: type[Warning] | None = None) -> None:
    """Warn at the line of the user's own call: the first frame outside of these packages.

    Examples
    --------
    >>> import warnings
    >>> from fairpca.exceptions import FewRowsWarning, warn_user
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_user("two rows only", FewRowsWarning)
    >>> str(caught[0].message)
    'two rows only'
    """
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] in _INTERNAL:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def bounded(message: str, longest: int = 2000) -> str:
    """Return a message without its middle where it is endless; the advice stands at its end.

    Examples
    --------
    >>> from fairpca.exceptions import bounded
    >>> bounded("no such column: " + "x" * 100 + "; did you mean y?", 40)
    'no such column: xxxxxxxxxxxxxx … ou mean y?'
    """
    end = longest // 4
    return message if len(message) <= longest else f"{message[: longest - end]} … {message[-end:]}"


class MessageWithSettings(Exception):
    """A message that may end in settings that help, written as they are typed where it is shown.

    Examples
    --------
    >>> from fairpca.exceptions import InvalidInputError
    >>> error = InvalidInputError("3 values are missing.", settings=[("missing", "mean")])
    >>> print(error)
    3 values are missing. Or use missing='mean'.
    >>> error.advice(lambda name, value: f"--{name} {value}")
    '3 values are missing. Or use --missing mean.'
    """

    def __init__(self, message: str, *, settings: Iterable[Setting] = ()) -> None:
        super().__init__(bounded(message))
        self.settings = tuple(settings)

    def __str__(self) -> str:
        # Only the command line drops columns by name: elsewhere they are left out of the call.
        return self.advice(lambda name, value: "" if name == "drop" else f"{name}={value!r}")

    def advice(self, typed: Callable[[str, Any], str]) -> str:
        """Return the message, its settings as `typed` writes them."""
        written = " or ".join(text for setting in self.settings if (text := typed(*setting)))
        message = str(self.args[0])
        if WITH in message:
            return message.replace(WITH, f" with {written}" if written else "")
        return f"{message} Or use {written}." if written else message


class InvalidInputError(MessageWithSettings, ValueError):
    """An argument cannot be used; the message names it, its value and what to do.

    Parameters
    ----------
    message : str
        What is wrong and what to do.
    parameter : str or None
        Name of the argument concerned, by which the command line finds its own option.
    settings : iterable of (str, value)
        Parameters with values that would help, the end of the message.
    is_subject : bool
        Whether the message begins with the argument's name, for which the command line puts its
        option.

    Examples
    --------
    >>> from fairpca.exceptions import InvalidInputError
    >>> InvalidInputError("tol=0: give more.", parameter="tol").parameter
    'tol'
    """

    def __init__(
        self,
        message: str,
        *,
        parameter: str | None = None,
        settings: Iterable[Setting] = (),
        is_subject: bool = False,
    ) -> None:
        super().__init__(message, settings=settings)
        self.parameter, self.is_subject = parameter, is_subject

    def at(self, place: str) -> Self:
        """Return the same error with the place where it was met in front, said only once."""
        message = str(self.args[0])
        if message.startswith(place):
            return self
        located = copy.copy(self)
        located.args = (f"{place}: {message}",)
        return located


class GroupsError(InvalidInputError):
    """The protected attribute (or a stratum) cannot be used as it is.

    Examples
    --------
    >>> from fairpca.exceptions import GroupsError
    >>> from fairpca.metrics import mean_gap
    >>> try:
    ...     mean_gap([[1.0], [2.0]], ["a", "a"])
    ... except GroupsError as error:
    ...     print(error.parameter)
    sensitive_features
    """


class InfeasibleError(InvalidInputError):
    """No basis satisfies the fairness constraints.

    `minimum` is the smallest attainable value of the constrained quantity, where it is known.

    Examples
    --------
    >>> from fairpca.exceptions import InfeasibleError
    >>> InfeasibleError("cov_tol=0 cannot be met.", 0.2, parameter="cov_tol").minimum
    0.2
    """

    def __init__(self, message: str, minimum: float | None = None, **options: Any) -> None:
        super().__init__(message, **options)
        self.minimum = minimum


class FairnessWarning(MessageWithSettings, UserWarning):
    """Something that may make a result mean less than it seems; the base of all our warnings.

    Examples
    --------
    Python's own filters switch all of them off, or one class, or make errors of them:

    >>> import warnings
    >>> from fairpca import FairPCA
    >>> from fairpca.exceptions import FairnessWarning, GroupFeatureWarning
    >>> rows, groups = [[0.0, 1.0], [0.0, 2.0], [1.0, 4.0], [1.0, 3.0]] * 10, [0, 0, 1, 1] * 10
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", GroupFeatureWarning)
    ...     try:
    ...         FairPCA(1).fit(rows, sensitive_features=groups)
    ...     except GroupFeatureWarning:
    ...         print("the first feature is the group")
    the first feature is the group
    """


class AuditInterrupted(KeyboardInterrupt):
    """An audit was interrupted; `report` is the AuditReport of what it had measured by then.

    Examples
    --------
    >>> from fairpca.exceptions import AuditInterrupted
    >>> AuditInterrupted("what was measured").report
    'what was measured'
    """

    def __init__(self, report: Any) -> None:
        super().__init__("the audit was interrupted; its report attribute is what was done so far")
        self.report = report


class SmallGroupWarning(FairnessWarning):
    """A group or cell is too small to be compared; the message names it."""


class FewRowsWarning(SmallGroupWarning):
    """A group has few rows for so many components; the message names it."""


class NestedAttributeWarning(FairnessWarning):
    """One protected attribute determines another; the message names both."""


class DroppedRowsWarning(FairnessWarning):
    """Rows with missing values were left out; the message says how many, and which columns."""


class GroupFeatureWarning(FairnessWarning):
    """A feature is a function of the groups; the message names it."""


class IdentifierWarning(FairnessWarning):
    """A feature has another value in every row; the message names it."""


class UnitsWarning(FairnessWarning):
    """A column or an index seems to name persons or sites, and `units` was not given."""


class DominantFeatureWarning(FairnessWarning):
    """One feature holds nearly all the variance, and features are not scaled."""


class ExtremeRowsWarning(FairnessWarning):
    """A component rests on a few extreme rows; the message says how many rows it is worth."""


class EmptyComponentWarning(FairnessWarning):
    """A component has no variance; the message names the contrast that leaves it none."""


class IndexMismatchWarning(FairnessWarning):
    """Rows and groups have different pandas indexes, and are matched by position."""


class LongFitWarning(FairnessWarning):
    """A fit will take long; the message says how long, and what is quicker."""


class ApproximateKernelWarning(FairnessWarning):
    """A kernel of many rows is approximated; the message says by what, and what is exact."""


class ImputedValuesWarning(FairnessWarning):
    """Missing values count as the mean of all rows; the message says in which columns."""


class TargetWarning(FairnessWarning):
    """Equal means take most of what predicts y, or strata hand a bias in y on."""


class NotFittedYetWarning(FairnessWarning):
    """`partial_fit` kept the rows, but they do not allow a fit yet; the message says why."""


class CorrelatedScoresWarning(FairnessWarning):
    """Scores of sparse components are correlated; the message says how many loadings they need."""


class DeltaNotReachedWarning(FairnessWarning):
    """No basis found keeps Δ below the requested value; the message says what was reached."""
