"""Agents that learn from rollouts of their present policy: A2C and PPO.

`agent` acts on the host and learns by a compiled program, `rollout_buffer` holds what it did,
`noise` the random numbers of a rollout, `memories` what the strategy remembers of episodes.
"""
