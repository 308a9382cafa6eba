"""Draw what scale.py measured: lane-steps per second and memory against lanes.

    python benchmarks/picture.py OUT.png SCALE.json …

A line for each file, of its HalfCheetah-v5 points with the largest replay; where some were measured
with the fused loop, one of these and one of the others.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def main() -> None:
    out, *files = sys.argv[1:]
    figure, (speed, memory) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for file in files:
        content = json.loads(Path(file).read_text())
        points = [it for it in content["measured"] if it["task"] == "HalfCheetah-v5"]
        largest = max(it["replay"] for it in points)
        points = sorted(
            (it for it in points if it["replay"] == largest), key=lambda it: it["lanes"]
        )
        where = content["machine"]
        label = f"{where['cores']} CPU cores" if where["device"] == "cpu" else where["device"]
        colours = []
        for how, fused in ((", fused loop", True), (", step by step", False)):
            # Files of 0.1.0 call it "flies", and those before it have neither.
            some = [it for it in points if it.get("fused", it.get("flies", False)) == fused]
            if some:
                pace = [it["lane_steps_per_second"] for it in some]
                (line,) = speed.plot([it["lanes"] for it in some], pace, "o-", label=label + how)
                colours.append(line.get_color())
        held = {it["lanes"]: it["state_gb"] for it in points}
        style = {"color": colours[0], "label": f"{label}, replays of {largest:,}"}
        memory.plot(list(held), list(held.values()), "o-", **style)
    speed.set(ylabel="lane-steps per second", title="TD3 + DISCOVER, HalfCheetah-v5")
    memory.set(ylabel="GB", title="State of lanes, replay included")
    for axes in (speed, memory):
        axes.set(xscale="log", yscale="log", xlabel="lanes")
        axes.grid(visible=True, which="both", alpha=0.3)
        axes.legend(loc="lower right", fontsize="small")
    figure.savefig(out, dpi=120)


if __name__ == "__main__":
    main()
