"""Published data: fetched, compared with a checksum and divided into parts."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from urllib.request import urlopen

from sklearn.datasets import get_data_home
from sklearn.utils import Bunch

from fairpca._files import replacing
from fairpca.exceptions import InvalidInputError

_Folder: TypeAlias = str | os.PathLike[str] | None
_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
_PROPUBLICA = (
    "https://raw.githubusercontent.com/propublica/compas-analysis/"
    "bafff5da3f2e45eca6c2d5055faad269defd135a"  # a commit, so that the file stays as it is
)


@dataclass(frozen=True)
class _Published:
    """A data set as published. Names of columns are separated by blanks."""

    files: Mapping[str, str]  # name in the cache: address
    target: str
    sensitive: str
    digest: str  # SHA-256 of the table that `_read` returns, as CSV
    description: str
    options: Mapping[str, Any] = field(default_factory=dict)  # of pandas.read_csv
    columns: str = ""  # of a file without header
    features: str = ""  # empty: all columns that are neither target nor sensitive
    identifiers: str = ""  # of persons; never returned


_ADULT = _Published(
    files={name: f"{_UCI}/adult/{name}" for name in ("adult.data", "adult.test")},
    # A blank after each comma; the test file begins with a remark, and its labels end in a dot.
    options={"skipinitialspace": True, "comment": "|", "converters": {14: lambda s: s.strip(" .")}},
    columns="age workclass fnlwgt education education_num marital_status occupation relationship "
    "race sex capital_gain capital_loss hours_per_week native_country income",
    target="income",
    sensitive="sex race age native_country marital_status",
    digest="6f519c67ccd70e0c9d4f616b15d338aa6e44b336a20962f5010fb01bee0d12d4",
    description="Adult (Census Income 1994), UCI, CC BY 4.0: 32,561 training rows and then 16,281 "
    'test rows. The target is "<=50K" or ">50K"; unknown values are "?".',
)

_COMPAS = _Published(
    files={"compas_two_years.csv": f"{_PROPUBLICA}/compas-scores-two-years.csv"},
    target="two_year_recid",
    sensitive="race sex age_cat age",
    features="juv_fel_count juv_misd_count juv_other_count priors_count days_b_screening_arrest "
    "c_charge_degree",
    identifiers="name first last dob c_case_number r_case_number vr_case_number",
    digest="30eb20d79ba476ec24979ea00d0e77ef74fb5adc0ee843fd0d00079465a6089d",
    description="COMPAS scores of Broward County, Florida, published by ProPublica without a "
    "licence: 7,214 defendants. The target is 1 for a new arrest within two years.",
)

_GERMAN = _Published(
    files={"german.data": f"{_UCI}/statlog/german/german.data"},
    options={"sep": " "},
    columns="checking_account duration credit_history purpose amount savings employed_since "
    "instalment_rate personal_status_and_sex other_debtors residence_since property age "
    "other_instalment_plans housing existing_credits job people_liable telephone foreign_worker "
    "class",
    target="class",
    sensitive="personal_status_and_sex age foreign_worker",
    digest="a4412a680e21d437a894c7bf14e28388c1a5b8a0dbc69bb1dbf55d86ef7423b0",
    description="Statlog (German Credit), UCI, CC BY 4.0: 1,000 applicants with the codes of UCI. "
    "The target is 1 (good) or 2 (bad). personal_status_and_sex: A91 man, divorced or separated; "
    "A92 woman; A93 man, single; A94 man, married or widowed. foreign_worker: A201 yes, A202 no.",
)


def fetch_adult(*, data_home: _Folder = None, as_frame: bool = True) -> Bunch:
    """Fetch the Adult data: income of 48,842 persons in the US census of 1994.

    The files of UCI are downloaded once and kept. Their content is compared with a checksum.

    Parameters
    ----------
    data_home : path or None, default=None
        Folder for downloads. None: ``FAIRPCA_DATA/raw`` if that variable is set and the files are
        there, else scikit-learn's data home.
    as_frame : bool, default=True
        Whether the parts are pandas objects. The download is read by pandas in any case.

    Returns
    -------
    sklearn.utils.Bunch
        `data` (48842, 9), `target` ("<=50K" or ">50K"), `sensitive_features` (48842, 5): sex, race,
        age, native_country and marital_status. `frame`: all columns; None with ``as_frame=False``.
        `feature_names, sensitive_names, target_name, DESCR`.

    Raises
    ------
    OSError
        If the files cannot be downloaded; the message says where to put them.
    InvalidInputError
        If their content is not what was published.

    See Also
    --------
    make_census : A made table of the same kind, without network.

    Examples
    --------
    >>> from fairpca.datasets import fetch_adult
    >>> fetch_adult().data.shape  # doctest: +SKIP
    (48842, 9)
    """
    return _fetch(_ADULT, data_home, as_frame)


def fetch_compas(*, data_home: _Folder = None, as_frame: bool = True) -> Bunch:
    """Fetch ProPublica's COMPAS data: new arrests of 7,214 defendants within two years.

    The features are what was known at the screening: counts of earlier offences, the days between
    arrest and screening, and the degree of the charge. Scores, dates and everything that tells
    the outcome are in `frame` only. Names, dates of birth and case numbers are left out.

    Parameters
    ----------
    data_home, as_frame
        As for `fetch_adult`.

    Returns
    -------
    sklearn.utils.Bunch
        As for `fetch_adult`. `target` is 1 for a new arrest within two years,
        `sensitive_features` are race, sex, age_cat and age, and `data` has missing values.

    See Also
    --------
    fetch_adult, fetch_german : Other published tables.

    Examples
    --------
    >>> from fairpca.datasets import fetch_compas
    >>> fetch_compas().data.shape  # doctest: +SKIP
    (7214, 6)
    """
    return _fetch(_COMPAS, data_home, as_frame)


def fetch_german(*, data_home: _Folder = None, as_frame: bool = True) -> Bunch:
    """Fetch the German credit data: 1,000 applicants, good or bad.

    Parameters
    ----------
    data_home, as_frame
        As for `fetch_adult`.

    Returns
    -------
    sklearn.utils.Bunch
        As for `fetch_adult`. `target` is 1 (good) or 2 (bad), `sensitive_features` are
        personal_status_and_sex ("A92" is a woman), age and foreign_worker, and most features are
        codes of UCI such as "A11".

    See Also
    --------
    fetch_adult, fetch_compas : Other published tables.

    Examples
    --------
    >>> from fairpca.datasets import fetch_german
    >>> fetch_german().data.shape  # doctest: +SKIP
    (1000, 17)
    """
    return _fetch(_GERMAN, data_home, as_frame)


def _fetch(source: _Published, data_home: _Folder, as_frame: bool) -> Bunch:
    """Find or download the files, check their content and divide the columns."""
    paths = [_local_file(name, url, data_home) for name, url in source.files.items()]
    frame = _read(source, paths)
    # Of the table, not of the bytes: a compressed copy without the identifiers is as good.
    text = frame.to_csv(index=False, float_format="%.6g", lineterminator="\n")
    digest = hashlib.sha256(text.encode()).hexdigest()
    if digest != source.digest:
        raise _other_content(paths, f"its SHA-256 is {digest}, expected {source.digest}")
    sensitive = source.sensitive.split()
    taken = {source.target, *sensitive}
    features = source.features.split() or [name for name in frame.columns if name not in taken]
    parts = {
        "data": frame[features],
        "target": frame[source.target],
        "sensitive_features": frame[sensitive],
    }
    return Bunch(
        **(parts if as_frame else {key: part.to_numpy() for key, part in parts.items()}),
        frame=frame if as_frame else None,
        feature_names=features,
        sensitive_names=sensitive,
        target_name=source.target,
        DESCR=source.description,
    )


def _local_file(name: str, url: str, data_home: _Folder) -> Path:
    """Return the copy in the folder of FAIRPCA_DATA or in the cache, downloaded where needed."""
    folder = os.environ.get("FAIRPCA_DATA") if data_home is None else None
    copy = Path(folder or "", "raw", f"{name}.gz").expanduser()
    if folder and copy.is_file():
        return copy
    path = Path(get_data_home(data_home), "fairpca", name)
    if not path.is_file():
        try:
            with urlopen(url, timeout=60) as response:
                content = response.read()
        except OSError as error:
            raise OSError(
                f"{url} could not be downloaded ({error}). Save that file as {path} and try again."
            ) from error
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_bytes(content)
    return path


def _read(source: _Published, paths: Sequence[Path]) -> Any:
    """Read the files one below the other, without what identifies persons."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("Published data need pandas: pip install pandas.") from error
    names = source.columns.split() or None
    options: dict[str, Any] = {"header": None if names else 0, "names": names, "low_memory": False}
    try:
        frames = [pandas.read_csv(path, **options, **source.options) for path in paths]
    except ValueError as error:  # pandas cannot read it at all
        raise _other_content(paths, str(error)) from None
    frame = pandas.concat(frames, ignore_index=True)
    return frame.drop(columns=source.identifiers.split(), errors="ignore")


def _other_content(paths: Sequence[Path], reason: str) -> InvalidInputError:
    listed = " and ".join(map(str, paths))
    return InvalidInputError(
        f"{listed}: this is not the table that was published ({reason}). Delete the file and try "
        "again."
    )
