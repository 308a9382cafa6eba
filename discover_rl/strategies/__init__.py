"""The strategies, by name. A member is a module with `Hyper` and `make`."""

STRATEGIES = {
    "none": "no exploration of its own (greedy)",
    "gaussian": "white noise on the action",
    "discover": "a learned direction towards large TD error",
}
