"""Help: examples that parse, exit codes in one table, completion, and where numbers come from."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from discover_rl.cli import exit_codes
from discover_rl.cli.examples import EXAMPLES
from discover_rl.cli.main import app
from tests.test_documentation import ROOT, parsed

COMMANDS = typer.main.get_command(app).commands


def shown(*words: str, **variables: str) -> str:
    """What the command prints, in a wide terminal."""
    command = [sys.executable, "-m", "discover_rl", *words]
    given = os.environ | {"COLUMNS": "200", "TERMINAL_WIDTH": "200"} | variables
    done = subprocess.run(command, capture_output=True, text=True, env=given)
    assert not done.returncode, done.stderr
    return done.stdout


def listed(*words: str) -> dict[str, str]:
    """The lines of `discover list`, by the name of the setting."""
    lines = [line.split(maxsplit=1) for line in shown("list", *words).splitlines()]
    return {line[0]: line[1] for line in lines if len(line) == 2}


def test_every_command_has_two_examples_of_its_own_that_parse():
    assert set(EXAMPLES) == set(COMMANDS)
    for name, examples in EXAMPLES.items():
        assert len(examples) == 2
        for example in examples:
            assert len(example) < 79, example
            assert parsed(example)[0] == name
            assert example in COMMANDS[name].epilog


def test_a_paragraph_of_help_is_broken_by_the_terminal_alone():
    for command in COMMANDS.values():
        assert not re.search(r"[^\n]\n[^\n]", command.help), command.name
    paragraphs = COMMANDS["train"].help.split("\n\n")
    assert len(paragraphs) > 1
    assert all(paragraph in shown("train", "--help") for paragraph in paragraphs)


def test_flags_are_shown_without_a_value():
    for words in (["train"], ["plan"], ["run"], ["visitation"], ["evaluate"], ["theory"], []):
        said = [line for line in shown(*words, "--help").splitlines() if "<bool>" in line]
        assert all("--help" in line or "-completion" in line for line in said), said


def test_help_has_the_exit_codes_and_so_has_the_documentation():
    said = shown("--help")
    page = (ROOT / "docs" / "faq.md").read_text()
    for code, meaning in exit_codes.MEANINGS.items():
        assert f"{code}  {meaning}" in said
        assert f"| {code} | " in page
    assert "--install-completion" in said


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("discover train Pendulum-v1 --strategy p", {"pink", "psne"}),
        ("discover train Pendulum-v1 --algorithm s", {"sac"}),
        ("discover run explore-s", {"explore-sac", "explore-smoke"}),
        ("discover list s", {"sac", "see", "seek", "seek-suite", "smoke"}),
    ],
)
def test_names_are_completed(words, wanted, tmp_path):
    start = "import sys; sys.argv[0] = 'discover'; from discover_rl.cli import main; main()"
    variables = {
        "_DISCOVER_COMPLETE": "complete_bash",
        "COMP_WORDS": words.replace(" ", "\n"),
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    command = [sys.executable, "-c", start]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | variables)
    assert set(done.stdout.split()) == wanted, done.stderr


def test_a_task_shows_what_a_run_would_use_and_who_says_so():
    found = listed("Hopper-v5", "--algorithm", "td3", "--strategy", "gaussian")
    assert found["warmup"].startswith("25000       preset: DISCOVER paper, appendix")
    assert found["train_every"].endswith("default of td3")
    assert found["strategy.sigma"].endswith("default of gaussian")
    for name in ("eval.every", "metrics.every"):
        assert "by the length of the run" in found[name]
    assert found["score.last"].startswith(
        "0           by the number of evaluations: the last tenth"
    )
    assert "would use, for 1,000,000 steps" in found["discover"]


def test_a_task_is_listed_without_its_version_and_only_if_there_is_one():
    assert "discover train Pendulum-v1 --algorithm td3" in shown("list", "Pendulum")
    for name, said in (("Foo-v0", "There is no task Foo-v0."), ("Hopper-v2", "use Hopper-v5")):
        command = [sys.executable, "-m", "discover_rl", "list", name]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == exit_codes.USER_ERROR
        assert said in done.stderr


def test_values_that_differ_from_task_to_task_each_have_their_origin(tmp_path):
    path = Path(tmp_path / "mine.toml")
    path.write_text(
        'steps = 2000\n[grid]\ntask = ["Pendulum-v1", "Hopper-v5"]\nalgorithm = "td3"\n'
        'strategy = "none"\n'
    )
    lines = shown("list", str(path)).splitlines()
    (first,) = (number for number, line in enumerate(lines) if line.startswith("  warmup"))
    assert lines[first].split(maxsplit=1)[1] == "1000        default of td3"
    assert lines[first + 1].strip().startswith("25000       preset: DISCOVER paper")


def test_a_study_shows_what_its_runs_would_use_and_who_says_so():
    said = shown("list", "smoke")
    assert "  tasks: Pendulum-v1\n" in said
    assert "hidden                      64,64       the study\n" in said
    assert "discover: lam               0.3         default of discover\n" in said
    assert "ppo would use:" in said
    paper = shown("list", "paper-td3")
    assert "25000       preset: DISCOVER paper" in paper


def test_a_study_of_ones_own_is_listed_by_its_path(tmp_path):
    path = Path(tmp_path / "mine.toml")
    path.write_text(
        'steps = 2000\n[grid]\ntask = "Pendulum-v1"\nalgorithm = "td3"\nstrategy = "gaussian"\n'
        '"strategy.sigma" = [0.1, 0.2]\n'
    )
    assert "gaussian: sigma             0.1 or 0.2  the study\n" in shown("list", str(path))
