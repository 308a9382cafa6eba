"""Programs: compiled before they are needed, and kept where the user's caches are."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from discover_rl import agent as agents
from discover_rl import machine, programs
from tests import cells

SEEDS = [5, 1]


@pytest.mark.parametrize(("algorithm", "strategy"), [("td3", "discover"), ("ddpg", "meta")])
def test_what_is_needed_is_prepared(monkeypatch, algorithm, strategy):
    prepared = []
    monkeypatch.setattr(agents, "compile_all", prepared.extend)
    agent = cells.build(algorithm, strategy)
    state = cells.begin(agent, SEEDS, *cells.hypers(algorithm, strategy))
    lanes, step = cells.Answers(SEEDS), 0
    agent.prepare(state, lanes, step)
    known = agent._learns.cache_info().currsize
    others = 1 if agent.listens else 2  # to meet and, without learning, to take in
    assert len(prepared) == known + others > 3
    while step < agents.CHUNK:
        state, step, _ = agent.advance(state, lanes, np.ones(2, bool), step, agents.CHUNK)
    assert agent._learns.cache_info().currsize == known


def test_calls_find_what_was_compiled(caplog):
    program = jax.jit(lambda x: jnp.sin(x) + 1)
    programs.compile_all([program.lower(jax.ShapeDtypeStruct((3,), jnp.float32))])
    given = jnp.zeros(3, jnp.float32)
    with jax.log_compiles():
        assert program(given).tolist() == [1.0, 1.0, 1.0]
    assert "XLA compilation" not in caplog.text
    with jax.log_compiles():
        program(jnp.zeros(4, jnp.float32))
    assert "XLA compilation" in caplog.text


@pytest.fixture
def unset(monkeypatch, tmp_path):
    """As if nobody had said where programs are kept."""
    before = jax.config.values["jax_compilation_cache_dir"]
    monkeypatch.delenv(programs.CACHE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    jax.config.update("jax_compilation_cache_dir", None)
    yield tmp_path
    jax.config.update("jax_compilation_cache_dir", before)


def test_programs_are_kept_in_the_users_cache(unset):
    programs.keep()
    folder = str(unset / "discover_rl" / f"programs-{machine.kind()}")
    assert jax.config.values["jax_compilation_cache_dir"] == os.environ[programs.CACHE] == folder


def test_what_the_user_said_stands(unset, monkeypatch):
    monkeypatch.setenv(programs.CACHE, "")
    programs.keep()
    assert jax.config.values["jax_compilation_cache_dir"] is None
    monkeypatch.delenv(programs.CACHE)
    jax.config.update("jax_compilation_cache_dir", str(unset / "mine"))
    programs.keep()
    assert jax.config.values["jax_compilation_cache_dir"] == str(unset / "mine")
    assert programs.CACHE not in os.environ
