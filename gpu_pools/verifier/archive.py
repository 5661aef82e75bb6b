"""The verifier as one file: a zip that Python runs, small enough for a ConfigMap. And what changes nodes as a second one.

The second file has the package `changer` of the verifier's package and nothing else; only pools with a rollout load it.

The same sources give the same bytes: entries are sorted, their times fixed, and nothing of this machine is in them but how its
zlib compresses and its Python's bytecode; names therefore take `digest`, which depends on neither. This module is not part of
what it builds.

Of pynvml as it is installed here go in the structs that the verifier uses, their text unchanged, with its BSD licence. pynvml
has 12,000 lines and the verifier needs a dozen of its structs; all of it would be loaded at each start. What is kept: the head
(with the licence), what runs when the module is loaded, the wanted names and all that they refer to, imports among them. Names
that a module makes or looks up by text cannot be seen here and have to be wanted explicitly.

What every assertion loads has its bytecode beside it (PEP 552), which takes half the time of compiling. A Python of another
version, or one that finds another source beside it, ignores it and compiles the source. All the rest takes so long to load or
is needed so seldom that bytecode would only make the file larger. `python -m gpu_pools.verifier.archive FILE` writes the file,
`--changer FILE` the second one.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import io
import marshal
import re
import sys
import zipfile
from importlib.util import MAGIC_NUMBER, find_spec, source_hash
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .evidence import digest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import CodeType

# --- the file -----------------------------------------------------------------------------------------------------

#: Of each file, so that it fits a ConfigMap: etcd takes 1.5 MiB, a ConfigMap 1 MiB, base64 a third more.
MOST_BYTES: Final = 400 * 1024
_SOURCES: Final = Path(__file__).parent
_LEFT_OUT: Final = ("archive.py",)
_SUFFIXES: Final = (".py", ".json")
#: Who uses pynvml, and how that is seen.
_USERS: Final = ("nvml.py", "nvml_calls.py")
_USED: Final = re.compile(r"\bpynvml\.(\w+)")
#: Exit code 1 would say that the node differs.
_MAIN: Final = '''\
"""Runs the verifier."""

import sys
from zipimport import zipimporter

if sys.version_info < (3, 11):
    sys.stderr.write("cannot tell: the verifier needs Python 3.11 or newer\\n")
    sys.exit(2)


class Importer(zipimporter):
    """Compiles each module once: that of Python 3.11 to 3.14 does so a first time to say where its file is (get_filename)."""

    def get_filename(self, fullname):
        end = "/__init__.py" if self.is_package(fullname) else ".py"
        return f"{self.archive}/{self.prefix}{fullname.rpartition('.')[2]}{end}"


sys.path_hooks.insert(0, Importer)
sys.path_importer_cache.pop(sys.path[0], None)

from verifier.start import end, run

end(run())
'''
#: The earliest that a zip can say.
_TIME: Final = (1980, 1, 1, 0, 0, 0)
_READABLE: Final = 0o644 << 16
#: Of pynvml.py in the release that requirements.txt pins: another one would go to every node.
_PYNVML: Final = ("nvidia-ml-py==13.615.71", "2828e66b483bec218f461314f6da96c1e56330ed4b297a20b3444b4c43cdd14e")
#: Modules that every assertion loads; a test compares them with what one has loaded.
ASSERTED: Final = frozenset(
    (
        *("__init__", "__main__", "commands", "compare_gpus", "documents", "expectation", "findings"),
        *("mps_daemons", "names", "nvml", "nvml_calls", "observation", "options", "plain", "process", "reading"),
        *("report", "serve", "sources", "start"),
    )
)
#: PEP 552: the bytecode belongs to a source of this hash, which is to be compared.
_CHECKED: Final = (0b11).to_bytes(4, "little")
#: Without references to equal objects, which depend on what else the process holds.
_MARSHAL_VERSION: Final = 2
_SHEBANG: Final = b"#!/usr/bin/env python3\n"


def archive() -> bytes:
    """The verifier.

    Raises:
        ModuleNotFoundError: when pynvml (nvidia-ml-py) is not installed here.
        ValueError: when it became too large for a ConfigMap, or pynvml is another one than is pinned.
    """
    return _packed(_entries())


def changer() -> bytes:
    """What changes nodes; of no use without the verifier.

    Raises:
        ValueError: when it became too large for a ConfigMap.
    """
    return _packed(_sources("changer"))


def _packed(entries: Sequence[tuple[str, bytes]]) -> bytes:
    packed = io.BytesIO()
    packed.write(_SHEBANG)
    with zipfile.ZipFile(packed, "w") as target:
        for name, content in sorted([*entries, *_bytecode(entries)]):
            entry = zipfile.ZipInfo(name, _TIME)
            entry.external_attr = _READABLE
            entry.create_system = 3  # Unix, wherever it is built
            target.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)
    made = packed.getvalue()
    if len(made) > MOST_BYTES:
        message = f"a file for the nodes has {len(made)} bytes, more than {MOST_BYTES}"
        raise ValueError(message)
    return made


def digest() -> str:
    """SHA-256 of the sources, in hexadecimal; it does not depend on the compression, nor on the Python that makes bytecode.

    Raises:
        ModuleNotFoundError: as `archive`.
        ValueError: where pynvml is another one than is pinned.
    """
    return digest_of(_entries())


def _bytecode(entries: Sequence[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    return [
        (f"{name}c", MAGIC_NUMBER + _CHECKED + source_hash(content) + marshal.dumps(_code(name, content), _MARSHAL_VERSION))
        for name, content in entries
        if name in {"__main__.py", "pynvml.py", *(f"verifier/{module}.py" for module in ASSERTED)}
    ]


def _code(name: str, content: bytes) -> CodeType:
    code: CodeType = compile(content, name, "exec", dont_inherit=True, optimize=0)
    return code


def _entries() -> list[tuple[str, bytes]]:
    """(name, content), sorted by name."""
    return sorted([("__main__.py", _MAIN.encode()), ("pynvml.py", _pynvml().encode()), *_sources("")])


def _sources(folder: str) -> list[tuple[str, bytes]]:
    """The modules and the data of a folder of this package, those below it not among them."""
    paths = sorted(path for path in (_SOURCES / folder).iterdir() if path.suffix in _SUFFIXES)
    return [
        (f"verifier/{path.relative_to(_SOURCES).as_posix()}", path.read_bytes()) for path in paths if path.name not in _LEFT_OUT
    ]


def _pynvml() -> str:
    found = find_spec("pynvml")
    if found is None or found.origin is None:
        message = "pynvml is not installed; requirements.txt pins it as nvidia-ml-py"
        raise ModuleNotFoundError(message)
    pinned, expected = _PYNVML
    content = Path(found.origin).read_bytes()
    if hashlib.sha256(content).hexdigest() != expected:
        message = f"{found.origin} is not the pynvml that is reviewed for the nodes: pip install --force-reinstall {pinned}"
        raise ValueError(message)
    used = {name for user in _USERS for name in _USED.findall((_SOURCES / user).read_text(encoding="utf-8"))}
    return part_of(content.decode("utf-8"), used.__contains__, effects=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m gpu_pools.verifier.archive", description="Write the verifier as one file.")
    parser.add_argument("file", type=Path, help="e.g. verifier.pyz")
    about = "write what changes nodes as well, e.g. changer.pyz"
    parser.add_argument("--changer", type=Path, metavar="FILE", help=about)
    options = parser.parse_args(arguments)
    options.file.write_bytes(archive())
    options.file.chmod(0o755)
    if options.changer:
        options.changer.write_bytes(changer())
    return 0


# --- the part of a module that is used ----------------------------------------------------------------------------

_TRIES: Final = 5


def part_of(source: str, wanted: Callable[[str], bool], *, effects: bool = True) -> str:
    """The part of the module that the wanted names need.

    Args:
        source: the module.
        wanted: whether a name of the module is needed in any case.
        effects: whether expressions are kept that run when the module is loaded; without them only what is defined is.
    """
    statements = _parsed(source).body
    definers: dict[str, list[ast.stmt]] = {}
    for statement in statements:
        for name in _defined(statement):
            definers.setdefault(name, []).append(statement)

    def needed(statement: ast.stmt) -> bool:
        return _always(statement, effects=effects) or any(map(wanted, _defined(statement)))

    kept: set[ast.stmt] = set()
    open_ends = [statement for statement in statements if needed(statement)]
    while open_ends:
        statement = open_ends.pop()
        if statement not in kept:
            kept.add(statement)
            open_ends += [definer for name in _referred(statement) for definer in definers.get(name, ())]
    lines = source.splitlines(keepends=True)
    head = lines[: _first_line(statements[0]) - 1]
    return "".join([*head, *(_text(lines, statement) for statement in statements if statement in kept)])


def _parsed(source: str) -> ast.Module:
    """The tree; Python before 3.11.8 and 3.12.2 may count depths wrong where another thread runs meanwhile (cpython#106905)."""
    for _ in range(_TRIES - 1):
        with contextlib.suppress(SystemError):
            return ast.parse(source)
    return ast.parse(source)


def _always(statement: ast.stmt, *, effects: bool) -> bool:
    """What is run for its effect, and imports of nobody knows what; of expressions not the bare texts."""
    if isinstance(statement, ast.Expr):
        return effects and not isinstance(statement.value, ast.Constant)
    return not _defined(statement)


def _defined(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        return [name for target in statement.targets for name in _names(target)]
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name.partition(".")[0] for alias in statement.names if alias.name != "*"]
    return []


def _referred(statement: ast.stmt) -> Iterable[str]:
    return set(_names(statement))


def _names(node: ast.AST) -> list[str]:
    return [found.id for found in ast.walk(node) if isinstance(found, ast.Name)]


def _first_line(statement: ast.stmt) -> int:
    decorators = statement.decorator_list if isinstance(statement, (ast.FunctionDef, ast.ClassDef)) else []
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


def _text(lines: list[str], statement: ast.stmt) -> str:
    return "".join(lines[_first_line(statement) - 1 : statement.end_lineno])


if __name__ == "__main__":
    sys.exit(main())
