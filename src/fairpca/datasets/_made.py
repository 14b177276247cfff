"""Data that need no network: embedded in scikit-learn, or drawn at random."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.utils import Bunch, check_random_state

from fairpca.exceptions import InvalidInputError


def load_diabetes_sex(*, as_frame: bool = False) -> Bunch:
    """Load scikit-learn's diabetes data with sex as the protected attribute.

    442 patients; the target is the progression of the disease a year later. The source codes sex
    as 1 and 2 and does not say which is which: the groups are called "sex 1" and "sex 2".

    Parameters
    ----------
    as_frame : bool, default=False
        Whether `data`, `target` and `sensitive_features` are pandas objects.

    Returns
    -------
    sklearn.utils.Bunch
        `data` (442, 9): age, body mass index, blood pressure and six blood values, in their own
        units. `target` (442,): progression of the disease. `sensitive_features` (442,), or (442, 1)
        as a frame: "sex 1" or "sex 2". `feature_names, sensitive_names, target_name, DESCR`.

    See Also
    --------
    fetch_adult : A larger table, which is fetched.

    Examples
    --------
    >>> from fairpca.datasets import load_diabetes_sex
    >>> diabetes = load_diabetes_sex()
    >>> diabetes.data.shape, diabetes.feature_names[:3]
    ((442, 9), ['age', 'bmi', 'bp'])
    """
    source = load_diabetes(scaled=False)
    place = source.feature_names.index("sex")
    names = [name for name in source.feature_names if name != "sex"]
    data, target = np.delete(source.data, place, axis=1), source.target
    sensitive = np.array([f"sex {int(code)}" for code in source.data[:, place]])
    about = (
        "scikit-learn's diabetes data (Efron et al. 2004): 442 patients; age, body mass index, "
        "blood pressure and six blood values"
    )
    content = {"data": data, "target": target, "sensitive_features": sensitive}
    return _bunch(content, names, ["sex"], "progression", about, as_frame)


def _bunch(
    content: dict[str, Any],
    features: list[str],
    sensitive: list[str],
    target: str,
    description: str,
    as_frame: bool,
) -> Bunch:
    """Name the columns of data, target and sensitive features; as pandas objects if so wished."""
    if as_frame:
        import pandas

        for key, names in (("data", features), ("sensitive_features", sensitive)):
            frame = pandas.DataFrame(content[key], columns=names)
            content[key] = frame.infer_objects()  # numbers of a table with text
        content["target"] = pandas.Series(content["target"], name=target)
    return Bunch(
        **content,
        feature_names=features,
        sensitive_names=sensitive,
        target_name=target,
        DESCR=description,
    )


_EDUCATION = np.array(["primary", "secondary", "vocational", "bachelor", "master"])
_OCCUPATION = np.array(["care", "clerical", "sales", "technical", "craft", "management"])
_HOUSEHOLD = np.array(["single", "wife", "husband", "divorced", "widowed"])
_FEATURES = ["age", "education", "occupation", "household", "region", "hours", "tenure", "savings"]


def make_census(
    n_samples: int = 5000,
    *,
    as_frame: bool = False,
    random_state: int | np.random.RandomState | None = 0,
) -> Bunch:
    """Draw a table of made-up persons, with text and numbers, for trying out the command line.

    Occupation, household, hours and savings depend on sex, education and region on race, and income
    on most of them, in the way of census data; no figure is that of a real population.
    ``python -m fairpca.datasets census census.csv`` writes it to a file.

    Parameters
    ----------
    n_samples : int, default=5000
        Number of persons.
    as_frame : bool, default=False
        Whether `data`, `target` and `sensitive_features` are pandas objects.
    random_state : int, RandomState or None, default=0
        Seed.

    Returns
    -------
    sklearn.utils.Bunch
        `data` (n_samples, 8), text and numbers. `target` (n_samples,): income, "high" or "low".
        `sensitive_features` (n_samples, 2): sex and race. `feature_names, sensitive_names,
        target_name, DESCR`.

    See Also
    --------
    fetch_adult : The table that it resembles.

    Examples
    --------
    >>> from fairpca.datasets import make_census
    >>> census = make_census(100)
    >>> census.data.shape, census.feature_names[:3]
    ((100, 8), ['age', 'education', 'occupation'])
    """
    if not isinstance(n_samples, Integral) or n_samples < 1:
        raise InvalidInputError(
            f"n_samples must be a whole number of at least 1: {n_samples!r}.",
            parameter="n_samples",
        )
    random = check_random_state(random_state)
    woman, minority = random.random_sample((2, n_samples)) < [[0.48], [0.25]]

    def pick(values: Any, score: Any, spread: float) -> Any:
        """Values at the ranks of a score with noise, so that each is as frequent as others."""
        noisy = score + spread * random.standard_normal(n_samples)
        return values[(np.argsort(np.argsort(noisy)) * len(values)) // n_samples]

    age = np.clip(40 + 13 * random.standard_normal(n_samples), 18, 90).round()
    education = pick(np.arange(5), -0.8 * minority, 1.0)
    occupation = pick(np.arange(6), 0.4 * education - 1.6 * woman, 1.0)
    alone = random.choice([0, 3, 4], n_samples, p=[0.6, 0.3, 0.1])
    married = random.random_sample(n_samples) < 0.25 + age / 150
    household = np.where(married, np.where(woman, 1, 2), alone)
    hours = np.clip(42 - 7 * woman + 8 * random.standard_normal(n_samples), 5, 90).round()
    tenure = (np.maximum(age - 22, 0) * random.random_sample(n_samples)).round(1)
    wealth = 8 + 0.3 * education + 0.02 * age - 0.5 * woman + random.standard_normal(n_samples)
    score = education + 0.8 * occupation + 0.08 * hours + 0.03 * age
    region = pick(np.array(["north", "west", "east", "south"]), 1.5 * minority, 1.0)
    texts = (_EDUCATION[education], _OCCUPATION[occupation], _HOUSEHOLD[household], region)
    columns = (age.astype(int), *texts, hours.astype(int), tenure, np.exp(wealth).round())
    groups = (np.where(woman, "woman", "man"), np.where(minority, "minority", "majority"))
    content = {
        "data": np.column_stack([np.asarray(column, dtype=object) for column in columns]),
        "target": pick(np.array(["low", "low", "low", "high"]), score, 1.5),
        "sensitive_features": np.column_stack(groups).astype(object),
    }
    about = f"{n_samples} made-up persons: text and numbers, sex, race and income"
    return _bunch(content, list(_FEATURES), ["sex", "race"], "income", about, as_frame)
