"""Visitation: its numbers against what they must be, and the command."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from discover_rl import config
from discover_rl.analysis import visitation
from discover_rl.analysis.visitation import VisitedStates, coverage, figure, maps
from discover_rl.core.types import ReplayExport, UserError
from discover_rl.storage import records
from tests.cli.test_cli import discover
from tests.helpers.records import file_contents, write_whole

LENGTH, WARMUP = 600, 60


def replay(seed: int, length: int = LENGTH, centre=0.0, episode: int = 20) -> ReplayExport:
    """Normal states around a centre, in episodes."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=length).astype(np.float32)
    return ReplayExport(
        obs=(rng.normal(size=(length, 5)) + centre).astype(np.float32),
        executed=rng.uniform(-1, 1, (length, 2)).astype(np.float32),
        reward=numbers,
        terminated=np.zeros(length, bool),
        ended=np.arange(1, length + 1) % episode == 0,
        error=np.abs(numbers),
    )


def visited(*arguments, **settings) -> VisitedStates:
    """A run that visited these states."""
    return VisitedStates({"task": "Any-v0"}, 0, replay(*arguments, **settings))


def overlaps(*runs: VisitedStates, stage: str = "whole") -> tuple[float, float, float]:
    """Mean overlaps: between two runs, within the first, within the second."""
    found = visitation.measure(runs, 0)["stages"][stage]["overlap"]
    return (found["between"]["mean"], *(within["mean"] for within in found["within"]))


# Numbers


def test_overlap_is_that_of_shares():
    a, b = np.asarray([2, 1, 1, 0]), np.asarray([0, 1, 1, 6])
    assert coverage.overlap(a, b) == pytest.approx(0.25)
    assert coverage.overlap(a, 10 * a) == pytest.approx(1.0)
    assert coverage.overlap(a, np.asarray([0, 0, 0, 3])) == 0.0


def test_two_runs_of_one_distribution_overlap_as_halves_of_one_do():
    between, *within = overlaps(visited(0, 20_000), visited(1, 20_000))
    assert within == [pytest.approx(between, abs=0.02)] * 2
    assert 0.5 < between < 0.9  # even so it is not 1, with so many states in so many cubes


def test_runs_apart_do_not_overlap_and_runs_somewhat_apart_do_somewhat():
    near, *_ = overlaps(visited(0, 3000), visited(1, 3000, centre=1.0))
    same, *_ = overlaps(visited(0, 3000), visited(1, 3000))
    far, first, second = overlaps(visited(0, 3000), visited(1, 3000, centre=20.0))
    assert far == 0.0
    assert 0.1 < near < same - 0.1
    assert min(first, second) > 0.3


def test_stages_are_thirds_in_order_of_time():
    a, b = visited(0, 900), visited(1, 900)
    a.replay.obs[600:] += 30.0  # the last third is elsewhere
    found = {name: overlaps(a, b, stage=name)[0] for name in visitation.STAGES}
    assert found["late"] == 0.0
    assert min(found["early"], found["intermediate"]) > 0.1
    assert np.bincount(visitation.stage_of(900)).tolist() == [300] * 3


def test_coverage_counts_cubes():
    a, b = visited(0, 800), visited(1, 800)
    b.replay.obs[:] = b.replay.obs[0]  # stands still
    stages = visitation.measure((a, b), 0)["stages"]
    cubes = visitation.measure((a, b), 0)["cubes"]
    for stage in stages.values():
        assert stage["coverage"][1] == 1 / cubes
        assert stage["effective_cubes"][1] == pytest.approx(1.0)
        assert stage["effective_cubes"][0] <= stage["coverage"][0] * cubes + 1e-9
    assert stages["early"]["coverage"][0] < stages["whole"]["coverage"][0]
    assert stages["whole"]["coverage"][0] >= 1 - 1 / cubes


def test_halves_are_of_whole_episodes():
    """In four episodes of four places, the halves have nothing in common."""
    a, b = visited(0, 600, episode=150), visited(1, 600, episode=150)
    for run in (a, b):
        run.replay.obs[:] += 30.0 * (np.arange(600) // 150)[:, None]
    between, *within = overlaps(a, b)
    assert within == [0.0, 0.0]
    assert between > 0.1


@pytest.mark.parametrize("episode", [10**6, 300, 200])
def test_nothing_is_said_of_overlap_where_there_are_too_few_episodes_to_split(episode):
    many, few = visited(0, 600), visited(1, 600, episode=episode)
    found = visitation.measure((many, few), 0)["stages"]["whole"]
    assert found["overlap"]["between"] is None
    assert found["overlap"]["within"][0] is not None
    assert found["overlap"]["within"][1] is None
    assert found["coverage"][1] > 0
    assert found["episodes"] == [30, max(1, 600 // episode)]


def test_axes_of_their_own_hide_what_is_different():
    """Why numbers do not come from the axes of the figure: these runs stretch in different
    directions, and the direction of each is its own first axis."""
    a, b = visited(0, 4000), visited(1, 4000)
    for i, run in enumerate((a, b)):
        run.replay.obs[:, 2:] = 0.0
        run.replay.obs[:, i] *= 4
    measured = visitation.measure((a, b), 0)
    apart = measured["whole_on_axes_of_their_own"]["between"]["mean"]
    assert measured["stages"]["whole"]["overlap"]["between"]["mean"] < 0.6 < 0.8 < apart


def test_principal_axes_are_those_of_the_variance():
    rng = np.random.default_rng(0)
    states = rng.normal(size=(5000, 6)) * [5, 4, 3, 2, 0.5, 0] + 7
    axes = coverage.principal_axes(states)
    np.testing.assert_allclose(axes.directions, np.eye(6)[:, :4], atol=0.1)
    variance = states.var(axis=0)
    assert axes.explained == pytest.approx(variance[:4].sum() / variance.sum(), abs=1e-3)
    np.testing.assert_allclose(axes(states).mean(axis=0), 0, atol=1e-9)
    assert coverage.principal_axes(np.ones((5, 3))).explained == 1.0


def test_densities_have_a_mass_of_one_and_contours_enclose_their_shares():
    rng = np.random.default_rng(0)
    places = rng.normal(size=(4000, 2))
    grid = np.linspace(-5, 5, 120), np.linspace(-5, 5, 120)
    weights = np.where(places[:, 0] > 0, 3.0, 1.0)
    found = maps.density(places, weights, grid, maps.bandwidth(places))
    cell = (grid[0][1] - grid[0][0]) ** 2
    assert found.density.sum() * cell == pytest.approx(1.0, abs=0.01)
    (level,) = maps.enclosing(found.density, (0.5,))
    assert found.density[found.density >= level].sum() * cell == pytest.approx(0.5, abs=0.01)
    # Half of a normal plane lies within √(2 ln 2) deviations; kernels add a little.
    radius = np.sqrt((found.density >= level).sum() * cell / np.pi)
    assert radius == pytest.approx(np.sqrt(2 * np.log(2)), rel=0.08)
    assert found.mean[60, 100] == pytest.approx(3.0, abs=0.01)
    assert found.mean[60, 20] == pytest.approx(1.0, abs=0.01)


def test_a_map_is_of_a_seed_and_of_common_axes_if_asked(monkeypatch):
    monkeypatch.setattr(maps, "ITERATIONS", 5)
    runs = visited(0, 300), visited(1, 300, centre=2.0)
    made = maps.embed(runs, 40, 0, False)
    again, other = (maps.embed(runs, 40, seed, False) for seed in (0, 1))
    np.testing.assert_array_equal(made.places, again.places)
    assert (made.places[0] != other.places[0]).any()
    assert [len(array) for array in (*made.places, *made.picks)] == [40] * 4
    # On axes of its own each run is centred, so only common ones separate these two.
    common = maps.embed(runs, 40, 0, True)
    assert common.explained[0] == common.explained[1]
    gaps = [
        np.linalg.norm(np.subtract(*(places.mean(axis=0) for places in one.places)))
        for one in (made, common)
    ]
    spreads = [one.places[0].std() for one in (made, common)]
    assert gaps[0] / spreads[0] < 0.8 < 1.5 < gaps[1] / spreads[1]


def test_names_are_no_mathematics(monkeypatch):
    """Records of strangers may say anything, as what Matplotlib could not parse."""
    monkeypatch.setattr(maps, "ITERATIONS", 5)
    monkeypatch.setattr(figure, "GRID", 12)
    names = {"task": r"$\foo$", "algorithm": "\x1b[2J", "strategy": r"$\frac{$", "seed": 0}
    runs = [VisitedStates(names, 0, replay(seed, 60)) for seed in (0, 1)]
    drawn = figure.draw(runs, maps.embed(runs, 20, 0, False), False)["visitation.svg"]
    assert rb"\x1b[2J + $\frac{$, seed 0" in drawn.replace(rb"\$", b"$")


# Loading


def save_run(folder: Path, seed: int = 0, done: bool = True, **request) -> Path:
    """Write a folder as a run leaves it."""
    request = {
        "task": "Pendulum-v1",
        "algorithm": "td3",
        "strategy": "none",
        "steps": LENGTH,
        "settings": {} if request.get("algorithm") == "ppo" else {"warmup": WARMUP},
        **request,
    }
    (run,) = config.resolve(config.Request(seeds=[seed], **request))
    record = write_whole(folder, run)
    if not done:
        record.cut(0)
    content = safetensors.numpy.save(replay(seed, centre=0.3 * seed)._asdict())
    (folder / records.REPLAY_FILE).write_bytes(content)
    return folder


def test_warmup_is_left_out_even_if_it_was_overwritten(tmp_path):
    whole = visitation.load(save_run(tmp_path / "a"))
    assert (whole.first, len(whole.replay.obs)) == (WARMUP, LENGTH - WARMUP)
    np.testing.assert_array_equal(whole.replay.obs, replay(0).obs[WARMUP:])
    late = visitation.load(save_run(tmp_path / "b", steps=LENGTH + 50))  # kept the last 600 of 650
    assert (late.first, len(late.replay.obs)) == (WARMUP, LENGTH - 10)
    later = visitation.load(save_run(tmp_path / "c", steps=LENGTH + 100))
    assert (later.first, len(later.replay.obs)) == (100, LENGTH)


def test_the_algorithm_need_not_be_known_here(tmp_path):
    record = save_run(tmp_path) / "record.jsonl"
    record.write_text(record.read_text().replace('"algorithm": "td3"', '"algorithm": "mine"'))
    assert visitation.load(tmp_path).run["algorithm"] == "mine"


def test_runs_that_do_not_compare_are_refused_in_a_sentence(tmp_path):
    folder = save_run(tmp_path / "runs/seed-0")
    assert visitation.load(tmp_path).run["seed"] == 0
    save_run(tmp_path / "runs/seed-1", seed=1)
    with pytest.raises(UserError, match=r"holds several runs; name one of .*seed-0, .*seed-1"):
        visitation.load(tmp_path)
    (folder / records.REPLAY_FILE).unlink()
    with pytest.raises(UserError, match=r"no replay in .*--set compute\.keep_replay=true"):
        visitation.load(folder)
    (folder / records.REPLAY_FILE).write_bytes(b"nonsense")
    with pytest.raises(UserError, match="cannot be read"):
        visitation.load(folder)
    with pytest.raises(UserError, match="is not done"):
        visitation.load(save_run(tmp_path / "half", done=False))
    with pytest.raises(UserError, match=r"has no replay: ppo is on-policy"):
        visitation.load(save_run(tmp_path / "ppo", algorithm="ppo", steps=4096))
    with pytest.raises(UserError, match=r"The replay in .* has nothing but warm-up steps"):
        visitation.load(save_run(tmp_path / "short", settings={"warmup": LENGTH - 10}))
    others = [save_run(tmp_path / "a"), save_run(tmp_path / "b", task="Swimmer-v5")]
    with pytest.raises(UserError, match="these are of Pendulum-v1 and Swimmer"):
        visitation.check_same_task([visitation.load(folder) for folder in others])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("obs", np.zeros(LENGTH, np.float32)),
        ("reward", np.zeros(LENGTH - 1, np.float32)),
        ("error", np.full(LENGTH, np.nan, np.float32)),
        ("executed", np.zeros((LENGTH, 1), np.int64)),
        ("extra", np.zeros(LENGTH, np.float32)),
    ],
)
def test_a_replay_of_another_shape_is_refused(tmp_path, name, value):
    folder = save_run(tmp_path / "run")
    path = folder / records.REPLAY_FILE
    path.write_bytes(safetensors.numpy.save(replay(0)._asdict() | {name: value}))
    with pytest.raises(UserError, match=r"replay\.safetensors cannot be read: .*" + name):
        visitation.load(folder)


def test_a_replay_of_more_steps_than_its_run_is_refused(tmp_path):
    with pytest.raises(UserError, match="there are 600 transitions of 60 steps"):
        visitation.load(save_run(tmp_path / "short", steps=60))


# The command


def test_it_needs_a_package_and_says_which(tmp_path, monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, "openTSNE", None)
    monkeypatch.chdir(tmp_path)
    assert discover("visitation", "a", "b") == 2
    sentence = "Visitation needs a package: pip install 'discover_rl[visitation]'.\n"
    assert capfd.readouterr() == ("", sentence)
    assert list(tmp_path.iterdir()) == []


def test_the_command_writes_and_prints_the_same_every_time(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(maps, "ITERATIONS", 20)
    monkeypatch.chdir(tmp_path)
    save_run(tmp_path / "a")
    save_run(tmp_path / "b", seed=1, strategy="gaussian")
    results = []
    for _ in range(2):
        assert discover("visitation", "a", "b", "--to", "out", "--points", "60") == 0
        results.append((capfd.readouterr().out, file_contents(tmp_path / "out")))
    assert results[0] == results[1]
    printed, written = results[0]
    assert written.keys() == {"visitation.png", "visitation.svg", "visitation.json"}
    content = json.loads(written["visitation.json"])
    assert content["tsne"]["perplexity"] == pytest.approx(np.sqrt(120))
    assert [run["run"]["strategy"] for run in content["runs"]] == ["none", "gaussian"]
    assert [run["drawn"] for run in content["runs"]] == [60, 60]
    assert content["runs"][0]["steps"] == [WARMUP, LENGTH]
    late = replay(0).error[-180:].mean()
    assert content["runs"][0]["td_error"]["late"] == pytest.approx(float(late), rel=1e-5)
    assert 0 < content["runs"][0]["explained"] < 1
    whole = content["stages"]["whole"]
    assert content["stages"].keys() == {*visitation.STAGES, "whole"}
    assert f"{whole['overlap']['between']['mean']:.2f}" in printed
    assert "A: td3 + none, seed 0; B: td3 + gaussian, seed 1; Pendulum-v1, 540 states" in printed
    words = " ".join(printed.split())  # lines are broken where the terminal ends
    assert "The map has 60 states of A and 60 of B; t-SNE's perplexity is 11.0." in words
    assert "…" not in printed  # the table is narrow enough
    # Matplotlib writes text as outlines, each with a comment that has the words.
    drawn = written["visitation.svg"].decode()
    assert "60 + 60 states, perplexity 11, 20 iterations" in drawn
