"""Writes benchmarks/results/shapes.json into docs/design: `shapes.py --table`."""

from pathlib import Path

import results

PAGE = Path(__file__).parents[1] / "docs/design/tight-relaxation.md"
FORMS = ("equal means only", "LEACE + PCA", "PCA")


def write():
    """Put the figures of the last whole run into the tables that show them."""
    rows = results.load("shapes")
    cells = {(row["family"], row["p"], row["d"], row["form"]): row for row in rows}
    replace_table("| p | d | certify=False |", list(solves(cells)))
    replace_table("| rows of | fit over PCA |", list(wide(rows)))


def solves(cells):
    """Lines of the table of solves."""
    for family, p, d, form in cells:
        if family != "decaying" or form != "basis only":
            continue
        penalized, limited = (cells["decaying", p, d, name] for name in ("penalized", "limited"))
        line = [f"{p:,}", d, short(cells[family, p, d, form]["ratio"])]
        line += [short(penalized["ratio"]), with_times(limited, penalized)]
        line += [f"{100 * penalized['gap']:.2f} % / {100 * limited['gap']:.2f} %"]
        easy = [cells.get(("factors", p, d, name)) for name in ("penalized", "limited")]
        line += ["–" if row is None else short(row["ratio"]) for row in easy]
        line += [short(cells[family, p, d, name]["ratio"]) for name in FORMS]
        yield "| " + " | ".join(map(str, line)) + " |"


def wide(rows):
    """Lines of the table of wide rows."""
    for row in rows:
        if "memory" in row:
            line = f"{row['p']:,} features", short(row["ratio"]), f"{row['memory']:.1f}"
            yield "| " + " | ".join(line) + " |"


def with_times(limited, penalized):
    return f"{short(limited['ratio'])} ({limited['ratio'] / penalized['ratio']:.1f} ×)"


def short(ratio):
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}"


def replace_table(start, body):
    """Replace the lines below the header that begins with `start`."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith(start)) + 2
    last = first
    while last < len(lines) and lines[last].startswith("|"):
        last += 1
    lines[first:last] = body
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
