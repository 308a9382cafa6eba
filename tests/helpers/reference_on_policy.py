"""A2C and PPO once more, in float64 NumPy, gradients worked out by hand; see reference.py.

All that learns is one list of (weight, bias): the actor's layers, the critic's, and log σ, whose
"bias" is empty.
"""

import numpy as np

from tests.helpers.reference import Adam, backward, forward, layers


class RMSProp:
    def __init__(self, lr: float):
        self.lr, self.moments = lr, None

    def step(self, net: list, slopes: list) -> list:
        flat = [g for pair in slopes for g in pair]
        before = self.moments or [np.zeros_like(g) for g in flat]
        self.moments = [0.99 * v + 0.01 * g**2 for v, g in zip(before, flat, strict=True)]
        steps = [self.lr * g / (np.sqrt(v) + 1e-5) for g, v in zip(flat, self.moments, strict=True)]
        moved = [p - by for p, by in zip([p for pair in net for p in pair], steps, strict=True)]
        return list(zip(moved[::2], moved[1::2], strict=True))


def standard_score(advantage: np.ndarray) -> np.ndarray:
    return (advantage - advantage.mean()) / (advantage.std(ddof=1) + 1e-5)


class Reference:
    """One run, without a strategy. `clip` is PPO's ε; None makes it A2C."""

    def __init__(self, actor, critic, hp, lr: float, clip: float | None):
        plain = {name: layer for name, layer in actor.items() if name != "log_std"}
        self.actor, self.critic, self.hp, self.clip = layers(plain), layers(critic), hp, clip
        self.log_std = np.asarray(actor["log_std"]["value"], np.float64)
        self.optimiser = RMSProp(lr) if clip is None else Adam(lr, 1e-5)
        self.norms, self.cut_ratios, self.cut_values = [], 0, 0

    def values(self, obs) -> np.ndarray:
        return forward(self.critic, obs, tanh=True)[0][:, 0]

    def log_prob(self, obs, action) -> np.ndarray:
        noise = (action - forward(self.actor, obs, tanh=True)[0]) / np.exp(self.log_std)
        return (-0.5 * noise**2 - self.log_std - 0.5 * np.log(2 * np.pi)).sum(1)

    def learn(self, rollout, batches) -> None:
        """`batches` are indices into the flat rollout."""
        steps, envs = rollout.reward.shape
        flat = {
            name: np.asarray(value, np.float64).reshape(steps * envs, *value.shape[2:])
            for name, value in rollout._asdict().items()
            if name != "memory"
        }
        value, bootstrap = self.values(flat["obs"]), self.values(flat["next_obs"])
        advantage, later = np.zeros((steps, envs)), np.zeros(envs)
        delta = flat["reward"] + self.hp.gamma * (1 - flat["terminated"]) * bootstrap - value
        for t in reversed(range(steps)):
            carried = np.where(rollout.ended[t], 0.0, later)
            later = delta.reshape(steps, envs)[t] + self.hp.gamma * self.hp.gae_lambda * carried
            advantage[t] = later
        advantage = advantage.ravel()
        target = advantage + value
        if self.hp.normalise_advantages == "rollout":
            advantage = standard_score(advantage)
        old = self.log_prob(flat["obs"], flat["action"])
        for which in batches:
            seen = advantage[which]
            if self.hp.normalise_advantages == "minibatch":
                seen = standard_score(seen)
            data = flat["obs"], flat["action"], old, value
            self.step(*(column[which] for column in data), seen, target[which])

    def step(self, obs, action, old, old_value, advantage, target) -> None:
        n = len(obs)
        mean, actor_inputs = forward(self.actor, obs, tanh=True)
        value, critic_inputs = forward(self.critic, obs, tanh=True)
        value = value[:, 0]
        slope = -advantage / n  # of the policy's loss in log π
        error = 2 * (value - target) / n  # of the value's loss in V
        if self.clip is not None:
            ratio = np.exp(self.log_prob(obs, action) - old)
            cut = np.clip(ratio, 1 - self.clip, 1 + self.clip)
            bound = cut * advantage < ratio * advantage
            slope = np.where(bound, 0.0, slope * ratio)
            near = old_value + np.clip(value - old_value, -self.clip, self.clip)
            stuck = (near - target) ** 2 > (value - target) ** 2  # there, near does not move
            error = np.where(stuck, 0.0, (value - target) / n)
            self.cut_ratios += bound.sum()
            self.cut_values += stuck.sum()
        noise = (action - mean) / np.exp(self.log_std)
        actor, _ = backward(
            self.actor, actor_inputs, slope[:, None] * noise / np.exp(self.log_std), tanh=True
        )
        critic, _ = backward(
            self.critic, critic_inputs, self.hp.value_weight * error[:, None], tanh=True
        )
        log_std = (slope[:, None] * (noise**2 - 1)).sum(0) - self.hp.entropy_weight
        slopes = [*actor, *critic, (log_std, np.zeros(0))]
        norm = np.sqrt(sum((g**2).sum() for pair in slopes for g in pair))
        self.norms.append(norm)
        shrink = min(1.0, self.hp.max_grad_norm / norm)
        slopes = [(weight * shrink, bias * shrink) for weight, bias in slopes]
        params = [*self.actor, *self.critic, (self.log_std, np.zeros(0))]
        *moved, (self.log_std, _) = self.optimiser.step(params, slopes)
        self.actor, self.critic = moved[: len(self.actor)], moved[len(self.actor) :]
