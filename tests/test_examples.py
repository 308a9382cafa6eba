"""The scripts in examples/ run, and do what they say."""

import doctest
import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import discover_rl
from discover_rl.core.types import PolicyHead, Spec
from discover_rl.storage.policies import Policy

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def example(monkeypatch):
    """Import an example by its name."""

    def load(name: str):
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return load


def test_a_policy_is_played_without_jax(tmp_path):
    net = {"head": {"weight": np.ones((3, 1), np.float32), "bias": np.zeros(1, np.float32)}}
    policy = Policy(net, Spec((3,), (1,), (-2.0,), (2.0,)), PolicyHead(), {"task": "Pendulum-v1"})
    for name, content in policy.to_bytes().items():
        (tmp_path / name).write_bytes(content)
    command = [sys.executable, str(EXAMPLES / "policy_without_jax.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.startswith("Return: -"), done.stderr
    nothing = subprocess.run(command[:2], capture_output=True, text=True)
    assert nothing.stderr.startswith("Which policy?")


@pytest.mark.slow
def test_an_environment_of_ones_own(example, tmp_path, capsys):
    example("own_environment").main(steps=300, out=str(tmp_path))
    assert "At 0.5 the policy walks " in capsys.readouterr().out


@pytest.mark.slow
def test_a_strategy_of_ones_own(example, tmp_path, capsys):
    example("own_strategy").main(steps=1100, out=str(tmp_path))
    printed = capsys.readouterr().out
    assert printed.count("Result(Pendulum-v1 td3 push seed 0") == 2


@pytest.mark.slow
def test_an_observer_that_ends_runs(example, tmp_path):
    ended = example("early_stop").main(limit=-1e9, steps=2200, out=str(tmp_path))
    assert ended == {"seed-0": 1000, "seed-1": 1000}


@pytest.mark.slow
def test_a_study_from_python(example, tmp_path):
    means = example("study_from_python").main(steps=1100, out=str(tmp_path))
    assert list(means) == ["none", "gaussian", "pink"]
    assert all(mean < 0 for mean in means.values())


@pytest.mark.slow
@pytest.mark.parametrize("names", [("train", "load_policy", "load_run"), ("tune",)])
def test_examples_in_docstrings_that_train(names, tmp_path, monkeypatch):
    """They are left out where docstrings are tested; here they train for fewer steps."""
    monkeypatch.chdir(tmp_path)
    text = "\n\n".join(inspect.getdoc(getattr(discover_rl, name)) for name in names)
    assert text.count("# doctest: +SKIP") >= 2 * len(names)
    text = text.replace("# doctest: +SKIP", "")
    text = re.sub(r"seeds=\d+", "seeds=1", text)
    text = re.sub(r"steps=\d+_000", "steps=300, hidden='8,8', warmup=100, processes=1", text)
    text = text.replace('{"strategy.lam": (0, 1)}', '{"strategy.lam": (0, 1)}, trials=2')
    known = {name: getattr(discover_rl, name) for name in names}
    found = doctest.DocTestParser().get_doctest(text, known, "docstrings", None, None)
    assert len(found.examples) >= 3
    for it in found.examples:  # what they print on the way is not compared
        if it.want:
            assert repr(eval(it.source, known)) == it.want.strip()
        else:
            exec(it.source, known)
