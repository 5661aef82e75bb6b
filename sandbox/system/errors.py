"""The one error of the sandbox: something the user can run into, with what to do about it.

Bugs are not wrapped in it. Whoever catches a SandboxError prints it without a traceback.
"""

from __future__ import annotations


class SandboxError(Exception):
    """What went wrong (where, which value, what is allowed) and the remedy."""

    def __init__(self, message: str, remedy: str) -> None:
        """Keep both parts, so that a caller can print them apart.

        Args:
            message: what went wrong, in one or more lines.
            remedy: what the user can do about it.
        """
        super().__init__(f"{message}\n{remedy}")
        self.message = message
        self.remedy = remedy
