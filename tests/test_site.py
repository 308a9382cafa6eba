"""What the documentation's site adds to MkDocs: `make docs` builds it, these are its parts."""

import importlib.util
import logging
import re
import subprocess
import sys
import types
from pathlib import Path

import griffe
import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def hooks():
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs/_site/hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def page(path: str) -> types.SimpleNamespace:
    return types.SimpleNamespace(file=types.SimpleNamespace(src_uri=path))


def test_a_public_name_without_a_docstring_is_found(hooks, tmp_path):
    code = (
        '"""A module."""\n\ndef told():\n    """Told."""\n\ndef untold(): ...\n\ndef _own(): ...\n'
        'TOLD = 1\n"""Told."""\nUNTOLD = 2\n_OWN = 3\n'
    )
    (tmp_path / "some_module.py").write_text(code)
    module = griffe.load("some_module", search_paths=[tmp_path])
    assert list(hooks.undocumented(module)) == ["some_module.untold", "some_module.UNTOLD"]


def test_every_public_name_has_a_docstring(hooks):
    """As `make docs` says, but told by `make test`, before a change lands."""
    package = griffe.load("discover_rl", search_paths=[ROOT])
    assert not list(hooks.undocumented(package))


def test_a_broken_link_ends_the_build(tmp_path):
    """By the very words of the Makefile: told to be quiet, MkDocs does not count its warnings."""
    (words,) = re.findall(r"-m (mkdocs build.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert "strict: true\n" in (ROOT / "mkdocs.yml").read_text()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("[nowhere](nowhere.md)\n")
    (tmp_path / "mkdocs.yml").write_text("site_name: a\nstrict: true\n")
    command = [sys.executable, "-m", *words.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode
    assert "nowhere.md" in done.stderr


def test_equations_become_mathml_and_diagrams_svg(hooks):
    inline = '<span class="arithmatex">\\(\\gamma &lt; 1\\)</span>'
    made = hooks.on_page_content(f"<p>{inline}</p>", page("a.md"), None, None)
    assert made.startswith('<p><span class="arithmatex"><math')
    assert "\\" not in made
    spaced = '<span class="arithmatex">\\(\\alpha \\log \\pi(a), \\varepsilon \\sim N\\)</span>'
    made = hooks.on_page_content(spaced, page("a.md"), None, None)
    assert made.count("<mi>log</mi><mspace") == made.count('" /><mi>log</mi>') == 1
    assert "<mo>∼</mo>" in made
    beside = '<div class="arithmatex">\\[a = b, \\qquad c = d\\]</div>'
    assert hooks.on_page_content(beside, page("a.md"), None, None).count("<math") == 2
    block = '<pre class="diagram"><code>flowchart LR\n  a --&gt; b</code></pre>'
    assert "<svg" in hooks.on_page_content(block, page("a.md"), None, None)


def test_primes_stand_on_the_line(hooks):
    """As superscripts they float above their letter in most fonts."""
    primed = "<span class=\"arithmatex\">\\(Q'_i(s'), \\tilde a', \\varepsilon'', x^2\\)</span>"
    made = hooks.on_page_content(primed, page("a.md"), None, None)
    assert "<msub><mrow><mi>Q</mi><mo>′</mo></mrow><mi>i</mi></msub>" in made
    assert "<mrow><mi>s</mi><mo>′</mo></mrow>" in made
    assert "</mover><mo>′</mo></mrow>" in made
    assert "<mo>″</mo>" in made
    assert made.count("<msup>") == 1  # x²


def test_the_reference_begins_with_what_most_readers_look_up(hooks):
    index = dict(hooks.reference_pages())["index"]
    names = re.findall(r"^::: discover_rl\.(\w+)$", index, re.MULTILINE)
    assert names[: len(hooks.FIRST)] == hooks.FIRST
    assert len(set(names)) == len(names) > 10


def test_links_that_leave_the_documentation_lead_to_the_site_or_nowhere(hooks):
    text = "[log](../../CHANGELOG.md#added) [code](../../Makefile) [td3](td3.md) [no](../../no.md)"
    led = hooks.on_page_markdown(text, page("algorithms/ppo.md"), None, None)
    assert led == "[log](../changelog.md#added) code [td3](td3.md) [no](../../no.md)"


def test_a_page_that_needs_the_network_is_a_warning(hooks, caplog):
    with caplog.at_level(logging.WARNING):
        hooks.on_post_page('<a href="https://a.b"><img src="x.png">', page("a.md"), None)
        assert not caplog.records
        hooks.on_post_page('<script src="https://a.b/c.js">', page("a.md"), None)
    assert len(caplog.records) == 1


def test_the_commands_are_all_in_the_reference(hooks):
    made = hooks.commands()
    assert "## `discover train`" in made
    assert "**Commands**" not in made
