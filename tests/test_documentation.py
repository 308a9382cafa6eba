"""What the documentation tells users to type is understood, and its examples run."""

import ast
import os
import re
import shlex
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from markdown_it import MarkdownIt

from discover_rl import algorithms, config, strategies, tuning
from discover_rl.agents import Agent
from discover_rl.algorithms import ALGORITHMS, off_policy_parts, on_policy_parts
from discover_rl.cli import exit_codes
from discover_rl.cli.main import app
from discover_rl.cli.options import name_and_value
from discover_rl.config import Request
from discover_rl.core.types import Nudge
from discover_rl.strategies.interface import Strategy, View
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
    command = re.sub(r"\$\w+", "1", command)  # what a queue gives a job is a number
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
            assert tuning.make_plan(request, ranges, given["lanes"], prune=given["prune"]), command


def test_commands_of_the_pages_can_be_called_one_after_another():
    """No two of them train different runs into the same folder, which would be refused."""
    found = {}
    for page in PAGES:
        for command in commands(page):
            name, given = parsed(command)
            if name != "train":
                continue
            settings = dict(name_and_value("--set", text) for text in given["settings"] or [])
            own = {key: value for key, value in settings.items() if not key.startswith("compute.k")}
            named = {key: given[key] for key in ("task", "algorithm", "strategy")}
            start = str(given["start_from"] or "")
            folder = str(given["out"] or Request(**named, start_from=start).default_folder)
            assert found.setdefault(folder, (named, own)) == (named, own), f"{page}: {command}"
    assert len(found) > 60


@pytest.mark.parametrize("code", exit_codes.MEANINGS)
def test_the_job_of_the_cluster_tutorial_goes_back_into_the_queue_if_something_is_left(
    code, tmp_path
):
    """With a `discover` that ends with this code, and a Slurm that writes down what it is told."""
    page = (ROOT / "docs" / "tutorials" / "cluster.md").read_text()
    (job,) = re.findall(r"```sh\n(#!/bin/bash\n.*?)```", page, re.DOTALL)
    for name, end in (("discover", code), ("scontrol", 0)):
        (tmp_path / name).write_text(f'#!/bin/sh\necho "{name} $*" >> told\nexit {end}\n')
        (tmp_path / name).chmod(0o755)
    slurm = {"SLURM_ARRAY_JOB_ID": "77", "SLURM_ARRAY_TASK_ID": "2", "SLURM_CPUS_PER_TASK": "2"}
    env = slurm | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert subprocess.run(["bash", "-c", job], cwd=tmp_path, env=env).returncode == code
    first, *others = (tmp_path / "told").read_text().splitlines()
    assert first == "discover run mine.toml --shard 2/4 --minutes 55 --processes 2"
    assert others == (["scontrol requeue 77_2"] if code == exit_codes.UNFINISHED else [])


def test_the_readme_is_read_in_a_minute():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


def test_verbs_of_the_makefile_and_scripts_that_pages_call_exist():
    verbs = re.search(r"\.PHONY: (.*)", (ROOT / "Makefile").read_text())[1].split()
    found = []
    for page in PAGES:
        text = page.read_text()
        code = re.findall(r"```(?:sh|bash|console)\n(.*?)```|`([^`\n]+)`", text, re.DOTALL)
        lines = [line.strip() for pair in code for line in "".join(pair).splitlines()]
        called = [re.match(r"make ([a-z][\w-]*)", line) for line in lines]
        scripts = [re.match(r"(?:\.venv/bin/)?python ([\w./-]+\.py)", line) for line in lines]
        found += [one[1] for one in [*called, *scripts] if one]
        assert {one[1] for one in called if one} <= set(verbs), page
        assert all((ROOT / one[1]).exists() for one in scripts if one), page
    assert {"demo", "docs", "benchmarks/scale.py", "docs/gallery/strip.py"} <= set(found)


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


EQUATION = re.compile(r"\$\$.+?\$\$|\$[^$\s](?:[^$\n]*[^$\s])?\$(?!\w)", re.DOTALL)


def test_equations_reach_githubs_reader_as_they_are_written():
    """GitHub reads Markdown first: it would drop the backslash of a thin space, and take two
    underscores for emphasis."""
    found = 0
    for page in PAGES:
        for block in MarkdownIt("commonmark").enable("table").parse(page.read_text()):
            pieces = block.children or []
            if any("$" in piece.content for piece in pieces if piece.type.startswith("text")):
                written = EQUATION.findall(re.sub(r"`[^`]*`", "", block.content))
                read = "".join(it.content if it.type.startswith("text") else "<>" for it in pieces)
                assert EQUATION.findall(read) == written, f"{page}: {block.content}"
                assert "$" not in EQUATION.sub("", read), f"{page}: {block.content}"
                found += len(written)
    assert found > 200


GUIDES = ["../README.md", "index.md", "get-started.md", "faq.md", "gallery/README.md"]
GUIDES += [*(f"tutorials/{name}.md" for name in TUTORIALS), "tuning.md", "add-a-strategy.md"]
GUIDES += ["settings.md", "customise.md", "continue.md", "studies.md", "reports.md", "observers.md"]
GUIDES += ["visitation.md", "ray.md", "security.md", "tasks.md", "tasks/classic-control.md"]
GUIDES += ["tasks/mujoco.md", "tasks/dm_control.md", "tasks/mazes.md", "tasks/sparse-locomotion.md"]
GUIDES += ["algorithms/README.md", "strategies/README.md", "results/README.md"]


@pytest.mark.parametrize("page", GUIDES)
def test_a_newcomer_meets_no_word_that_is_not_explained(page):
    """A word of the glossary is in italics where it first occurs, and explained there."""
    glossary = (ROOT / "docs" / "glossary.md").read_text()
    words = re.findall(r"^\| (\w+)(?:, \w+ action)? \| ", glossary, re.MULTILINE)[1:]
    assert {"lane", "nudge", "study", "arm"} <= set(words)
    text = (ROOT / "docs" / page).read_text()
    for removed in (r"```.*?```", r"`[^`]*`", r"!?\[[^\]]*\]\([^)]*\)", r"^#[^\n]*$"):
        text = re.sub(removed, " ", text, flags=re.DOTALL | re.MULTILINE)
    for word in words:
        plural = f"{word[:-1]}(?:y|ies)" if word.endswith("y") else f"{word}s?"
        if first := re.search(rf"\S?\b{plural}\b.", text):
            assert first[0].startswith("*"), f"{page}: {word}"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_algorithms_page_names_every_strategy_that_it_goes_with(algorithm):
    page = (ROOT / "docs" / "algorithms" / f"{algorithm}.md").read_text()
    usage = page.split("## Usage")[1].split("\n## ")[0]
    linked = set(re.findall(r"\(\.\./strategies/(\w+)\.md\)", usage))
    assert linked == {strategy for name, strategy in config.pairs() if name == algorithm}


def test_functions_that_a_transition_passes_exist():
    """Each path of *Follow one transition* names at most ten, all defined in the package."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    section = page.split("## Follow one transition")[1].split("\n## ")[0]
    defined = set()
    for path in (ROOT / "discover_rl").rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                defined.add(node.name)
            elif isinstance(node, ast.ClassDef):
                names = [item.name for item in node.body if isinstance(item, ast.FunctionDef)]
                fields = [item.target for item in node.body if isinstance(item, ast.AnnAssign)]
                names += [field.id for field in fields if isinstance(field, ast.Name)]
                defined |= {f"{node.name}.{name}" for name in names}
    paths = re.split(r"^\*\*", section, flags=re.MULTILINE)[1:]
    assert len(paths) == 3
    for path in paths:
        steps = re.findall(r"^\d+\. `([\w.]+)`", path, re.MULTILINE)
        assert 5 < len(steps) == len(re.findall(r"^\d+\. ", path, re.MULTILINE)) <= 10
        assert set(steps) <= defined, set(steps) - defined
        assert not (set(re.findall(r"`([\w.]+)`", path)) - set(steps)) & defined, "more than ten"


def test_the_interfaces_are_those_of_the_code():
    """What the page lists of `Strategy`, `Nudge`, `View` and `Agent` is all they have."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    section = page.split("## The interfaces")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section.split("\n\n")[2], re.MULTILINE))
    assert set(rows) == set(Strategy._fields)
    for name, group in Strategy()._asdict().items():
        if hasattr(group, "_fields"):
            assert set(re.findall(r"`(\w+)`", rows[name])) == set(group._fields), name
    nudge = section.split("is a `Nudge`")[1].split("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", nudge)) == set(Nudge._fields)
    view = section.split("is a `View`")[1].split("Signatures and shapes")[0]
    assert set(re.findall(r"`(\w+)", view)) == {*View._fields, "net", "joint"}
    agent = section.split("are one `Agent`")[1].split("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", agent)) == {it for it in vars(Agent) if it[0] != "_"}


@pytest.mark.parametrize("parts", [off_policy_parts.Parts, on_policy_parts.Parts])
def test_parts_are_those_of_the_code(parts):
    page = (ROOT / "docs" / "architecture.md").read_text()
    module = parts.__module__.rpartition(".")[2]
    table = page.split(f"| `{module}.Parts` |")[1].split("\n\n")[0]
    firsts = re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)
    named = [name for first in firsts for name in re.findall(r"`(\w+)`", first)]
    assert sorted(named) == sorted(parts._fields)


@pytest.mark.parametrize("strategy", strategies.STRATEGIES)
def test_what_a_strategy_uses_is_what_it_fills_in(strategy):
    """The groups that the architecture's table names are those that differ from their defaults."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    row = re.search(rf"^\| \[{strategy}\].*$", page.split("## What each strategy")[1], re.MULTILINE)
    assert row, strategy
    groups = {"acting", "learning", "bonus", "density", "schedule", "network"}
    named = groups & set(re.findall(r"`(\w+)", row[0]))
    module, plain, used = strategies.load(strategy), Strategy(), set()
    for algorithm in (name for name, other in config.pairs() if other == strategy):
        hyper, own = cells.hypers(algorithm, strategy)
        blueprint = algorithms.load(algorithm).blueprint(cells.SPEC, hyper)
        made = module.make(cells.SPEC, own, blueprint)
        used |= {it for it in groups if getattr(made, it) != getattr(plain, it)}
    assert named == used


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
    monkeypatch.setitem(strategies.STRATEGIES, name, "the line in __init__.py")
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
