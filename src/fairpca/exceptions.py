"""Every error and warning a user can meet; each message says what to do about it."""

from __future__ import annotations


class InvalidInputError(ValueError):
    """An argument cannot be used; the message names it, what was given and what to do."""


class GroupsError(InvalidInputError):
    """The protected attribute (or a stratum) cannot be used as given."""


class InfeasibleError(InvalidInputError):
    """No basis satisfies the fairness constraints asked for.

    Parameters
    ----------
    message : str
        What cannot be met and what to do.
    minimum : float or None
        The smallest attainable value of the constrained quantity, where it is known.
    """

    def __init__(self, message: str, minimum: float | None = None) -> None:
        super().__init__(message)
        self.minimum = minimum


class SmallGroupWarning(UserWarning):
    """A group or cell is too small to be compared; the message names it."""


class NestedAttributeWarning(UserWarning):
    """One protected attribute determines another; the message names both."""


class DroppedRowsWarning(UserWarning):
    """Rows with missing values were left out; the message says how many, and which columns."""
