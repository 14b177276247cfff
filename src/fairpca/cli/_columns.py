"""Which column plays which part, checked before anything is computed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import click
import numpy as np
import pandas as pd

from fairpca.cli._options import split_names


@dataclass(frozen=True)
class Roles:
    """Columns as the user named them.

    Parameters
    ----------
    sensitive, control, numeric, target, keep : tuple of str
        Columns, one entry each.
    features, drop : tuple of str
        Columns, where an entry may be a list with commas.
    weight : str or None
        Column of row weights.
    """

    sensitive: tuple[str, ...]
    control: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    weight: str | None = None


@dataclass(frozen=True, eq=False)
class Columns:
    """The parts of a table, complete and of usable types.

    Parameters
    ----------
    features : pandas.DataFrame
        Finite numbers, float64.
    sensitive : pandas.DataFrame
        Protected attributes.
    control : pandas.DataFrame or None
        Strata.
    weight : ndarray or None
        Weights of the rows.
    keep : pandas.DataFrame
        Columns that go to the output as they are.
    """

    features: Any
    sensitive: Any
    control: Any = None
    weight: Any = None
    keep: Any = field(default=None)


def select(frame: Any, roles: Roles) -> Columns:
    """Split a table by the parts its columns play.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table.
    roles : Roles
        The columns named by the user; all others are features.

    Returns
    -------
    Columns
        The parts.
    """
    names = feature_names(list(frame.columns), roles)
    others = [*roles.sensitive, *roles.control, *([roles.weight] if roles.weight else [])]
    _check_numeric(frame, names, "feature", "Encode as numbers, or --drop {}")
    if roles.weight:
        _check_numeric(frame, [roles.weight], "--weight", "Weights are numbers.")
    _check_complete(frame, list(dict.fromkeys(names + others)))
    # A column of 1e300 is finite, but not in float32: all computations are in float64.
    features = frame[names].astype(np.float64)
    _check_finite(features)
    return Columns(
        features=features,
        sensitive=frame[list(roles.sensitive)],
        control=frame[list(roles.control)] if roles.control else None,
        weight=frame[roles.weight].to_numpy(dtype=np.float64) if roles.weight else None,
        keep=frame[list(dict.fromkeys(roles.keep + roles.target))],
    )


def feature_names(known: Sequence[str], roles: Roles) -> list[str]:
    """Check the columns that the user named and tell which are the features.

    Parameters
    ----------
    known : sequence of str
        Columns of the table.
    roles : Roles
        The columns named by the user; all others are features.

    Returns
    -------
    list of str
        The features.
    """
    dropped = split_names(roles.drop, known)
    _check_known(known, roles, dropped)
    _check_parts(roles)
    return _feature_names(known, roles, dropped)


def _check_known(known: Sequence[str], roles: Roles, dropped: Sequence[str]) -> None:
    parts: list[tuple[str, Iterable[str]]] = [
        ("--sensitive", roles.sensitive),
        ("--control", roles.control),
        ("--target", roles.target),
        ("--keep", roles.keep),
        ("--weight", [roles.weight] if roles.weight else []),
        ("--features", split_names(roles.features, known)),
        ("--drop", dropped),
    ]
    for option, names in parts:
        for name in names:
            if name not in known:
                raise click.ClickException(_unknown(option, name, known))
    for name in roles.numeric:
        if name not in roles.sensitive:
            raise click.ClickException(
                f"--numeric {name}: not one of the protected columns; name it with --sensitive "
                "as well."
            )


def _unknown(option: str, name: str, known: Sequence[str]) -> str:
    by_case = {column.lower(): column for column in known}
    close = difflib.get_close_matches(name.lower(), list(by_case), n=3, cutoff=0.6)
    if close:
        hint = f"did you mean {' or '.join(repr(by_case[match]) for match in close)}?"
    else:
        shown = ", ".join(known[:12]) + (f", … ({len(known)} in all)" if len(known) > 12 else "")
        hint = f"the columns are {shown}."
    if len(known) == 1 and any(mark in known[0] for mark in ";\t|"):
        hint += " The fields seem to be separated by something else than a comma: see --separator."
    return f"{option} {name}: no such column; {hint}"


def _check_parts(roles: Roles) -> None:
    """Refuse a column with two parts, which would be compared with itself."""
    parts = {
        "--sensitive": roles.sensitive,
        "--control": roles.control,
        "--weight": (roles.weight,) if roles.weight else (),
    }
    seen: dict[str, str] = {}
    for option, names in parts.items():
        for name in names:
            if name in seen:
                raise click.ClickException(
                    f"{option} {name}: the column is named by {seen[name]} already."
                )
            seen[name] = option


def _feature_names(known: Sequence[str], roles: Roles, dropped: Sequence[str]) -> list[str]:
    if roles.features:
        names = split_names(roles.features, known)
        both = [name for name in names if name in dropped]
        if both:
            raise click.ClickException(f"{both[0]!r} is named by --features and by --drop.")
    else:
        apart = {*roles.sensitive, *roles.control, *roles.target, *dropped, roles.weight}
        names = [name for name in known if name not in apart]
    if not names:
        raise click.ClickException("no feature columns are left: name some with --features.")
    return names


def _check_numeric(frame: Any, names: Sequence[str], what: str, advice: str) -> None:
    kinds = pd.api.types
    bad = [
        name
        for name in names
        if not kinds.is_numeric_dtype(frame[name].dtype)
        or kinds.is_complex_dtype(frame[name].dtype)
    ]
    if bad:
        listed = ", ".join(f"{name!r} (such as {_example(frame[name])})" for name in bad)
        plural = "s are" if len(bad) > 1 else " is"
        raise click.ClickException(
            f"{what} column{plural} not numeric: {listed}. {advice.format(','.join(bad))}"
        )


def _example(column: Any) -> str:
    present = column.dropna()
    # In a column of numbers and text it is the text that must be found and repaired.
    text = pd.to_numeric(present.astype(str), errors="coerce").isna()
    shown = present[text] if text.any() else present
    return repr(str(shown.iloc[0])[:30]) if len(shown) else "only empty cells"


def _check_complete(frame: Any, names: Sequence[str]) -> None:
    counts = frame[list(names)].isna().sum()
    missing = counts[counts > 0]
    if len(missing):
        listed = ", ".join(f"{name!r} ({count})" for name, count in missing.items())
        raise click.ClickException(
            f"missing values in {listed}, of {len(frame)} rows: drop those rows, fill the cells, "
            "or leave the columns out with --drop. (In CSV files empty cells, NA, None, null and "
            "the like count as missing.)"
        )


def _check_finite(features: Any) -> None:
    counts = (~np.isfinite(features)).sum()
    infinite = counts[counts > 0]
    if len(infinite):
        listed = ", ".join(f"{name!r} ({count})" for name, count in infinite.items())
        raise click.ClickException(
            f"infinite values in {listed}: drop those rows, or leave the columns out with --drop."
        )
