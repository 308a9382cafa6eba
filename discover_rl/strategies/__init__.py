"""The strategies, by name. A member is a module with `Hyper` and `make`."""

STRATEGIES = {
    "none": "nothing added: what the policy does by itself",
    "gaussian": "white noise on the action",
    "ou": "Ornstein–Uhlenbeck noise on the action, with a memory",
    "discover": "a learned direction towards large TD error",
}
