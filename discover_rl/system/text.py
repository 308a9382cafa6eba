"""Text that may come from a stranger's file, made safe to print."""

from __future__ import annotations

import unicodedata

KEPT = "\n\t"
"""Control characters that are printed as they are."""
DIRECTIONS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Characters that change the direction of text, so that it is displayed in another order."""


def shortened(text: str, most: int = 4_000) -> str:
    """Return the text, if it is longer than `most` without its middle: a file may say anything.

    >>> shortened("x" * 50 + " is no number", 20)
    'xxxxxxxxxx …  no number'
    """
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-most // 2 :]}"


def printable(text: str) -> str:
    """Return the text with control characters written out as codes.

    A terminal takes ESC and other control characters for commands: to erase lines, to set its
    title, to move the cursor.

    >>> print(printable("\\x1b[2J\\x07 done\\r"))
    \\x1b[2J\\x07 done\\x0d
    """
    return "".join(_written(letter) for letter in text)


def _written(letter: str) -> str:
    """Return a character as it is or, if a terminal would obey it, as its code."""
    category = unicodedata.category(letter)
    if letter in KEPT or (category not in ("Cc", "Cs") and letter not in DIRECTIONS):
        return letter
    number = ord(letter)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"
