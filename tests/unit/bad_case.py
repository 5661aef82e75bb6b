"""One stack file that must be refused, and what must be told of it."""

from __future__ import annotations

from dataclasses import dataclass

#: Stands for the stack file's own name in an expected path.
FILE = "{file}"


@dataclass(frozen=True)
class Case:
    """One bad stack.

    Attributes:
        id: what is wrong with it.
        stack: the text of the stack file.
        path: the exact path of the problem; ``{file}`` stands for the file's name.
        message: a part of the message.
        allowed: a part of what is allowed.
        remedy: a part of the remedy.
        problems: how many problems the stack has in all.
        deploy_only: whether only a deploy minds (``plan`` needs no more of the cluster than its platform).
        read_by_engine: False where the engine refuses the file before the program runs, or hands the program another value than
            the file holds: 4.0 arrives as 4, an absent section as its default.
    """

    id: str
    stack: str
    path: str
    message: str
    allowed: str = ""
    remedy: str = ""
    problems: int = 1
    deploy_only: bool = False
    read_by_engine: bool = True
