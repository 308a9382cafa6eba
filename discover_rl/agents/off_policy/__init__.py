"""Agents that learn from a replay buffer on the device: DDPG, TD3 and SAC.

`step` says in which order things happen in one environment step. `agent` makes them step by step,
`fused_loop` many in one program. `lane` is what happens in one lane, `schedule` which updates
follow a step, `transfer` and `packing` how data get to the device and back.
"""
