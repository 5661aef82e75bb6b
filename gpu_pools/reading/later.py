"""A text that only the engine will know: an Output of a program, in the place of what a stack file writes.

A component puts one in for each Output before the settings are read, and the Output back where the text has come to stand among a
resource's inputs. Only what is placed as it is can be one: readers that look into a text refuse it as a text that does not fit.
"""

from __future__ import annotations

from typing import Self


class Later(str):
    """The text. What it is in messages says what it is; `output` is what stands for it, never looked into here."""

    __slots__ = ("output",)

    output: object

    def __new__(cls, output: object) -> Self:
        """Stand for an output."""
        made = super().__new__(cls, "(an Output)")
        made.output = output
        return made

    def __deepcopy__(self, _memo: object) -> Self:
        """Outputs are never copied."""
        return self
