"""The algorithms, by name. A member is a module with `Hyper`, `blueprint` and `make`."""

ALGORITHMS = {
    "td3": "twin delayed DDPG (off-policy)",
}
