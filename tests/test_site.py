"""What the documentation's site adds to MkDocs: `make docs` builds it, these are its parts."""

import importlib.util
import logging
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
    )
    (tmp_path / "some_module.py").write_text(code)
    module = griffe.load("some_module", search_paths=[tmp_path])
    assert list(hooks.undocumented(module)) == ["some_module.untold"]


def test_equations_become_mathml_and_diagrams_svg(hooks):
    inline = '<span class="arithmatex">\\(\\gamma &lt; 1\\)</span>'
    made = hooks.on_page_content(f"<p>{inline}</p>", page("a.md"), None, None)
    assert made.startswith('<p><span class="arithmatex"><math')
    assert "\\" not in made
    block = '<pre class="diagram"><code>flowchart LR\n  a --&gt; b</code></pre>'
    assert "<svg" in hooks.on_page_content(block, page("a.md"), None, None)


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
