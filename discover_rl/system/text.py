"""Text that may come from a stranger's file, made safe to print."""

from __future__ import annotations

import unicodedata

KEPT = "\n\t"
"""Control characters that are printed as they are."""
DIRECTIONS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Characters that turn the direction of text, so that it reads otherwise than it is."""


def printable(text: str) -> str:
    """The text with all that a terminal would obey written out.

    A terminal takes ESC and other control characters for commands: to erase lines, to set its
    title, to move the cursor.

    >>> print(printable("\\x1b[2J\\x07 done\\r"))
    \\x1b[2J\\x07 done\\x0d
    """
    return "".join(_written(letter) for letter in text)


def _written(letter: str) -> str:
    """A character as it is, or, if it would do something, as its number."""
    category = unicodedata.category(letter)
    if letter in KEPT or (category not in ("Cc", "Cs") and letter not in DIRECTIONS):
        return letter
    number = ord(letter)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"
