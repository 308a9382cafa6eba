"""Rings of several environments, against the single ring of each and a plain list of all."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from discover_rl.core import replay_buffer, replay_rings
from discover_rl.core.types import Action, Transition
from tests.core.test_replay_buffer import observation

enter, insert = jax.jit(replay_rings.enter), jax.jit(replay_rings.insert)
insert_one = jax.jit(replay_buffer.insert)


def filled(capacity: int, ends: Sequence[Sequence[bool]]):
    """Insert a transition into every ring per entry of `ends`, which says whose episodes end; the
    rings, and each of them as it would be alone."""
    count = len(ends[0])
    first = np.stack([observation(100 * ring, 0) for ring in range(count)])
    rings = enter(replay_rings.init(count, capacity, 2, 1), first, np.ones(count, bool))
    alone = [
        replay_buffer.enter(replay_buffer.init(capacity, 2, 1), obs, np.True_) for obs in first
    ]
    episode, t = [100 * ring for ring in range(count)], [0] * count
    for i, over in enumerate(ends):
        next_obs = [observation(episode[ring], t[ring] + 1) for ring in range(count)]
        for ring in range(count):
            episode[ring] += over[ring]
            t[ring] = 0 if over[ring] else t[ring] + 1
        obs = [observation(episode[ring], t[ring]) for ring in range(count)]
        number = np.asarray([[1000 * ring + i] for ring in range(count)], np.float32)
        action, ended = Action(number, -number), np.asarray(over)
        answer = Transition(number[:, 0], ended, ended, np.stack(next_obs), np.stack(obs))
        rings = insert(rings, action, answer)
        for ring in range(count):
            own = jax.tree.map(lambda leaf, ring=ring: leaf[ring], (action, answer))
            alone[ring] = insert_one(alone[ring], *own)
    return rings, alone


@pytest.mark.parametrize(("capacity", "share"), [(1, 0.3), (7, 0.1), (32, 0.5)])
def test_each_ring_is_that_of_its_environment_alone(capacity, share):
    """Episodes end at random, so that rows of one ring run out before those of the other."""
    ends = np.random.default_rng(0).random((50, 2)) < [share, share / 4]
    rings, alone = filled(capacity, ends.tolist())
    for number, one in enumerate(alone):
        own = jax.tree.map(lambda leaf, number=number: leaf[number], rings)
        jax.tree.map(np.testing.assert_array_equal, own, one)
        which = jnp.arange(int(one.oldest), int(one.inserted))
        taken = replay_rings.take(rings, jnp.full(len(which), number), which)
        jax.tree.map(np.testing.assert_array_equal, taken, replay_buffer.take(one, which))


def test_every_transition_of_every_ring_is_as_likely():
    """Short episodes have cost the second ring some of its transitions, and it is drawn less."""
    rings, _ = filled(16, [(False, i % 2 == 1) for i in range(50)])
    held = np.asarray(rings.inserted - rings.oldest)
    assert held[0] == 16
    assert held[1] < 16
    draws = 1000 * held.sum()
    found = np.asarray(replay_rings.sample(rings, jax.random.key(0), int(draws)).reward)
    numbers, counts = np.unique(found, return_counts=True)
    oldest = np.asarray(rings.oldest)
    np.testing.assert_array_equal(numbers, [*range(oldest[0], 50), *range(1000 + oldest[1], 1050)])
    # 1,000 expected each; the standard deviation is 31.
    assert np.abs(counts - 1000).max() < 160


def test_sampling_can_be_kept_to_the_newest_of_each():
    rings, _ = filled(16, [(False, False)] * 50)
    found = replay_rings.sample(rings, jax.random.key(0), 1000, recent=5).reward
    assert set(np.asarray(found).tolist()) == {47, 48, 49, 1047, 1048, 1049}


def test_an_empty_ring_is_not_sampled_from():
    rings, _ = filled(16, [(False, False)] * 5)
    for empty in range(2):
        emptied = rings._replace(inserted=rings.inserted.at[empty].set(0))
        found = np.asarray(replay_rings.sample(emptied, jax.random.key(0), 200).reward)
        assert set((found // 1000).tolist()) == {1 - empty}
