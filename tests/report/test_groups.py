"""Groups of a report: panels, lines, and which line is the baseline."""

import pytest

from discover_rl.report import bands, data, groups, learning_curves, summary, tables
from tests.helpers.records import analysed, declare, write_records

TWO = {"task": "Hopper-v5", "algorithm": "td3", "strategy": ["gaussian", "discover"]}


@pytest.mark.parametrize(
    ("algorithm", "strategies", "base"),
    [
        ("td3", ["none", "discover", "gaussian"], "gaussian"),
        ("td3", ["discover", "none"], "none"),
        ("ppo", ["gaussian", "discover", "none"], "none"),
        ("td3", ["discover", "psne"], "discover"),
    ],
)
def test_the_baseline_is_named(tmp_path, algorithm, strategies, base):
    study = declare({"task": "My-v0", "algorithm": algorithm, "strategy": strategies})
    everything, (found,) = analysed(study, tmp_path)
    assert found.group.base == base
    assert f"compared with “{base}” (" in summary.text(everything, [found])


def test_ablations_have_a_line_for_each_value(tmp_path):
    grid = TWO | {"task": ["Hopper-v5", "My-v0"], "strategy": "discover"}
    study = declare(grid | {"strategy.lam": [0.0, 0.1, 0.3]})
    write_records(tmp_path, study)
    _, (found,) = analysed(study, tmp_path)
    assert found.group.labels == ["λ = 0.0", "λ = 0.1", "λ = 0.3"]
    table = tables.overview(found)
    assert table.head == ["setting", "Hopper-v5", "My-v0"]  # as in the paper's Table 1
    assert [row[0].text for row in table.rows] == found.group.labels
    assert r"$\lambda$ = 0.1" in tables.latex(table)
    several = declare(TWO | {"env.reward_delay": [1, 5]})
    names = [group.name for group in groups.groups(data.load(several, tmp_path))]
    assert names == ["td3", "td3-settings"]
    assert groups.slug("a:My-v0, λ = 0.1, γ = 1") == "a-My-v0-lam=0.1-gamma=1"
    assert all(learning_curves.grid(found.group, kind, {})["svg"] for kind in bands.BANDS)
