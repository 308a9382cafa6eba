"""The report as one HTML page, which needs no other file and no network.

Its Content-Security-Policy allows the page's own style and script by their hashes and forbids
everything else. So text from a record could not run even as part of the markup. It is no part of
it: the script inserts all text as text.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from importlib import resources

from discover_rl.report import payload
from discover_rl.report.comparisons import Analysis
from discover_rl.report.data import Data

NAME = "index.html"
"""The page's file."""
DATA = "data.json"
"""Where a page that is served asks for new data."""
SCRIPTS = ("dom.js", "tip.js", "chart.js", "tables.js", "runs.js", "page.js")
"""Parts of the page's script, in order."""
UNSAFE = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}
"""Letters that could end the element that holds the data, or a line of JavaScript; and escapes."""


def content(
    everything: Data,
    analyses: Sequence[Analysis],
    notes: Sequence[str] = (),
    cache: payload.CurveCache | None = None,
) -> str:
    """The page's data, as JSON that is safe inside a page.

    Args:
        everything: What is recorded of a study.
        analyses: Of its groups.
        notes: Sentences on where numbers are from.
        cache: Curves of an earlier page, which are not computed again; it is updated.
    """
    found = payload.build(everything, analyses, notes, {} if cache is None else cache)
    text = json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(UNSAFE)


def document(title: str, page_data: str, live: bool = False) -> str:
    """The whole page.

    Args:
        title: Of the page.
        page_data: What `content` returned.
        live: Whether the page asks its server for new data again and again.
    """
    style, script = asset("page.css"), "\n".join(asset(name) for name in SCRIPTS)
    parts = {
        "policy": policy(live),
        "title": html.escape(title),
        "live": DATA if live else "",
        "style": style,
        "data": page_data,
        "script": script,
    }
    # The template is split before it is filled, so that braces in the data are not replaced.
    first, *pieces = asset("page.html").split("{{")
    for piece in pieces:
        name, _, rest = piece.partition("}}")
        first += parts[name] + rest
    return first


def policy(live: bool = False) -> str:
    """The Content-Security-Policy of a page; a live one may ask its own server for data."""
    style, script = asset("page.css"), "\n".join(asset(name) for name in SCRIPTS)
    reach = "'self'" if live else "'none'"
    return "; ".join(
        [
            "default-src 'none'",
            f"style-src '{_hash(style)}'",
            f"script-src '{_hash(script)}'",
            f"connect-src {reach}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def asset(name: str) -> str:
    """The text of a file in `assets/`."""
    return resources.files("discover_rl.report").joinpath("assets", name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
