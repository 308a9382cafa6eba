"""Programs: compiled before they are needed, and kept where the user's caches are."""

import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from discover_rl.agents.off_policy import agent as agents
from discover_rl.system import compilation, hardware
from tests import conftest
from tests.helpers import cells

SEEDS = [5, 1]


@pytest.mark.parametrize(("algorithm", "strategy"), [("td3", "discover"), ("ddpg", "meta")])
def test_what_is_needed_is_prepared(monkeypatch, algorithm, strategy):
    prepared = []
    monkeypatch.setattr(agents, "compile_all", prepared.extend)
    agent = cells.build(algorithm, strategy)
    state = cells.begin(agent, SEEDS, *cells.hypers(algorithm, strategy))
    vector, step = cells.Answers(SEEDS), 0
    agent.prepare(state, vector, step)
    known = agent._learn.cache_info().currsize
    others = 2 if agent.waits else 3  # to report, to act and, where nothing is learned, to store
    assert len(prepared) == known + others > 3
    while step < agents.CHUNK:
        state, step, _ = agent.advance(state, vector, np.ones(2, bool), step, agents.CHUNK)
    assert agent._learn.cache_info().currsize == known


def test_calls_find_what_was_compiled(caplog):
    program = jax.jit(lambda x: jnp.sin(x) + 1)
    compilation.compile_all([program.lower(jax.ShapeDtypeStruct((3,), jnp.float32))])
    given = jnp.zeros(3, jnp.float32)
    with jax.log_compiles():
        assert program(given).tolist() == [1.0, 1.0, 1.0]
    assert "XLA compilation" not in caplog.text
    with jax.log_compiles():
        program(jnp.zeros(4, jnp.float32))
    assert "XLA compilation" in caplog.text


@pytest.fixture
def no_cache_chosen(monkeypatch, tmp_path):
    """As if the user had not said where programs are kept; the user's folder of caches."""
    before = jax.config.values["jax_compilation_cache_dir"]
    monkeypatch.delenv(compilation.CACHE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    jax.config.update("jax_compilation_cache_dir", None)
    yield tmp_path
    jax.config.update("jax_compilation_cache_dir", before)


def test_programs_are_kept_in_the_users_cache(no_cache_chosen):
    compilation.use_cache()
    folder = str(no_cache_chosen / "discover_rl" / f"programs-{hardware.processor_kind()}")
    assert jax.config.values["jax_compilation_cache_dir"] == os.environ[compilation.CACHE] == folder


def test_what_the_user_chose_stands(no_cache_chosen, monkeypatch):
    monkeypatch.setenv(compilation.CACHE, "")
    compilation.use_cache()
    assert jax.config.values["jax_compilation_cache_dir"] is None
    monkeypatch.delenv(compilation.CACHE)
    jax.config.update("jax_compilation_cache_dir", str(no_cache_chosen / "mine"))
    compilation.use_cache()
    assert jax.config.values["jax_compilation_cache_dir"] == str(no_cache_chosen / "mine")
    assert compilation.CACHE not in os.environ


def test_the_programs_of_tests_are_where_nobody_else_can_put_some():
    folder = conftest.PROGRAMS
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(folder)
    assert folder.parent == conftest.CACHE
    assert conftest.CACHE.parent in (
        Path.home() / ".cache",
        Path(os.environ.get("XDG_CACHE_HOME", "/nowhere")),
    )
    assert folder.stat().st_mode & 0o022 == 0
