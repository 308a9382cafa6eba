"""The algorithms and DISCOVER once more, in float64 NumPy, gradients worked out by hand.

Written from the equations, not from the package: it shares no code with it, so that a test can hold
one against the other. Parameters are lists of (weight, bias); the twin critics are two such lists.
"""

import numpy as np


def layers(net) -> list:
    """A network of the package as a list of (weight, bias) in float64."""
    names = [f"layer{i}" for i in range(len(net) - 1)] + ["head"]
    parts = ("weight", "bias")
    return [tuple(np.asarray(net[name][part], np.float64) for part in parts) for name in names]


def forward(
    net: list, x: np.ndarray, late: np.ndarray | None = None, tanh: bool = False
) -> tuple[np.ndarray, list]:
    """Outputs, and the inputs of every layer for the way back; `late` joins at the second."""
    inputs = []
    for i, (weight, bias) in enumerate(net):
        if i == 1 and late is not None:
            x = np.hstack([x, late])
        inputs.append(x)
        x = x @ weight + bias
        if i < len(net) - 1:
            x = np.tanh(x) if tanh else np.where(x > 0, x, 0)
    return x, inputs


def backward(
    net: list, inputs: list, slope: np.ndarray, late: int = 0, tanh: bool = False
) -> tuple[list, np.ndarray]:
    """From the loss's slope in the outputs: its slopes in the parameters, and in the input.

    With `late` inputs at the second layer, the slope in these instead.
    """
    slopes, joined = [], None
    for i in reversed(range(len(net))):
        slopes.append((inputs[i].T @ slope, slope.sum(0)))
        slope = slope @ net[i][0].T
        below = inputs[i]
        if i == 1 and late:
            slope, joined = slope[:, :-late], slope[:, -late:]
            below = below[:, :-late]
        if i > 0:
            slope = slope * (1 - below**2 if tanh else below > 0)
    return slopes[::-1], slope if joined is None else joined


class Adam:
    def __init__(self, lr: float, epsilon: float = 1e-8):
        self.lr, self.epsilon, self.t, self.moments = lr, epsilon, 0, None

    def step(self, net: list, slopes: list) -> list:
        flat = [g for pair in slopes for g in pair]
        if self.moments is None:
            self.moments = [(np.zeros_like(g), np.zeros_like(g)) for g in flat]
        self.t += 1
        moved = []
        for i, (value, g) in enumerate(zip([p for pair in net for p in pair], flat, strict=True)):
            m, v = self.moments[i]
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
            self.moments[i] = m, v
            unbiased = m / (1 - 0.9**self.t), v / (1 - 0.999**self.t)
            moved.append(value - self.lr * unbiased[0] / (np.sqrt(unbiased[1]) + self.epsilon))
        return list(zip(moved[::2], moved[1::2], strict=True))


def q(critic: list, obs: np.ndarray, action: np.ndarray) -> np.ndarray:
    return forward(critic, np.hstack([obs, action]))[0][:, 0]


def q_slopes(critic: list, obs, action, slope) -> tuple[list, np.ndarray]:
    """Slopes in the critic's parameters and in the action, for a loss with this slope in Q."""
    _, inputs = forward(critic, np.hstack([obs, action]))
    parameters, both = backward(critic, inputs, slope[:, None])
    return parameters, both[:, obs.shape[1] :]


def tanh_slopes(net: list, obs, slope) -> list:
    """Slopes in the parameters of a tanh network, for a loss with this slope in its output."""
    outputs, inputs = forward(net, obs)
    return backward(net, inputs, slope * (1 - np.tanh(outputs) ** 2))[0]


def squashed(mean, log_std, noise) -> tuple[np.ndarray, np.ndarray]:
    """SAC's sample before squashing, and the logarithm of the sample's density."""
    raw = mean + np.exp(log_std) * noise
    normal = -0.5 * noise**2 - log_std - 0.5 * np.log(2 * np.pi)
    return raw, (normal - np.log1p(-(np.tanh(raw) ** 2))).sum(1)


class Reference:
    """One lane of TD3, greedy or with DISCOVER."""

    def __init__(self, actor, critics, explorer=None, *, gamma, tau, actor_lr, critic_lr, lam=0.0):
        self.actor, self.critics, self.explorer = actor, critics, explorer
        self.targets = actor, list(critics), explorer
        self.gamma, self.tau, self.lam = gamma, tau, lam
        self.actor_adam, self.explorer_adam = Adam(actor_lr), Adam(actor_lr)
        # One optimiser for each critic is the same as one for both: Adam works element by element.
        self.critic_adams = [Adam(critic_lr), Adam(critic_lr)]

    def target(self, batch, smoothing) -> np.ndarray:
        """`smoothing` is TD3's noise, or None with DISCOVER."""
        actor, critics, explorer = self.targets
        action = np.tanh(forward(actor, batch.next_obs)[0])
        if smoothing is None:
            action = action + self.lam * np.tanh(forward(explorer, batch.next_obs)[0])
        else:
            action = action + smoothing
        action = np.clip(action, -1, 1)
        value = np.minimum(*(q(critic, batch.next_obs, action) for critic in critics))
        return batch.reward + self.gamma * np.where(batch.terminated, 0.0, value)

    def explorer_error(self, batch, y) -> np.ndarray:
        action = batch.bare + self.lam * np.tanh(forward(self.explorer, batch.obs)[0])
        return sum((y - q(critic, batch.obs, action)) ** 2 for critic in self.critics)

    def update(self, batch, smoothing, actor: bool) -> dict[str, float]:
        n = len(batch.obs)
        y = self.target(batch, smoothing)
        losses = {"critic": 0.0, "actor": 0.0, "strategy": 0.0}
        for i, critic in enumerate(self.critics):
            error = q(critic, batch.obs, batch.executed) - y
            losses["critic"] += (error**2).mean()
            slopes, _ = q_slopes(critic, batch.obs, batch.executed, 2 * error / n)
            self.critics[i] = self.critic_adams[i].step(critic, slopes)
        if not actor:
            return losses
        action = np.tanh(forward(self.actor, batch.obs)[0])
        losses["actor"] = -q(self.critics[0], batch.obs, action).mean()
        _, slope = q_slopes(self.critics[0], batch.obs, action, np.full(n, -1 / n))
        self.actor = self.actor_adam.step(self.actor, tanh_slopes(self.actor, batch.obs, slope))
        if self.explorer is not None:
            losses["strategy"] = -self.explorer_error(batch, y).mean()
            action = batch.bare + self.lam * np.tanh(forward(self.explorer, batch.obs)[0])
            slope = 0.0
            for critic in self.critics:
                # d/dQ of −(y − Q)² / n
                upward = 2 * (y - q(critic, batch.obs, action)) / n
                slope = slope + q_slopes(critic, batch.obs, action, upward)[1]
            slopes = tanh_slopes(self.explorer, batch.obs, self.lam * slope)
            self.explorer = self.explorer_adam.step(self.explorer, slopes)
        old_actor, old_critics, old_explorer = self.targets
        self.targets = (
            self.follow(self.actor, old_actor),
            [self.follow(*pair) for pair in zip(self.critics, old_critics, strict=True)],
            self.follow(self.explorer, old_explorer) if self.explorer is not None else None,
        )
        return losses

    def follow(self, online: list, target: list) -> list:
        mix = lambda new, old: self.tau * new + (1 - self.tau) * old  # noqa: E731
        return [
            tuple(mix(a, b) for a, b in zip(new, old, strict=True))
            for new, old in zip(online, target, strict=True)
        ]
