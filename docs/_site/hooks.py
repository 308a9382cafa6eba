"""What MkDocs does not do by itself when it builds the site.

- Pages from outside `docs`: the changelog, how to contribute, the queue of studies.
- The reference: a page for each package, from docstrings, and one for the command line. A public
  name without a docstring is a warning, and warnings are errors.
- Equations become MathML and diagrams SVG while the site is built: a reader needs no network and no
  JavaScript for them. On GitHub the same Markdown is drawn by GitHub.
"""

import html
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import griffe
import latex2mathml.converter
import mermaidx
import typer
from mkdocs.structure.files import File, Files
from typer.cli import get_docs_for_click

log = logging.getLogger("mkdocs.hooks.discover_rl")
ROOT = Path(__file__).parents[2]
ELSEWHERE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "index.md",
    "results/queue.md": "results/queue.md",
}
"""Pages that do not lie in `docs`, and where they are on the site; the README's is its own."""

FIRST = ["train", "load_policy", "load_run", "tune"]
"""What most readers look up: the reference begins with it."""

KINDS = ["function", "class", "attribute"]
"""What names of the package may be, in the order of the reference's first page."""

MATHML = "http://www.w3.org/1998/Math/MathML"
ElementTree.register_namespace("", MATHML)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not files of `docs`."""
    for path, target in ELSEWHERE.items():
        if path != "README.md":
            files.append(File.generated(config, target, content=(ROOT / path).read_text()))
    for name, content in reference_pages():
        files.append(File.generated(config, f"reference/{name}.md", content=content))
    return files


def reference_pages() -> Iterator[tuple[str, str]]:
    """The name and the content of each page of the reference."""
    package: Any = griffe.load("discover_rl", search_paths=[ROOT])
    for path in undocumented(package):
        log.warning("%s is public and has no docstring", path)
    names = [str(name) for name in package.exports or [] if not str(name).startswith("__")]
    ranks = {name: len(FIRST) + KINDS.index(package[name].kind.value) for name in names}
    ranks |= {name: rank for rank, name in enumerate(FIRST)}
    listed = "\n".join(f"::: discover_rl.{name}\n" for name in sorted(names, key=ranks.get))
    yield "index", f"# What `import discover_rl` gives\n\n{listed}"
    yield "commands", commands()
    for name, member in package.members.items():
        if not member.is_alias and member.is_module and not name.startswith("_") and name != "api":
            modules = [one for one in walk(member) if one.docstring]
            blocks = "\n".join(f"::: {one.path}\n" for one in modules)
            yield f"discover_rl.{name}", f"# discover_rl.{name}\n\n{blocks}"


def walk(module: Any) -> Iterator[Any]:
    """A module and all below it, those that begin with an underscore left out."""
    yield module
    for name, member in module.members.items():
        if not member.is_alias and member.is_module and not name.startswith("_"):
            yield from walk(member)


def undocumented(thing: Any) -> Iterator[str]:
    """The paths of all public modules, their constants, classes and functions without a docstring.

    Fields of classes may have a comment instead, and a type variable says what it is by itself.
    """
    if not thing.has_docstring:
        yield thing.path
    for name, member in thing.members.items():
        if member.is_alias or name.startswith("_"):
            continue
        if member.is_attribute:
            variable = str(member.value).startswith("TypeVar(")
            if thing.is_module and not (member.has_docstring or variable):
                yield member.path
            continue
        if member.is_function:
            if not (member.has_docstring or (thing.is_class and inherited(thing, name))):
                yield member.path
        else:
            yield from undocumented(member)


def inherited(owner: Any, name: str) -> bool:
    """Whether a method's docstring is that of a class that it inherits from."""
    return any(name in base.members for base in owner.mro())


def commands() -> str:
    """The reference of the command line."""
    from discover_rl.cli.main import app

    root = typer.main.get_command(app)
    context = typer.Context(root, info_name="discover")
    made = get_docs_for_click(obj=root, ctx=context, name="discover", title="Commands")
    # Its list of commands has half of each sentence; the table of contents beside it has them all.
    made = re.sub(r"\*\*Commands\*\*:.*?(?=\n## )", "", made, flags=re.DOTALL)
    made = re.sub(r"(?m)^(discover .*)\n\n(discover .*)$", r"```sh\n\1\n\2\n```", made)
    return re.sub(r"(?m)^ *(\d+)  (.*)$", r"- \1: \2", made)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Lead links that leave `docs` to where the site has their target, if it has."""
    homes = {target: path for path, target in ELSEWHERE.items() if path != "README.md"}
    source = homes.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def led(match: re.Match[str]) -> str:
        text, link, anchor = match.groups()
        path = os.path.normpath(os.path.join(os.path.dirname(source), link))
        if path.startswith("docs/"):
            target = path.removeprefix("docs/")
        elif path in ELSEWHERE:
            target = ELSEWHERE[path]
        elif (ROOT / path).exists():
            return text  # in the repository, but not on the site
        else:
            return match[0]  # MkDocs says that it leads nowhere
        relative = os.path.relpath(target, os.path.dirname(page.file.src_uri) or ".")
        return f"[{text}]({relative}{anchor or ''})"

    return re.sub(r"\[([^\]]*)\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)", led, markdown)


def on_page_content(content: str, page: Any, config: Any, files: Files) -> str:
    """Typeset equations and draw diagrams."""
    content = re.sub(
        r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>',
        typeset,
        content,
        flags=re.DOTALL,
    )
    pattern = r'<pre class="diagram"><code>(.*?)</code></pre>'
    return re.sub(pattern, drawn, content, flags=re.DOTALL)


def typeset(match: re.Match[str]) -> str:
    """An equation as MathML, which browsers draw.

    Equations that stand beside each other, with a wide space between, are one element each: on a
    phone they come below each other.
    """
    kind, latex = match.groups()
    display = "block" if kind == "div" else "inline"
    parts = html.unescape(latex).split(r"\qquad")
    made = (latex2mathml.converter.convert(part, display=display) for part in parts)
    equations = "".join(with_primes(spaced(equation)) for equation in made)
    return f'<{kind} class="arithmatex">{equations}</{kind}>'


THIN = '<mspace width="0.17em" />'
"""The space of TeX's backslash-comma."""


def spaced(equation: str) -> str:
    """MathML with the spaces that TeX sets around names of functions and around ∼."""
    equation = equation.replace("<mi>&#x0007E;</mi>", "<mo>&#x0223C;</mo>")
    names = r"<mi>(?:log|exp|tanh|sin|cos)</mi>"
    equation = re.sub(rf"(?<=</mi>)(?={names})", THIN, equation)
    return re.sub(rf"({names})(?=<m(?!o))", rf"\1{THIN}", equation)


def with_primes(equation: str) -> str:
    """MathML whose primes stand on the line, as x′ in text.

    The character is small and raised by itself. By default it is a superscript, too, which most
    fonts raise once more, so that it floats above its letter.
    """
    root = ElementTree.fromstring(equation)
    for element in root.iter():
        if not len(element) or not re.fullmatch("[′″‴]", "".join(element[-1].itertext())):
            continue
        element[-1].tag = f"{{{MATHML}}}mo"
        if element.tag == f"{{{MATHML}}}msup":
            element.tag = f"{{{MATHML}}}mrow"
        elif element.tag == f"{{{MATHML}}}msubsup":
            base, below, prime = element
            primed = ElementTree.Element(f"{{{MATHML}}}mrow")
            primed.extend([base, prime])
            element.tag, element[:] = f"{{{MATHML}}}msub", [primed, below]
    return ElementTree.tostring(root, encoding="unicode")


def drawn(match: re.Match[str]) -> str:
    """A Mermaid diagram as SVG."""
    diagram = mermaidx.render(html.unescape(match[1]), theme="neutral")
    return f'<div class="diagram">{diagram.svg()}</div>'


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Warn of a page that loads something from the network."""
    loads = r"<(?:script|img|iframe|link rel=\"?stylesheet\"?)[^>]*(?:src|href)=\"?https?://[^\">]*"
    for found in re.findall(loads, output):
        log.warning("%s needs the network: %s", page.file.src_uri, found)
    return output
