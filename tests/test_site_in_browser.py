"""The documentation's site in a browser: it fits a phone, and loads nothing from elsewhere."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return folder


@pytest.mark.slow
def test_every_page_fits_a_phone_and_loads_nothing_from_elsewhere(browser, site):
    sheet = browser.new_context(viewport={"width": 390, "height": 844}, is_mobile=True).new_page()
    asked: list[str] = []
    sheet.on("request", lambda request: asked.append(request.url))
    paths = sorted(site.rglob("*.html"))
    wide = {}
    for path in paths:
        sheet.goto(path.as_uri(), wait_until="load")
        width = sheet.evaluate("document.documentElement.scrollWidth")
        if width > 390:
            wide[path.relative_to(site).as_posix()] = width
    assert len(paths) > 80
    assert not wide
    assert not [url for url in asked if not url.startswith(("file:", "data:"))]
