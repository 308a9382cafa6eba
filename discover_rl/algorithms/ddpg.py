"""Deep deterministic policy gradient (Lillicrap et al., 2016), with room for a strategy.

    observe:  s ← (s − mean) / deviation of all observations acted upon so far
    act:      a = π(s)
    critic:   y = r + γ (1 − d) Q′(s′, clip(π′(s′) + the strategy's shift))            target
              descend (y − Q(s, ã))² + decay of the critic's weights
    actor:    ascend Q(s, π(s))                                                   actor_loss
    targets:  actor, critic and the strategy's own follow

The action enters the critic at its second hidden layer. What surrounds this is in offpolicy.py.
"""

from __future__ import annotations

from typing import Any

import optax

from discover_rl import networks
from discover_rl.algorithms import core, offpolicy
from discover_rl.algorithms.core import Core, State, blueprint, clip, policy
from discover_rl.equations import td_target
from discover_rl.hyper import hyper, setting
from discover_rl.interfaces import Algorithm, Strategy
from discover_rl.types import Array, Batch, Net, Nudge, Optimiser, Spec

__all__ = ["Hyper", "blueprint", "make"]


@hyper
class Hyper(core.Hyper):
    tau = 0.001
    actor_lr = 1e-4
    critic_lr = 1e-3
    batch_size = 64
    hidden = (400, 300)
    weight_decay: float = setting(
        0.01, "L2 penalty on the critic's parameters, added to their gradients.", low=0
    )
    normalise: bool = setting(True, "Standardise observations by their running statistics.")
    clip_target: bool = setting(True, "Keep target actions in the box (off: as the authors do).")


def q_value(critic: Net, obs: Array, action: Array) -> Array:
    """(n, observation), (n, action) → (critics, n); the action joins at the second layer."""
    return networks.apply(critic, obs, late=action)[..., 0]


def critic_optimiser(hp: Hyper) -> Optimiser:
    # The penalty joins the gradient before Adam scales it, as in PyTorch's Adam; not AdamW.
    return optax.chain(optax.add_decayed_weights(hp.weight_decay), optax.adam(hp.critic_lr))


def make(spec: Spec, settings: Hyper, strategy: Strategy) -> Algorithm:
    def critic(key: Any) -> Net:
        return networks.init(key, spec.observation_size, settings.hidden, 1, late=spec.action_size)

    def target(state: State, nudge: Nudge, batch: Batch, key: Any) -> Array:
        del key
        action = policy(nudge, batch.next_obs)
        if settings.clip_target:
            action = clip(action)
        value = q_value(state.target_critics, batch.next_obs, action)[0]
        return td_target(batch.reward, batch.terminated, value, state.hyper.gamma)

    def actor_loss(state: State, nudge: Nudge, obs: Array, key: Any) -> tuple[Array, Any]:
        del key
        return -q_value(state.critics, obs, policy(nudge, obs)).mean(), ()

    parts = Core(
        critic,
        target,
        actor_loss,
        critics=1,
        q=q_value,
        critic_optimiser=critic_optimiser,
        normalise=settings.normalise,
    )
    return offpolicy.make(spec, settings, strategy, parts)
