"""Text of files that a command line names; one that cannot be read is a problem like any other of what was given."""

from __future__ import annotations

from gpu_pools.text.errors import InvalidStackError, Problem
from gpu_pools.text.files import read_text


def text_in(path: str) -> str:
    """The text in a file.

    Raises:
        InvalidStackError: if it cannot be read.
    """
    try:
        return read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidStackError(
            [Problem(path, f"it cannot be read: {error}", "a text file", "Name a file that is there.")]
        ) from error
