"""The report as one page: a file that needs nothing else, opens offline and reaches for nothing.

Style and script are allowed by their hashes and all else is forbidden, so even if a name from a
record found its way into the markup, nothing of it would run. It does not: all text is put in place
as text.
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
DATA = "data.json"
"""Where a page that is served finds what is new."""
SCRIPTS = ("dom.js", "tip.js", "chart.js", "tables.js", "runs.js", "page.js")
# What could end the element that holds the data, or a line of JavaScript.
UNSAFE = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


def content(
    everything: Data,
    analyses: Sequence[Analysis],
    notes: Sequence[str] = (),
    kept: payload.Kept | None = None,
) -> str:
    """What the page shows, as JSON that may stand in a page."""
    found = payload.tree(everything, analyses, notes, {} if kept is None else kept)
    text = json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(UNSAFE)


def document(title: str, shown: str, live: bool = False) -> str:
    """The page around it. One that is live asks whoever serves it for what is new."""
    style, script = asset("page.css"), "\n".join(asset(name) for name in SCRIPTS)
    parts = {
        "policy": policy(live),
        "title": html.escape(title),
        "live": DATA if live else "",
        "style": style,
        "data": shown,
        "script": script,
    }
    # Taken apart before it is filled, so that what is put in is never looked through.
    first, *pieces = asset("page.html").split("{{")
    for piece in pieces:
        name, _, rest = piece.partition("}}")
        first += parts[name] + rest
    return first


def policy(live: bool = False) -> str:
    """The Content-Security-Policy of a page."""
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
    return resources.files("discover_rl.report").joinpath("assets", name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
