"""The algorithms, by name. A member is a module with `Hyper`, `blueprint` and `make`."""

ALGORITHMS = {
    "a2c": "advantage actor-critic (on-policy)",
    "ddpg": "deep deterministic policy gradient (off-policy)",
    "ppo": "proximal policy optimisation (on-policy)",
    "sac": "soft actor-critic with learned temperature (off-policy)",
    "td3": "twin delayed DDPG (off-policy)",
}

ON_POLICY = ("a2c", "ppo")
"""Those that learn from whole rollouts."""
