"""Which small mistakes a source file could have had: its mutants, one change each.

A condition turned, a boundary moved by one, a part of an `and` left out, a number or a key that is another one, a statement that
is missing. Not changed are annotations, decorators, imports and prose (a string with a blank in it, an f-string): what a message
says is the business of golden texts, and thousands of such mutants would hide the others.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Each comparison -> what it may be mistaken for; one that orders also by its boundary.
_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_CALLED = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "sorted": "list",
    "startswith": "endswith",
    "endswith": "startswith",
}
#: Fields of nodes that a mutant never changes.
_LEFT = {"annotation", "returns", "decorator_list", "type_params", "type_comment"}
_SHOWN = 90


@dataclass(frozen=True)
class Mutant:
    """One change of one file.

    Attributes:
        file: below the root of the project.
        place: the function or class, empty at the top.
        was: what stood there, with as much around it as fits a line.
        now: what stands there instead.
        which: how many equal ones of that place come before it.
        line: in the file as it is; no part of the identity.
        source: the whole file, changed.
    """

    file: str
    place: str
    was: str
    now: str
    which: int
    line: int
    source: str

    @property
    def identity(self) -> tuple[str, str, str, str, int]:
        """What it is known by, as long as nobody touches that spot."""
        return self.file, self.place, self.was, self.now, self.which


def mutants(file: str, source: str) -> Iterator[Mutant]:
    """Every mutant of a file, in the order of its text."""
    text = source.encode()
    starts = _line_starts(text)
    seen: dict[tuple[str, str, str], int] = {}
    for around, place, changed in _changes(ast.parse(source)):
        spot = around[-1]
        begin, end = _span(spot, starts)
        replaced = changed.encode()
        shown = next((node for node in around if _fits(node, starts)), spot)
        first, last = _span(shown, starts)
        was = _one_line(text[first:last])
        now = _one_line(text[first:begin] + replaced + text[end:last])
        which = seen.get((place, was, now), 0)
        seen[place, was, now] = which + 1
        yield Mutant(file, place, was, now, which, spot.lineno, (text[:begin] + replaced + text[end:]).decode())


def _line_starts(text: bytes) -> list[int]:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _span(node: ast.stmt | ast.expr, starts: list[int]) -> tuple[int, int]:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset


def _fits(node: ast.stmt | ast.expr, starts: list[int]) -> bool:
    begin, end = _span(node, starts)
    return end - begin <= _SHOWN and not (hasattr(node, "body") or isinstance(node, ast.Match))


def _one_line(text: bytes) -> str:
    return " ".join(text.decode().split())


Spot = ast.stmt | ast.expr


def _changes(tree: ast.Module) -> Iterator[tuple[tuple[Spot, ...], str, str]]:
    """(the statement and expressions around a spot, the spot last; the function; what the spot becomes)."""

    def walk(node: ast.AST, around: tuple[Spot, ...], place: str) -> Iterator[tuple[tuple[Spot, ...], str, str]]:
        if isinstance(node, ast.JoinedStr | ast.Import | ast.ImportFrom) or _only_for_types(node):
            return
        if isinstance(node, ast.stmt):
            around = (node,)
        elif isinstance(node, ast.expr):
            around = (*around, node)
        if around and around[-1] is node:
            for changed in _changed(around[-1]):
                yield around, place, changed
        for condition in _conditions(node):
            yield (*around, condition), place, f"(not {ast.unparse(condition)})"
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            place = f"{place}.{node.name}" if place else node.name
        for part in _parts(node):
            yield from walk(part, around, place)

    yield from walk(tree, (), "")


def _only_for_types(node: ast.AST) -> bool:
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Expr(value=ast.Constant()):
            return True
        case ast.Call(func=ast.Name(id=name)) | ast.Subscript(value=ast.Name(id=name)):
            return name in {"cast", "TypeVar", "Literal"}
    return False


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    for name, value in ast.iter_fields(node):
        if name not in _LEFT:
            yield from (part for part in (value if isinstance(value, list) else [value]) if isinstance(part, ast.AST))


def _changed(node: Spot) -> Iterator[str]:
    if isinstance(node, ast.stmt):
        yield from _changed_statement(node)
        return
    for changed in _changed_expression(node):
        # A pattern of `case` takes no parentheses.
        yield ast.unparse(changed) if isinstance(changed, ast.Constant) else f"({ast.unparse(changed)})"


def _changed_statement(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.Expr(value=ast.Yield() | ast.YieldFrom()):
            yield "yield from ()"
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break() | ast.Delete():
            yield "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "pass"
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield "return None"


def _conditions(node: ast.AST) -> Iterator[ast.expr]:
    """The conditions that are turned as a whole: comparisons and negations are turned where they stand."""
    tests = [node.test] if isinstance(node, ast.If | ast.While | ast.IfExp) else getattr(node, "ifs", [])
    for test in tests:
        if not isinstance(test, ast.Compare | ast.BoolOp | ast.NamedExpr | ast.UnaryOp):
            yield test


def _changed_expression(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare() | ast.BoolOp():
            yield from _changed_condition(node)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node.operand
        case ast.BinOp(op=ast.BitOr()) if not _is_type(node.left) and not _is_type(node.right):
            yield from (node.left, node.right)
        case ast.BinOp() if type(node.op) in _COMPUTED and not any(_is_text(side) for side in (node.left, node.right)):
            yield ast.BinOp(node.left, _COMPUTED[type(node.op)](), node.right)
        case ast.Constant():
            yield from _changed_constant(node)
        case ast.Call():
            yield from _changed_call(node)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            yield from _unfiltered(node)


def _changed_condition(node: ast.Compare | ast.BoolOp) -> Iterator[ast.expr]:
    if isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            for other in _COMPARED[type(operator)]:
                yield ast.Compare(node.left, [*node.ops[:index], other(), *node.ops[index + 1 :]], node.comparators)
        return
    for index in range(len(node.values)):
        left = [*node.values[:index], *node.values[index + 1 :]]
        yield ast.BoolOp(node.op, left) if len(left) > 1 else left[0]


def _changed_call(node: ast.Call) -> Iterator[ast.expr]:
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in _CALLED:
            keywords = [] if name == "sorted" else node.keywords
            yield ast.Call(ast.Name(_CALLED[name]), node.args, keywords)
        case ast.Call(func=ast.Attribute(attr=name)) if name in _CALLED and name.endswith("with"):
            yield ast.Call(ast.Attribute(node.func.value, _CALLED[name]), node.args, node.keywords)  # type: ignore[attr-defined]


def _is_type(node: ast.expr) -> bool:
    """Whether it is one side of a union of types, rather than of sets or mappings."""
    if isinstance(node, ast.BinOp):
        return _is_type(node.left)
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    known = name in {"int", "str", "float", "bool", "bytes", "list", "dict", "tuple", "set", "object", "type"}
    return known or (name[:1].isupper() and not name.isupper()) or isinstance(node, ast.Subscript | ast.Constant)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _changed_constant(node: ast.Constant) -> Iterator[ast.expr]:
    match node.value:
        case bool():
            yield ast.Constant(not node.value)
        case int() | float():
            yield ast.Constant(node.value + 1)
        case str() if not any(character.isspace() for character in node.value):
            yield ast.Constant(f"{node.value}~")


def _unfiltered(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Iterator[ast.expr]:
    for index, generator in enumerate(node.generators):
        for condition in range(len(generator.ifs)):
            changed = copy.deepcopy(node)
            del changed.generators[index].ifs[condition]
            yield changed
