"""Deep deterministic policy gradient (Lillicrap et al., 2016), with room for a strategy.

    observe:  s ← (s − mean) / deviation of all observations acted upon so far
    act:      a = π(s)
    critic:   y = r + γ (1 − d) Q′(s′, clip(π′(s′) + the strategy's shift))            target
              descend (y − Q(s, ã))² + decay of the critic's weights
    actor:    ascend Q(s, π(s))                                                   actor_loss
    targets:  those of actor, critic and strategy follow

The action enters the critic at its second hidden layer. What surrounds this is in off_policy.py.
"""

from __future__ import annotations

from typing import Any

import optax

from discover_rl.algorithms import off_policy, off_policy_parts
from discover_rl.algorithms.interface import OffPolicyAlgorithm
from discover_rl.algorithms.off_policy_parts import (
    Parts,
    State,
    activation,
    blueprint,
    clip,
    policy,
)
from discover_rl.core import networks
from discover_rl.core.equations import td_target
from discover_rl.core.hyperparameters import hyper, setting
from discover_rl.core.types import Array, Batch, CriticHead, Key, Net, Nudge, Optimiser, Spec
from discover_rl.strategies.interface import Strategy

__all__ = ["Hyper", "blueprint", "make"]


@hyper
class Hyper(off_policy_parts.Hyper):
    """Hyper-parameters of DDPG."""

    tau = 0.001
    actor_lr = 1e-4
    critic_lr = 1e-3
    batch_size = 64
    hidden = (400, 300)
    weight_decay: float = setting(
        0.01, "L2 penalty on the critic's parameters, added to their gradients.", low=0, high=1
    )
    normalise: bool = setting(True, "Standardise observations by their running statistics.")
    clip_target: bool = setting(True, "Keep target actions in the box (off: as the authors do).")


def q_value(critic: Net, obs: Array, action: Array) -> Array:
    """(n, observation), (n, action) → (critics, n); the action joins at the second layer."""
    return networks.apply(critic, obs, late=action)[..., 0]


def critic_optimiser(hp: Hyper) -> Optimiser:
    """Adam on gradients with an L2 penalty."""
    # The penalty joins the gradient before Adam scales it, as in PyTorch's Adam; not AdamW.
    return optax.chain(optax.add_decayed_weights(hp.weight_decay), optax.adam(hp.critic_lr))


def make(spec: Spec, settings: Hyper, strategy: Strategy) -> OffPolicyAlgorithm:
    """DDPG on tasks with these spaces, exploring by this strategy."""

    def critic(key: Key) -> Net:
        return networks.init(
            key,
            inputs=spec.observation_size,
            hidden=settings.hidden,
            outputs=1,
            layer_norm=settings.layer_norm in ("critic", "both"),
            late=spec.action_size,
            activation=activation(settings),
        )

    def target(state: State, nudge: Nudge, batch: Batch, key: Key) -> Array:
        del key
        action = policy(nudge, batch.next_obs)
        if settings.clip_target:
            action = clip(action)
        value = q_value(state.target_critics, batch.next_obs, action)[0]
        return td_target(batch.reward, batch.terminated, value, state.hyper.gamma)

    def actor_loss(state: State, nudge: Nudge, obs: Array, key: Key) -> tuple[Array, Any]:
        del key
        return -q_value(state.critics, obs, policy(nudge, obs)).mean(), ()

    parts = Parts(
        critic=critic,
        target=target,
        actor_loss=actor_loss,
        critics=1,
        q=q_value,
        critic_head=CriticHead(action="second layer"),
        critic_optimiser=critic_optimiser,
        normalise=settings.normalise,
    )
    return off_policy.make(spec, settings, strategy, parts)
