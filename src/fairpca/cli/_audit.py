"""``fairpca audit``: what the columns of a table give away about protected attributes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fairpca import GroupMoments, __version__
from fairpca.cli import _shared_options as shared
from fairpca.cli._audit_render import print_audit
from fairpca.cli._document import to_json
from fairpca.cli._inputs import Inputs, open_table, roles_of
from fairpca.cli._messages import collected_notes, print_notes
from fairpca.cli._options import Probability
from fairpca.cli._progress import Stages
from fairpca.metrics import FAMILIES

_COUNT = click.IntRange(min=0)
_EXAMPLES = """\b
Examples:
  fairpca audit                                   embedded data, sex protected
  fairpca audit people.csv --sensitive sex --drop id,name
  fairpca audit reduced.csv --sensitive sex --features fairpca0,fairpca1
  fairpca audit people.parquet --sensitive race --control income --family linear --json
"""

_OPTIONS: tuple[shared.Decorator, ...] = (
    shared.SENSITIVE,
    shared.FEATURES,
    shared.DROP,
    shared.CONTROL,
    shared.WEIGHT,
    click.option(
        "--family",
        "families",
        type=click.Choice(FAMILIES),
        multiple=True,
        help="Classifiers to try: half-spaces, Gaussian-kernel SVM, orthants. Default: all.",
    ),
    click.option(
        "--permutations",
        metavar="N",
        type=_COUNT,
        default=200,
        show_default=True,
        help="Permutations for the null of fast statistics; 0: none.",
    ),
    click.option(
        "--slow-permutations",
        metavar="N",
        type=_COUNT,
        default=20,
        show_default=True,
        help="The same for statistics that repeat a costly fit.",
    ),
    click.option("--no-cross-fit", is_flag=True, help="No values on rows not trained on."),
    click.option(
        "--confidence",
        metavar="X",
        type=Probability(),
        default=0.95,
        show_default=True,
        help="Of the bounds.",
    ),
    click.option(
        "--max-samples",
        metavar="N",
        type=click.IntRange(min=10),
        default=1000,
        show_default=True,
        help="Rows that Gaussian-kernel SVMs are trained on at most.",
    ),
    click.option(
        "--seed",
        metavar="N",
        type=click.IntRange(0, 2**32 - 1),
        default=0,
        show_default=True,
        help="Of the permutations and splits.",
    ),
    click.option("--standardize", is_flag=True, help="Give every column unit variance first."),
    shared.SEPARATOR,
    shared.AS_JSON,
    shared.QUIET,
)


@click.command(epilog=_EXAMPLES)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@shared.with_options(_OPTIONS)
def audit(file: Path | None, **given: Any) -> None:
    """Measure how well classifiers tell protected groups apart in FILE.

    The columns may be raw features or a representation. For every family of classifiers Δ is the
    largest difference between the shares of two groups that one of them flags: 0 where none sees
    a difference, 1 where one separates the groups. Beside it stand its value under permuted
    groups, its value on rows not trained on, and an upper bound of the true Δ.
    """
    roles = roles_of(given, file)
    with Stages(enabled=not given["quiet"]) as stages:
        inputs = open_table(file, roles, given["separator"], stages)
        with collected_notes() as notes:
            report = _measure(inputs, given, stages)
    notes += [
        f"{entry['family']}, {entry['method']}: {entry['note']}"
        for entry in report["delta"]
        if entry["note"]
    ]
    print_notes(notes)
    standardized = given["standardize"]
    if given["as_json"]:
        data = inputs.as_dict(report["n_rows"], standardized)
        click.echo(to_json(_document(report, data, given, notes)))
    elif not given["quiet"]:
        units = "standardised" if standardized else "in their own units"
        print_audit(report, inputs.heading(report["n_rows"], units))


def _measure(inputs: Inputs, given: dict[str, Any], stages: Stages) -> dict[str, Any]:
    """Audit family by family, so that the progress can say where it is."""
    # scikit-learn's model selection takes a second to import, which other commands need not.
    from fairpca.metrics import audit as measure

    columns = inputs.columns
    features = columns.features.to_numpy()
    if given["standardize"]:
        scaling = GroupMoments.from_groups(features, None, None, columns.weight).standardization()
        features = (features - scaling.mean) / scaling.scale
    report: dict[str, Any] = {}
    for family in dict.fromkeys(given["families"] or FAMILIES):
        stages.begin(f"measuring, {family} family")
        part = measure(
            features,
            columns.sensitive,
            families=(family,),
            control_features=columns.control,
            sample_weight=columns.weight,
            n_permutations=given["permutations"],
            slow_permutations=given["slow_permutations"],
            cross_fit=not given["no_cross_fit"],
            confidence=given["confidence"],
            max_samples=given["max_samples"],
            random_state=given["seed"],
        ).to_dict()
        report = {**part, "delta": report.get("delta", []) + part["delta"]}
    return report


def _document(
    report: dict[str, Any], data: dict[str, Any], given: dict[str, Any], notes: list[str]
) -> dict[str, Any]:
    names = ("permutations", "slow_permutations", "confidence", "max_samples", "seed")
    return {
        "fairpca": __version__,
        "command": "audit",
        "data": data,
        "options": {
            **{name: given[name] for name in names},
            "families": given["families"] or FAMILIES,
            "cross_fit": not given["no_cross_fit"],
        },
        **report,
        "notes": notes,
    }
