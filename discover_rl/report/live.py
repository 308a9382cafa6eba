"""A study's page while it is trained: served to this machine alone, and updated as records grow.

One thread computes the page's data, and others answer with the last result, so no reader waits. The
longer the data take, the less often they are computed: watching must not slow training down.
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

from discover_rl.core.types import UserError
from discover_rl.report import comparisons, data, page, payload
from discover_rl.studies import status
from discover_rl.studies.study import Study

HOST = "127.0.0.1"
"""The address that the page is served at, which other machines cannot reach."""
SECONDS = 2.0
"""The shortest time, in seconds, between two looks at the records."""
SHARE = 0.2
"""The largest share of time that is spent on computing data."""


class PageData(NamedTuple):
    """The page's data as they were last made.

    Attributes:
        content: What `page.content` returned.
        tag: Changes with the content; HTTP's ETag.
        trouble: Why newer data cannot be made, in words; '' if they can.
    """

    content: str
    tag: str
    trouble: str = ""


class Updater:
    """Makes the page's data again whenever a study's records have changed."""

    def __init__(self, study: Study, out: Path):
        self.study, self.out = study, out
        self.latest = PageData("", "")
        self._cache: payload.CurveCache = {}
        self._statuses: list[status.RunStatus] | None = None
        self.update()

    def update(self) -> None:
        """Make the data again if a record has changed.

        An error is kept in `latest.trouble` and goes away with the next update that works; it is
        only raised if there are no data at all.
        """
        try:
            statuses = status.statuses(self.study, self.out)
            if statuses != self._statuses:
                everything = data.load(self.study, self.out)
                analyses = comparisons.analyse(everything)
                content = page.content(everything, analyses, cache=self._cache)
                tag = f'"{hashlib.sha256(content.encode()).hexdigest()[:32]}"'
                self.latest = PageData(content, tag)
                self._statuses = statuses
            elif self.latest.trouble:
                self.latest = self.latest._replace(trouble="")
        except Exception as error:
            if not self.latest.content:
                raise
            self.latest = self.latest._replace(trouble=str(error) or type(error).__name__)

    def keep_updating(self, stopped: threading.Event) -> None:
        """Update again and again until `stopped` is set."""
        pause = SECONDS
        while not stopped.wait(pause):
            began = time.monotonic()
            self.update()
            pause = max(SECONDS, (time.monotonic() - began) / SHARE)


def serve(study: Study, out: Path, port: int, ready: Callable[[str], None]) -> None:
    """Serve a study's page until an exception, such as Ctrl-C's, ends it.

    Args:
        study: What is declared.
        out: Its folder.
        port: 0 takes a free one.
        ready: Called with the page's address once it is served.
    """
    updater, stopped = Updater(study, out), threading.Event()
    try:
        server = _Server((HOST, port), _handler(updater))
    except (OSError, OverflowError) as error:
        raise UserError(
            f"Port {port} cannot be used ({error}); --port 0 takes a free one."
        ) from error
    updating = threading.Thread(target=updater.keep_updating, args=[stopped], daemon=True)
    with server:
        updating.start()
        try:
            ready(f"http://{HOST}:{server.server_port}/")
            server.serve_forever(poll_interval=0.2)
        finally:
            stopped.set()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that went away in the middle of an answer."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def _handler(updater: Updater) -> type[BaseHTTPRequestHandler]:
    """The class that answers requests, with the latest data."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def do_GET(self) -> None:
            port = self.connection.getsockname()[1]
            host = self.headers.get("Host", "").removesuffix(f":{port}")
            # Another host name means that another site's page may be trying to read this one.
            if host not in (HOST, "localhost"):
                self._answer(HTTPStatus.FORBIDDEN, "This page is for this machine alone.")
            elif self.path in ("/", f"/{page.NAME}"):
                text = page.document(updater.study.name, updater.latest.content, live=True)
                self._answer(HTTPStatus.OK, text, "text/html")
            elif self.path == f"/{page.DATA}":
                self._answer_data(updater.latest)
            else:
                self._answer(HTTPStatus.NOT_FOUND, f"There is / and /{page.DATA}, no more.")

        do_HEAD = do_GET

        def _answer_data(self, latest: PageData) -> None:
            if latest.trouble:
                self._answer(HTTPStatus.SERVICE_UNAVAILABLE, latest.trouble)
            elif self.headers.get("If-None-Match") == latest.tag:
                self._answer(HTTPStatus.NOT_MODIFIED, "", tag=latest.tag)
            else:
                self._answer(HTTPStatus.OK, latest.content, "application/json", latest.tag)

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
            """Print nothing: a line per request would hide the address."""

    return Handler
