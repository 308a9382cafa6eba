"""How docstrings are read for the site: what MkDocs would misunderstand is put into code blocks."""

import re
from typing import Any

import griffe

DOCTEST = re.compile(r"(?:^>>> .*\n(?:^(?!>>>|\s*$).*\n?)*)+", re.MULTILINE)
"""Examples at the margin, each with what it prints."""


class ExamplesAreCode(griffe.Extension):
    """Fences examples, which in Markdown would be quotations in quotations."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Change the docstring of what was just read."""
        if obj.docstring:
            text = obj.docstring.value + "\n"
            obj.docstring.value = DOCTEST.sub(lambda found: f"```pycon\n{found[0]}```\n", text)
