"""Writes the types of the components' arguments: components/arguments/stack.py and modes.py.

They are written out, since mypy and Pulumi's analyzer read the text of a program, not what it computes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gpu_pools.platforms.known import rows_of
from gpu_pools.reading.fields import Row, on, snake
from gpu_pools.stack.pools import Pool
from tools.generate.arguments import MODE_TYPES, TYPES, Args

_HEAD: Final = '''"""The types of the arguments of {of}.

Written by `python -m tools.generate` from the tables of fields (gpu_pools/reading/fields.py): edit those.
"""

from typing import {names}
'''
_IMPORTS: Final = """
import pulumi

from gpu_pools.components.arguments.sharing import Declared, Sharing
"""
#: Where a program of Python may also hand over what is no type of a schema: a component, a mapping in the stack file's words.
_TAIL: Final = """

if TYPE_CHECKING:
    AksPoolLike = AksPoolArgs | PoolArgs | dict[str, Any] | Declared
    MagnumPoolLike = MagnumPoolArgs | PoolArgs | dict[str, Any] | Declared
    ExistingPoolLike = ExistingPoolArgs | PoolArgs | dict[str, Any] | Declared
    PoolLike = AksPoolArgs | MagnumPoolArgs | ExistingPoolArgs | PoolArgs | dict[str, Any] | Declared
    NamedPool = NamedPoolArgs | dict[str, Any]
    Cluster = ClusterArgs | dict[str, Any]
else:
    # One type in the schema: Go, C# and Java have no other way to hand one declaration to all components.
    AksPoolLike = MagnumPoolLike = ExistingPoolLike = PoolLike = PoolArgs
    NamedPool, Cluster = NamedPoolArgs, ClusterArgs
"""
_RANGE: Final = '''

class NodeRangeArgs(TypedDict):
    """Bounds of an autoscaled pool."""

    min: int
    """Fewest nodes."""
    max: int
    """Most nodes."""
'''


def args_text() -> str:
    """components/arguments/stack.py."""
    head = _HEAD.format(of="clusters, pools and other sections", names="TYPE_CHECKING, Any, NotRequired, TypedDict")
    return head + _IMPORTS + _RANGE + "".join(map(class_text, TYPES)) + _TAIL


def mode_args_text() -> str:
    """components/arguments/modes.py."""
    return _HEAD.format(of="sharing modes", names="NotRequired, TypedDict") + "".join(map(class_text, MODE_TYPES))


def class_text(args: Args) -> str:
    """Write one type: a key for each row of its classes, those that are required first."""
    written = [row for settings in args.of for row in rows_of(settings) if row.key not in args.lacks]
    found = _of_any(written, args) if args.platform == "any" else [row for row in written if on(row.says, args.platform)]
    found += args.more
    required = [row for row in found if row.needed and not row.either]
    lines = [_key(row, args.platform) for row in (*required, *(row for row in found if row not in required))]
    says = args.says or str(args.of[0].__doc__).splitlines()[0]
    return f'\n\nclass {args.name}(TypedDict):\n    """{says}"""\n\n{"".join(lines)}'


def _of_any(written: list[Row], args: Args) -> list[Row]:
    """Rows of several platforms: each key once, and needed only where each platform needs it."""
    own = {row.key for row in args.more}
    found = {}
    for one in written:
        if one.key in own or one.key in found:
            continue
        # What only some of the classes have cannot be needed by all.
        found[one.key] = replace(one, says=_said(one), needed=one.needed and args.of[0] is Pool and one in rows_of(Pool))
    return [*found.values()]


def _said(one: Row) -> str:
    return one.says if isinstance(one.says, str) else next(iter(one.says.values()))


def _key(row: Row, platform: str) -> str:
    kind = row.kind.type if isinstance(row.kind.type, str) else _name(row.kind.type)
    annotation = kind if row.needed and not row.either else f"NotRequired[{kind}]"
    return f'    {snake(row.key)}: {annotation}\n    """{on(row.says, platform)}"""\n'


def _name(settings: type) -> str:
    (name,) = [args.name for args in TYPES if args.of == (settings,)]
    return name
