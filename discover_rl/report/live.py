"""The page of a study while it is trained: served to this machine alone, made anew as records grow.

One thread makes the page, others hand out what was made last, so that nobody waits. A page that
takes long to make is made less often: looking on must not slow down what is looked at.
"""

from __future__ import annotations

import hashlib
import sys
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from discover_rl.report import comparisons, data, page, payload
from discover_rl.studies import Study, progress
from discover_rl.types import UserError

HOST = "127.0.0.1"
SECONDS = 2.0
"""Between looks at the records, at least."""
SHARE = 0.2
"""Of the time that may go into making pages."""


class Made(NamedTuple):
    """What was made last."""

    shown: str
    tag: str
    trouble: str = ""
    """Why there is nothing newer, in words."""


class Maker:
    """Makes what the page shows whenever a study's records have changed."""

    def __init__(self, study: Study, out: Path):
        self.study, self.out = study, out
        self.kept: payload.Kept = {}
        self.seen: list[progress.Standing] | None = None
        self.made = Made("", "")
        self.look()

    def look(self) -> None:
        """Make it anew if anything is new. What cannot be read is said, and looked at again."""
        try:
            standings = progress.standings(self.study, self.out)
            if standings != self.seen:
                everything = data.load(self.study, self.out)
                analyses = comparisons.analyse(everything)
                shown = page.content(everything, analyses, kept=self.kept)
                self.made = Made(shown, f'"{hashlib.sha256(shown.encode()).hexdigest()[:32]}"')
                self.seen = standings
            elif self.made.trouble:
                self.made = self.made._replace(trouble="")
        except Exception as error:
            if not self.made.shown:
                raise
            self.made = self.made._replace(trouble=str(error) or type(error).__name__)

    def keep_looking(self, stopped: threading.Event) -> None:
        pause = SECONDS
        while not stopped.wait(pause):
            began = time.monotonic()
            self.look()
            pause = max(SECONDS, (time.monotonic() - began) / SHARE)


def serve(study: Study, out: Path, port: int, ready: Callable[[str], None]) -> None:
    """Serve until an exception, as of Ctrl-C, ends it; `ready` is told the address."""
    maker, stopped = Maker(study, out), threading.Event()
    try:
        server = _Server((HOST, port), _handler(maker))
    except (OSError, OverflowError) as error:
        raise UserError(
            f"Port {port} cannot be had ({error}); --port 0 takes a free one."
        ) from error
    looking = threading.Thread(target=maker.keep_looking, args=[stopped], daemon=True)
    with server:
        looking.start()
        try:
            ready(f"http://{HOST}:{server.server_port}/")
            server.serve_forever(poll_interval=0.2)
        finally:
            stopped.set()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away in the midst of an answer is no news."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def _handler(maker: Maker) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def do_GET(self) -> None:
            port = self.connection.getsockname()[1]
            host = self.headers.get("Host", "").removesuffix(f":{port}")
            # By any other name, another site's page may have been led here to read ours.
            if host not in (HOST, "localhost"):
                self._answer(HTTPStatus.FORBIDDEN, "This page is for this machine alone.")
            elif self.path in ("/", f"/{page.NAME}"):
                text = page.document(maker.study.name, maker.made.shown, live=True)
                self._answer(HTTPStatus.OK, text, "text/html")
            elif self.path == f"/{page.DATA}":
                self._answer_data(maker.made)
            else:
                self._answer(HTTPStatus.NOT_FOUND, f"There is / and /{page.DATA}, no more.")

        do_HEAD = do_GET

        def _answer_data(self, made: Made) -> None:
            if made.trouble:
                self._answer(HTTPStatus.SERVICE_UNAVAILABLE, made.trouble)
            elif self.headers.get("If-None-Match") == made.tag:
                self._answer(HTTPStatus.NOT_MODIFIED, "", tag=made.tag)
            else:
                self._answer(HTTPStatus.OK, made.shown, "application/json", made.tag)

        def _answer(
            self, status: HTTPStatus, text: str, kind: str = "text/plain", tag: str = ""
        ) -> None:
            content = text.encode()
            self.send_response(status)
            headers = {
                "Content-Type": f"{kind}; charset=utf-8",
                "Content-Length": str(len(content)),
                "Content-Security-Policy": f"{page.policy(live=True)}; frame-ancestors 'none'",
                "Cache-Control": "no-store",
                "X-Content-Type-Options": "nosniff",
                "Cross-Origin-Resource-Policy": "same-origin",
            }
            for name, value in (headers | ({"ETag": tag} if tag else {})).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """A line for every question would bury the address."""

    return Handler
