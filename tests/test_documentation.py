"""What the documentation tells users to type is understood, and its examples run."""

import ast
import re
import shlex
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from discover_rl import config, tuning
from discover_rl.cli.main import app
from discover_rl.cli.options import name_and_value
from discover_rl.config import Request
from tests.helpers import cells

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "results").glob("*.md")),
]
LINKED = [*PAGES, ROOT / "CHANGELOG.md"]
PLACEHOLDERS = re.compile(r"…|\[|\b(RUN|STUDY|NAME|TASK|FOLDER|ALGORITHM|FILE)\b")


TUTORIALS = ("own-environment", "compare-strategies", "gpu", "cluster")


def commands(page: Path) -> list[str]:
    """Every command in a page's shell blocks and inline code, continued lines joined."""
    text = page.read_text().replace("\\\n", " ")
    blocks = re.findall(r"```(?:sh|bash|console)\n(.*?)```", text, re.DOTALL)
    lines = [line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]
    lines += re.findall(r"`(discover [^`\n]+)`", text)
    found = [line for line in lines if line.startswith("discover ")]
    return [line for line in found if not PLACEHOLDERS.search(line.split("#")[0])]


def parsed(command: str) -> tuple[str, dict]:
    """The name of the command that is called, and its parameters, by the real parser."""
    words = shlex.split(command.split(" #")[0].split(" && ")[0].split(" | ")[0], comments=True)
    root: Any = typer.main.get_command(app)
    name, *rest = words[1:]
    if name.startswith("-"):
        assert any(name in param.opts for param in root.params), command
        return name, {}
    assert name in root.commands, command
    # Prose mentions commands without their arguments: `discover run --engine ray`.
    required = [param for param in root.commands[name].params if param.required]
    if not any(not word.startswith("-") for word in rest[:1]):
        rest = ["Pendulum-v1" for _ in required] + rest
    return name, root.commands[name].make_context(name, rest).params


def examples(page: str) -> list[str]:
    """The pieces of Python in a page."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def test_there_is_something_to_check():
    found = [command.split()[1] for page in PAGES for command in commands(page)]
    assert len(found) > 60
    every = {"train", "tune", "evaluate", "list", "plan", "run", "status", "export", "report"}
    assert every | {"watch", "theory", "visitation"} <= set(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_command_is_understood(page):
    for command in commands(page):
        name, given = parsed(command)
        if name not in ("train", "tune"):
            continue
        settings = dict(name_and_value("--set", text) for text in given["settings"] or [])
        named = {key: given[key] for key in ("task", "algorithm", "strategy", "steps", "seeds")}
        request = Request(**named, settings=settings)
        if request.strategy in ("uniform", "loud:loud"):  # examples of what is not there
            continue
        if name == "train":
            assert config.resolve(request), command
        else:
            ranges = dict(name_and_value("--range", text) for text in given["ranges"] or [])
            assert tuning.make_plan(request, ranges, given["lanes"]), command


def test_links_between_pages_lead_somewhere():
    for page in LINKED:
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page}: {link}"


def test_anchors_exist():
    for page in LINKED:
        for link, anchor in re.findall(r"\]\(([^)#\s]*)#([^)]+)\)", page.read_text()):
            if "://" in link:
                continue
            target = (page.parent / link).resolve() if link else page
            titles = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            slugs = [re.sub(r"[^\w\- ]", "", it.lower()).replace(" ", "-") for it in titles]
            assert anchor in slugs, f"{page}: {link}#{anchor}"


GUIDES = ["index.md", "get-started.md", "faq.md", *(f"tutorials/{name}.md" for name in TUTORIALS)]


@pytest.mark.parametrize("page", GUIDES)
def test_a_newcomer_meets_no_word_that_is_not_explained(page):
    """A word of the glossary is in italics where it first occurs, and explained there."""
    glossary = (ROOT / "docs" / "glossary.md").read_text()
    words = re.findall(r"^\| (\w+)(?:, \w+ action)? \| ", glossary, re.MULTILINE)[1:]
    assert {"lane", "nudge", "study", "arm"} <= set(words)
    text = (ROOT / "docs" / page).read_text()
    for removed in (r"```.*?```", r"`[^`]*`", r"\]\([^)]*\)", r"^#.*$", r"\[[^\]]*\]?"):
        text = re.sub(removed, " ", text, flags=re.DOTALL | re.MULTILINE)
    for word in words:
        plural = f"{word[:-1]}(?:y|ies)" if word.endswith("y") else f"{word}s?"
        if first := re.search(rf"\S?\b{plural}\b.", text):
            assert first[0].startswith("*"), f"{page}: {word}"


def test_functions_that_a_transition_passes_exist():
    """Every `Class.method` of *Follow one transition* is defined in the package."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    section = page.split("## Follow one transition")[1].split("\n## ")[0]
    trees = [ast.parse(path.read_text()) for path in (ROOT / "discover_rl").rglob("*.py")]
    defined = {
        f"{node.name}.{item.name}"
        for node in (it for tree in trees for it in tree.body if isinstance(it, ast.ClassDef))
        for item in node.body
        if isinstance(item, ast.FunctionDef)
    }
    named = set(re.findall(r"`([A-Z]\w+\.\w+)`", section))
    assert len(named) > 15
    assert named <= defined, named - defined


STRATEGY_EXAMPLES = ("uniform", "sticky", "surprise", "uphill")


@pytest.mark.parametrize(
    ("algorithm", "name"),
    [
        ("td3", "uniform"),
        ("sac", "sticky"),
        ("ppo", "surprise"),
        ("td3", "uphill"),
        pytest.param("ppo", "uniform", marks=pytest.mark.slow),
        pytest.param("ddpg", "sticky", marks=pytest.mark.slow),
        pytest.param("ppo", "sticky", marks=pytest.mark.slow),
        pytest.param("td3", "surprise", marks=pytest.mark.slow),
        pytest.param("sac", "uphill", marks=pytest.mark.slow),
    ],
)
def test_the_example_strategies_work(algorithm, name, monkeypatch):
    files = [code for code in examples("docs/add-a-strategy.md") if code.startswith('"""')]
    assert len(files) == len(STRATEGY_EXAMPLES)
    module = types.ModuleType(f"discover_rl.strategies.{name}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    code = files[STRATEGY_EXAMPLES.index(name)]
    exec(compile(code, f"{name}.py", "exec"), module.__dict__)
    assert module.__doc__
    own = {"strategy_half_life": 5.0} if name == "uniform" else {}
    hypers = cells.hypers(algorithm, name, **own)
    agent = cells.made(algorithm, name, *hypers)
    state, actions = cells.run(agent, cells.begin(agent, [5], *hypers), [5], 12)
    assert np.abs(actions).max() <= 1.0
    report = agent.report(state, np.int32(12))
    if name == "uniform":
        assert state.learner.strategy.age.item() == 8  # off-policy, 4 steps of 12 are warm-up
        # PPO reports on a rollout before it learns from it: half of its eight updates.
        age = 4 if algorithm == "ppo" else 8
        assert report["width"].item() == pytest.approx(0.5 * 0.5 ** (age / 5), rel=1e-5)
    if name == "surprise":
        assert report["bonus"].item() > 0


def test_the_example_observer_works(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(examples("docs/observers.md")[0], "best.py", "exec"), names)
    printed = capfd.readouterr().out
    means = [float(mean) for mean in re.findall(r"step [\d,]+  return (-[\d.]+)", printed)]
    assert len(means) == 2 * 4  # on the terminal: at 0, 1,000, 2,000 and 2,048
    records = [max(means[: i + 1]) for i in range(len(means))]
    assert printed.count("best return so far") == len(set(records))
    assert round(names["best"].best, 1) == max(means)
