"""Declared studies: their runs, and the messages about mistakes in a file."""

import pytest

from discover_rl import config, studies
from discover_rl.core.types import UserError

# Twelve tasks, ten seeds; on-policy five strategies, off-policy six, and Meta with DDPG; four tasks
# in the ablations, with six values of λ, or the whole and three components taken away.
PAPER = {
    "paper-a2c": 12 * 5 * 10,
    "paper-ppo": 12 * 5 * 10,
    "paper-ddpg": 12 * 7 * 10,
    "paper-sac": 12 * 6 * 10,
    "paper-td3": 12 * 6 * 10,
    "ablation-lambda-ppo": 4 * 6 * 10,
    "ablation-lambda-td3": 4 * 6 * 10,
    "ablation-components": 4 * 4 * 10,
    "delayed-reward": 4 * 2 * 2 * 10,
}
SMALL = """
about = "small"
steps = 240
seeds = 2

[set]
gamma = 0.9

[grid]
task = "Pendulum-v1"
algorithm = "td3"
strategy = ["none", "discover"]
"""


def declared(text: str) -> studies.Study:
    return studies.declared(text, "mine", "mine.toml")


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_studies_have_the_papers_runs(name):
    study = studies.load(name)
    runs = study.runs
    assert len(runs) == len(set(study.names)) == PAPER[name]
    assert [run.name for run in runs] == study.names
    for run in runs:
        assert (run.steps, run.eval.every, run.eval.episodes) == (1_000_000, 1_000, 10)


EXPLORE = {"explore-td3": "td3", "explore-sac": "sac"}


def test_there_are_no_others_but_a_part_of_the_suite_and_small_ones():
    assert set(studies.shipped()) == {*PAPER, *EXPLORE, "seek-suite", "smoke", "explore-smoke"}
    assert studies.load("smoke").steps <= 10_000
    assert studies.load("explore-smoke").steps <= 10_000


@pytest.mark.parametrize("name", EXPLORE)
def test_the_suite_has_every_strategy_on_its_tasks_for_their_steps(name):
    study, algorithm = studies.load(name), EXPLORE[name]
    strategies = {strategy for one, strategy in config.pairs() if one == algorithm}
    assert {cell.strategy for cell in study.cells} == strategies
    assert {cell.algorithm for cell in study.cells} == {algorithm}
    length = {cell.task: cell.steps for cell in study.cells}
    assert len(length) == 12
    assert length.pop("MountainCarContinuous-v0") == 100_000
    assert length.pop("gymnasium_robotics:PointMaze_UMaze-v3") == 200_000
    assert set(length.values()) == {300_000} == {study.steps}
    tuned = {(cell.strategy, cell.settings.get("strategy.sigma")) for cell in study.cells}
    amplitudes = {0.1, 0.3, 0.6}
    assert {sigma for one, sigma in tuned if one == "gaussian"} == amplitudes
    # With SAC the policy has the σ of pink noise, so arms that set it would be the same runs.
    own = {None} if algorithm == "sac" else amplitudes
    assert {sigma for one, sigma in tuned if one == "pink"} == own
    # With SAC, seek has no noise on top of the policy's own, so its control has none either.
    white = {cell.runs[0].strategy_hyper.sigma for cell in study.cells if cell.strategy == "corner"}
    assert white == {0.0 if algorithm == "sac" else 0.3}
    runs = [cell.runs[0] for cell in study.cells]
    assert {run.eval.every for run in runs} == {1_000, 2_000, 3_000}
    assert {run.env.backend for run in runs} == {"auto"}
    assert len(set(study.names)) == len(study.names) == 12 * 10 * len({c.arm for c in study.cells})


def test_steps_of_a_task_that_is_not_in_the_study_are_refused():
    text = SMALL.replace("[grid]", '[task_steps]\n"Pendulm-v1" = 100\n\n[grid]', 1)
    with pytest.raises(UserError, match=r"There is no task Pendulm-v1\. Did you mean Pendulum-v1"):
        declared(text)
    (cell, *_) = declared(text.replace("Pendulm", "Pendulum")).cells
    assert {run.steps for run in cell.runs} == {100}


def test_ablations_change_the_settings_they_name():
    lams = {run.strategy_hyper.lam for run in studies.load("ablation-lambda-ppo").runs}
    assert lams == {0.0, 0.1, 0.3, 0.6, 0.9, 1.0}
    switches = ("delayed", "target_network", "target_smoothing")
    cells = studies.load("ablation-components").cells
    arms = {c.arm: [getattr(c.runs[0].strategy_hyper, name) for name in switches] for c in cells}
    assert arms["complete"] == [True, True, True]
    assert arms["without-dpu"] == [False, True, True]
    assert arms["without-tn"] == [True, False, True]
    assert arms["without-tsr"] == [True, True, False]
    delays = studies.load("delayed-reward").cells
    assert {(c.algorithm, c.strategy) for c in delays} == {
        *(("ppo", "none"), ("ppo", "discover"), ("td3", "gaussian"), ("td3", "discover"))
    }
    assert {c.runs[0].env.reward_delay for c in delays} == {1, 2, 5, 10}


def test_a_grid_is_every_combination_and_names_tell_them_apart():
    study = declared(SMALL + 'batch_size = [8, 16]\n"eval.every" = 60\n')
    assert study.names == [
        f"Pendulum-v1/td3/{strategy}/batch_size={size}/seed-{seed}"
        for strategy in ("none", "discover")
        for size in (8, 16)
        for seed in (0, 1)
    ]
    assert [run.hyper.batch_size for run in study.runs] == [8, 8, 16, 16] * 2
    assert {run.hyper.gamma for run in study.runs} == {0.9}
    assert {run.eval.every for run in study.runs} == {60}
    assert study.cells[1].varied == {"batch_size": 16}


def test_runs_that_differ_only_in_floats_and_seeds_are_one_cohort():
    study = declared(SMALL.replace('"none", ', "") + '"strategy.lam" = [0.1, 0.2, 0.3]\n')
    assert [len(lanes) for lanes in config.cohorts(study.runs)] == [6]


def test_arms_differ_in_several_things_and_skips_leave_out():
    text = (
        SMALL.replace('strategy = ["none", "discover"]', "")
        + """
[[arm]]
name = "loud"
strategy = "gaussian"
"strategy.sigma" = 0.5

[[arm]]
strategy = "discover"

[[skip]]
task = "Pendulum-v1"
name = "loud"
strategy = "discover"
"""
    )
    assert [cell.name for cell in declared(text).cells] == [
        *("Pendulum-v1/td3/loud", "Pendulum-v1/td3/discover")
    ]
    assert declared(text).cells[0].runs[0].strategy_hyper.sigma == 0.5
    head, skip, tail = text.partition("[[skip]]")
    left = declared(head + skip + tail.replace("discover", "gaussian"))
    assert [cell.arm for cell in left.cells] == ["discover"]


def test_a_task_of_a_module_is_one_folder():
    (name, _) = declared(SMALL.replace("Pendulum-v1", "a.b:x/Y-v0").replace('"none", ', "")).names
    assert name == "a.b-x-Y-v0/td3/discover/seed-0"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("steps", "stepps", r"mine.toml: There is no key stepps. Did you mean steps\?"),
        ("[grid]", "[grd]", r"mine.toml: There is no key grd. Did you mean grid\?"),
        ("strategy =", "strateg =", r"mine.toml: There is no key strateg. Did you mean strategy"),
        ("gamma", "gama", r"mine.toml, .*: There is no setting gama. Did you mean gamma\?"),
        ('"td3"', '"td4"', r"mine.toml, algorithm: There is no algorithm td4. Did you mean td3\?"),
        ('"none"', '"meta"', r"mine.toml, .*: meta is for ddpg; td3 explores by"),
        ('"none"', '"discover"', r"mine.toml, \[grid\]: strategy is a list without repetition"),
        ("gamma = 0.9", "gamma = [0.8, 0.9]", "several values of gamma belong in .grid."),
        ("gamma = 0.9", "gamma = 9.0", "mine.toml, .*: gamma must be"),
        ("gamma = 0.9", 'task = "x"', "task belongs in .grid., not in .set."),
        ("steps = 240", "steps = -1", "mine.toml: steps must be a whole number above 0, not -1"),
        ("steps = 240", "", "mine.toml has no steps"),
        ("seeds = 2", "seeds = [1, 1]", "mine.toml: seeds must be how many"),
        ("seeds = 2", 'seeds = "two"', "mine.toml: seeds must be how many"),
        ('task = "Pendulum-v1"', "", "mine.toml has no task; put it into .grid."),
        ("steps = 240", "steps 240", "mine.toml is not valid TOML"),
        ('"discover"]', '"discover"]\nstrategy.lam = 0.1', 'needs quotes: "strategy.lam"'),
        ("[set]", "[[set]]", "set is a table, under .set."),
        ("[set]", "[[arm]]\nalgorithm = 'td3'\n[set]", "algorithm is in .grid. and in an ..arm.."),
        ("[set]", "[[skip]]\ntak = 'x'\n[set]", r"\[\[skip\]\]: There is no key tak"),
        ("[set]", "[[skip]]\nalgorithm = 'td3'\n[set]", "mine.toml: ..skip.. leaves no run"),
        (
            "[set]",
            "[[skip]]\nstrategy = 'nome'\n[set]",
            r"strategy: There is no nome. Did you mean none",
        ),
        (
            "[set]",
            "[[arm]]\nname = '../x'\n[set]",
            "name of an ..arm.. is that of a folder, without",
        ),
        ("[set]", "[[arm]]\nnme = 'x'\n[set]", r"There is no key nme. Did you mean name\?"),
        ("gamma = 0.9", "seed = 3", r"There is no key seed. Did you mean seeds\?"),
        ("[grid]", "[grid]\nname = 'x'", "name belongs in ..arm.., not in .grid."),
        ("[grid]", "[grid]\nhidden = [400, 300]", "hidden in .grid. is a list of lists"),
        ('"td3"', '[["td3"]]', "There is no algorithm"),
        ('"Pendulum-v1"', "3", "task must be a word, not 3"),
        ("[set]", "[[arm]]\ntau = 0.1\n[[arm]]\ntau = 0.2\n[set]", "give every ..arm.. a name"),
    ],
)
def test_a_mistake_is_one_sentence_with_the_file_the_key_and_the_right_name(old, new, message):
    assert old in SMALL
    with pytest.raises(UserError, match=message) as error:
        _ = declared(SMALL.replace(old, new, 1)).runs
    assert "\n" not in str(error.value)


def test_studies_are_found_by_name_and_by_file(tmp_path, monkeypatch):
    path = tmp_path / "mine.toml"
    path.write_text(SMALL)
    study = studies.load(str(path))
    assert (study.name, study.about, study.out.as_posix()) == ("mine", "small", "results/mine")
    with pytest.raises(UserError, match=r"There is no study paper-td. Did you mean paper-td3\?"):
        studies.load("paper-td")
    with pytest.raises(UserError, match="cannot be read"):
        studies.load(str(tmp_path / "yours.toml"))
    with pytest.raises(UserError, match=r"no study xyz\. A file of your own ends in \.toml"):
        studies.load("xyz")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "mine.toml").write_text(SMALL)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"no study results\. It is a folder; `discover evaluate`"):
        studies.load("results")
    with pytest.raises(UserError, match=r"Did you mean results/mine\.toml\?"):
        studies.load("results/mine")
    with pytest.raises(UserError, match=r"no study mine\. Did you mean results.mine\.toml\?"):
        studies.load("mine")
