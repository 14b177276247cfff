"""Places in the source where one small change makes a fault, by its syntax tree."""

import ast
import copy
import re
from dataclasses import dataclass
from pathlib import Path

OPERATORS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
PAIRS = [("min", "max"), ("any", "all"), ("argmin", "argmax"), ("minimum", "maximum")]
# Arguments that decide about checks, copies, warnings and signatures, and not about an answer.
UNCHANGED = (
    "strict", "check_finite", "copy", "stacklevel", "overwrite_a", "overwrite_b", "kw_only"
)  # fmt: skip
# Constants of how many numbers, rows or bytes are held at a time: no answer depends on them.
BLOCKS = re.compile("AT_ONCE|BATCH|BLOCK|PIECE|STRIDE|CACHED|BUFFER|WRITE_ELEMENTS")
# Constants up to these are tolerances: up to the first a limit of rounding, of which any order of
# magnitude between rounding and what is meant will do; up to the second no computed number is ever
# equal to one.
ROUNDING, TOLERANCE = 1e-6, 1e-3
OPPOSITE = {ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt}
SYMMETRIC = ("min", "max", "minimum", "maximum", "hypot", "gcd", "vdot")  # in real arguments
SWAPPED = dict(PAIRS) | {second: first for first, second in PAIRS}


@dataclass(frozen=True)
class Fault:
    """One small change of an expression, and the lines that use it."""

    file: str
    place: tuple[int, int, int, int]  # first line and column, last line and column, in bytes
    old: str
    new: str
    line: str  # what stands in the first line, without its indentation
    used: tuple[tuple[str, int], ...]  # files and lines that must run for it to matter

    @property
    def change(self):
        """What is written instead of what."""
        return f"{self.old} → {self.new}"

    def apply(self, package):
        """Write the fault into a copy of the package."""
        path = Path(package, self.file)
        lines = path.read_bytes().splitlines(keepends=True)
        first, left, last, right = self.place
        before, after = lines[first - 1][:left], lines[last - 1][right:]
        lines[first - 1 : last] = [before + f"({self.new})".encode() + after]
        path.write_bytes(b"".join(lines))


def find_faults(source, packages):
    """All faults of the files of some packages."""
    texts = {
        str(path.relative_to(source)): path.read_text()
        for path in sorted(Path(source).rglob("*.py"))
    }
    trees, uses = {file: ast.parse(text) for file, text in texts.items()}, {}
    tolerances: set[str] = set()
    for file, tree in trees.items():
        _add_uses(uses, file, tree)
        tolerances |= set(_named_tolerances(tree))
    for file, tree in trees.items():
        if file.split("/")[0] not in packages:
            continue
        lines = texts[file].splitlines()
        for statement, node in _expressions(tree):
            place = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
            used = _used(file, statement, node, tree, uses)
            changes = {ast.unparse(changed) for changed in _changes(node, tolerances)}
            for new in sorted(changes - {ast.unparse(node)}):
                line = lines[node.lineno - 1].strip()
                yield Fault(file, place, ast.unparse(node), new, line, used)


def _used(file, statement, node, tree, uses):
    """Lines that run when an expression matters: of a constant and a default those that use it."""
    if isinstance(statement, ast.FunctionDef):  # a default
        return tuple((file, line.lineno) for line in statement.body)
    once = [tree, *(part for part in tree.body if isinstance(part, ast.ClassDef))]
    if any(statement in part.body for part in once) and hasattr(statement, "value"):
        targets = getattr(statement, "targets", None) or [getattr(statement, "target", statement)]
        names = [n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]
        return tuple(
            place
            for name in names
            for place in uses.get(name, ())
            if name[0] != "_" or place[0] == file
        )
    return (file, node.lineno), (file, statement.lineno)


def _add_uses(uses, file, tree):
    """Note the lines inside of functions where names are read."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                name = getattr(node, "id", getattr(node, "attr", None))  # X, or self.X of a class
                if name and isinstance(node.ctx, ast.Load):
                    uses.setdefault(name, set()).add((file, node.lineno))


def _expressions(tree):
    """Expressions that compute something, with their statements: no words, types or messages."""
    stack = [(None, node) for node in tree.body]
    while stack:
        statement, node = stack.pop()
        if isinstance(node, ast.Raise | ast.Import | ast.ImportFrom | ast.JoinedStr | ast.Assert):
            continue
        if isinstance(node, ast.keyword) and node.arg in UNCHANGED:
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Assign | ast.AnnAssign) and _is_type(node, statement):
            continue
        if isinstance(node, ast.Assign) and BLOCKS.search(ast.unparse(node.targets[0])):
            continue
        if isinstance(node, ast.stmt):
            statement = node
        elif isinstance(node, ast.expr):
            yield statement, node
        skipped = ("annotation", "returns", "decorator_list", "bases", "type_params")
        for field, value in ast.iter_fields(node):
            if field not in skipped:
                children = value if isinstance(value, list) else [value]
                if field in ("values", "args") and _stands_in_for_zero(node):
                    children = children[:-1]
                stack += [(statement, child) for child in children if isinstance(child, ast.AST)]


def _named_tolerances(tree):
    """Names that a file gives to numbers up to 1e-3."""
    for part in (part for part in tree.body if isinstance(part, ast.Assign)):
        values = part.value.elts if isinstance(part.value, ast.Tuple) else [part.value]
        names = getattr(part.targets[0], "elts", part.targets)
        if len(names) == len(values):
            yield from (n.id for n, v in zip(names, values, strict=True) if _is_small(v, TOLERANCE))


def _is_small(node, limit):
    number = getattr(node, "value", None)
    return isinstance(node, ast.Constant) and type(number) is float and 0.0 < number <= limit


def _stands_in_for_zero(node):
    """Whether the last operand or argument is the 1.0 by which something zero is divided."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        return getattr(node.values[-1], "value", None) == 1.0
    is_where = isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "where"
    return is_where and getattr(node.args[-1], "value", None) == 1.0


def _changes(node, tolerances):
    """Wrong expressions in place of a right one."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OPERATORS:
        kinds, parts = OPERATORS, list(ast.walk(node))
        if any(_is_small(n, TOLERANCE) or getattr(n, "id", "") in tolerances for n in parts):
            kinds = OPERATORS | OPPOSITE
        yield _with(node, ops=[kinds[type(node.ops[0])](), *node.ops[1:]])
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS and not _is_text(node):
        yield _with(node, op=OPERATORS[type(node.op)]())
        if isinstance(node.op, ast.Add | ast.Sub | ast.Mult):
            yield node.left
    elif isinstance(node, ast.BoolOp):
        yield _with(node, op=OPERATORS[type(node.op)]())
        yield node.values[0]
        if _stands_in_for_zero(node):
            yield _with(node, values=[*node.values[:-1], ast.Constant(0.0)])
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
        yield node.operand
    elif isinstance(node, ast.IfExp):
        yield _with(node, test=ast.UnaryOp(ast.Not(), node.test))
    elif _is_small(node, ROUNDING):
        yield ast.Constant(float(f"{max(1e6 * node.value, ROUNDING):g}"))
    elif isinstance(node, ast.Constant) and type(node.value) is float and node.value:
        yield from (ast.Constant(node.value * 10.0), ast.Constant(node.value / 10.0))
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        # One more than a small number; of a larger one, which is a size or a limit, a tenth.
        yield ast.Constant(node.value + 1 if node.value <= 10 else node.value // 10)
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Call):
        yield from _changed_calls(node)


def _changed_calls(node):
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    if _stands_in_for_zero(node):
        yield _with(node, args=[*node.args[:-1], ast.Constant(0.0)])
    if name in SWAPPED:
        field = "attr" if isinstance(node.func, ast.Attribute) else "id"
        yield _with(node, func=_with(node.func, **{field: SWAPPED[name]}))
    if (
        name not in SYMMETRIC
        and len(node.args) >= 2
        and not any(isinstance(a, ast.Starred | ast.Constant) for a in node.args[:2])
    ):
        yield _with(node, args=[node.args[1], node.args[0], *node.args[2:]])


def _with(node, **fields):
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _is_type(node, within):
    """Tell a name that is given to a type, such as ``Names = str | None``."""
    is_union = isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.BitOr)
    annotation = ast.unparse(getattr(node, "annotation", ast.Constant(None)))
    return annotation == "TypeAlias" or (within is None and is_union)


def _is_text(node):
    return any(
        isinstance(n, ast.JoinedStr) or isinstance(getattr(n, "value", 0), str)
        for n in ast.walk(node)
    )


def wilson(hits, count, z=1.96):
    """95 % interval of a share, by Wilson's score."""
    share, extra = hits / count, z * z / count
    middle = share + extra / 2.0
    half = z * ((share * (1.0 - share) + extra / 4.0) / count) ** 0.5
    return (middle - half) / (1.0 + extra), (middle + half) / (1.0 + extra)
