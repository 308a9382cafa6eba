"""The ring buffer, against a plain Python list that does the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discover_rl.core import replay_buffer
from discover_rl.core.types import Action, Transition

insert = jax.jit(replay_buffer.insert)


def observation(episode: int, t: int) -> np.ndarray:
    """An observation that names itself."""
    return np.asarray([episode, t], np.float32)


def filled(capacity: int, ends: list[str]):
    """Insert a transition per entry of `ends`; the buffer, and all transitions as a list."""
    buffer = replay_buffer.enter(replay_buffer.init(capacity, 2, 1), observation(0, 0), np.True_)
    episode, t, history = 0, 0, []
    for i, end in enumerate(ends):
        before, after = observation(episode, t), observation(episode, t + 1)
        episode, t = (episode + 1, 0) if end != "" else (episode, t + 1)
        action = Action(np.asarray([i], np.float32), np.asarray([-i], np.float32))
        ended = np.bool_(end != "")
        transition = Transition(
            np.float32(i), np.bool_(end == "terminated"), ended, after, observation(episode, t)
        )
        buffer = insert(buffer, action, transition)
        history.append((before, i, -i, i, end == "terminated", after))
    return buffer, history


ENDS = st.lists(st.sampled_from(["", "", "", "terminated", "truncated"]), min_size=1, max_size=80)


@settings(max_examples=40, deadline=None)
@given(ENDS, st.sampled_from([1, 7, 32, 40]))
def test_every_transition_that_is_kept_is_whole(ends, capacity):
    buffer, history = filled(capacity, ends)
    kept = np.arange(int(buffer.oldest), int(buffer.inserted))
    batch = jax.device_get(replay_buffer.take(buffer, jnp.asarray(kept)))
    for i, k in enumerate(kept):
        obs, bare, executed, reward, terminated, next_obs = history[k]
        np.testing.assert_array_equal(batch.obs[i], obs)
        np.testing.assert_array_equal(batch.next_obs[i], next_obs)
        assert batch.bare[i, 0] == bare
        assert batch.executed[i, 0] == executed
        assert batch.reward[i] == reward
        assert batch.terminated[i] == terminated


@settings(max_examples=40, deadline=None)
@given(ENDS, st.sampled_from([1, 7, 32, 40]))
def test_only_short_episodes_cost_capacity(ends, capacity):
    buffer, _ = filled(capacity, ends)
    kept = int(buffer.inserted - buffer.oldest)
    newest = ends[-capacity:]
    spare = replay_buffer.row_count(capacity) - capacity - 2
    ended = sum(end != "" for end in newest)
    assert kept >= min(len(newest), capacity - max(0, ended - spare))
    assert kept <= capacity


def test_sampling_is_uniform_over_what_is_kept():
    buffer, _ = filled(16, [""] * 50)
    draws = replay_buffer.sample(buffer, jax.random.key(0), 16_000).reward
    numbers, counts = np.unique(np.asarray(draws), return_counts=True)
    np.testing.assert_array_equal(numbers, np.arange(34, 50))
    # 1,000 expected each; the standard deviation is 31.
    assert np.abs(counts - 1000).max() < 160


def test_sampling_can_be_kept_to_the_newest():
    buffer, _ = filled(16, [""] * 50)
    draws = replay_buffer.sample(buffer, jax.random.key(0), 1000, recent=3).reward
    np.testing.assert_array_equal(np.unique(np.asarray(draws)), [47, 48, 49])


def test_a_lost_episode_leaves_no_transition_behind():
    buffer, _ = filled(16, [""] * 5)
    buffer = replay_buffer.enter(buffer, observation(9, 0), np.True_)
    kept = replay_buffer.enter(buffer, observation(7, 7), np.False_)
    for a, b in zip(buffer, kept, strict=True):
        np.testing.assert_array_equal(a, b)
    after = observation(9, 1)
    transition = Transition(np.float32(1), np.False_, np.False_, after, after)
    buffer = insert(buffer, Action(np.zeros(1, "f"), np.zeros(1, "f")), transition)
    last = replay_buffer.take(buffer, jnp.asarray([4, 5]))
    np.testing.assert_array_equal(last.obs, [[0, 4], [9, 0]])
    np.testing.assert_array_equal(last.next_obs, [[0, 5], [9, 1]])


@pytest.mark.parametrize(
    ("observation_size", "action_size", "limit"), [(17, 6, 150e6), (348, 17, 1.6e9)]
)
def test_memory_of_a_million_transitions(observation_size, action_size, limit):
    buffer = jax.eval_shape(lambda: replay_buffer.init(1_000_000, observation_size, action_size))
    assert sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(buffer)) <= limit
