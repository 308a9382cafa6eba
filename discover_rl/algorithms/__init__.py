"""The algorithms, by name. A member is a module with `Hyper`, `blueprint` and `make`."""

ALGORITHMS = {
    "ddpg": "deep deterministic policy gradient (off-policy)",
    "sac": "soft actor-critic with learned temperature (off-policy)",
    "td3": "twin delayed DDPG (off-policy)",
}
