"""Mistakes on the command line: one sentence, exit code 2, and nothing is written."""

import pytest

from discover_rl import config, storage
from discover_rl.storage.records import Record
from tests.cli.test_cli import SETTINGS, TINY, discover, files

MISTAKES = {
    "train Pendulm-v1": "There is no task Pendulm-v1. Did you mean Pendulum-v1?",
    "train Pendulum-v1 --algorithm tdd3": "There is no algorithm tdd3. Did you mean td3?",
    "train Pendulum-v1 --strategy discovr": "There is no strategy discovr. Did you mean discover?",
    "train Pendulum-v1 --set gama=1": "There is no setting gama. Did you mean gamma?",
    "train Pendulum-v1 --set strategy.lan=1": (
        "There is no setting strategy.lan. Did you mean strategy.lam?"
    ),
    "train Pendulum-v1 --set gamma=1.5": "gamma must be at least 0 and at most 1, not 1.5.",
    "train Pendulum-v1 --set delay=half": "delay must be a whole number, not 'half'.",
    "train Pendulum-v1 --set gamma": "--set takes NAME=VALUE, not 'gamma'.",
    "train Pendulum-v1 --set =1": "--set takes NAME=VALUE, not '=1'.",
    "train Pendulum-v1 --steps 0": "steps must be a whole number above 0, not 0.",
    "train Pendulum-v1 --seeds 0": (
        "seeds must be how many (at least 1), or a list without repetition."
    ),
    "train Pendulum-v1 --set env.count=2 --steps 99": (
        "steps must be a multiple of env.count, as 100 is, not 99."
    ),
    "train Pendulum-v1 --algorithm ppo --steps 100 --set env.count=3": (
        "steps must be a multiple of env.count, as 102 is, not 100."
    ),
    "train Pendulum-v1 --algorithm a2c --steps 90 --set env.count=3 --set eval.every=10": (
        "eval.every must be a multiple of env.count, as 12 is, not 10."
    ),
    "train Hopper-v2": (
        "Hopper-v2 no longer exists; use Hopper-v5 instead, whose "
        "returns are not the same one to one."
    ),
    "train CartPole-v1": "CartPole-v1 has Discrete actions; a Box of continuous ones is needed.",
    "tune Pendulum-v1": "There is nothing to tune; --range actor_lr=1e-5:1e-2:log is a range.",
    "tune Pendulum-v1 --range gamma": "--range takes NAME=VALUE, not 'gamma'.",
    "tune Pendulum-v1 --range gama=0:1": "There is no setting gama. Did you mean gamma?",
    "tune Pendulum-v1 --range gamma=0:2": "gamma must be at least 0 and at most 1, not 2.",
    "tune Pendulum-v1 --range gamma=0:1 --set tau=2": (
        "tau must be at least 0 and at most 1, not 2."
    ),
    "tune Pendulum-v1 --range gamma=0:1 --trials 0": "trials must be at least 1, not 0.",
    "tune Pendulm-v1 --range gamma=0:1": "There is no task Pendulm-v1. Did you mean Pendulum-v1?",
    "evaluate nowhere": "There is no saved policy in nowhere.",
    "list td4": "There is no algorithm, strategy, study or task td4. Did you mean td3?",
}


@pytest.mark.parametrize(("words", "sentence"), MISTAKES.items(), ids=MISTAKES)
def test_a_mistake_is_one_sentence_and_exit_code_2(tmp_path, monkeypatch, capfd, words, sentence):
    monkeypatch.chdir(tmp_path)
    assert discover(*words.split()) == 2
    assert capfd.readouterr() == ("", sentence + "\n")
    assert list(tmp_path.iterdir()) == []  # a mistake writes nothing


@pytest.mark.parametrize(
    "name",
    ["task", "steps", "seeds", "out", "observer", "algorithm", "folder", "overrides", "self"],
)
def test_a_setting_is_never_taken_for_an_argument(tmp_path, monkeypatch, capfd, name):
    monkeypatch.chdir(tmp_path)
    assert discover("train", "Pendulum-v1", "--set", f"{name}=1") == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"There is no setting {name}. ")


def test_a_folder_with_another_run_is_refused_by_what_differs(tmp_path, capfd):
    run = config.resolve(config.Request("Pendulum-v1", "td3", "gaussian", 40, 2, SETTINGS))[0]
    record = Record(tmp_path / run.name / "record.jsonl")
    record.begin({"run": run.to_json(), "code": {}, "commit": None})
    before = files(tmp_path)
    for extra, difference in (
        (["--set", "gamma=0.5"], "gamma is 0.99 there and 0.5 here"),
        (["--steps", "39"], "steps is 40 there and 39 here"),
        (["--set", "strategy.sigma=0.2"], "strategy.sigma is 0.1 there and 0.2 here"),
    ):
        assert discover("train", *TINY, *extra, "--out", str(tmp_path)) == 2
        message = f"{tmp_path} holds another run: {difference}; choose another --out.\n"
        assert capfd.readouterr().err == message
        assert files(tmp_path) == before


def test_a_folder_another_process_works_in_is_refused(tmp_path, capfd):
    with storage.files.locked(tmp_path):
        assert discover("train", *TINY, "--out", str(tmp_path)) == 2
    err = capfd.readouterr().err
    assert err == f"Another process is training in {tmp_path}; choose another --out.\n"
    assert files(tmp_path) == {}


def test_a_long_message_is_shown_without_its_middle(capfd):
    for words in (("status", "x" * 100_000), ("list", "x" * 100_000)):
        code = discover(*words)
        out, err = capfd.readouterr()
        assert (code, out, len(err)) == (2, "", 4_000 + len(" … \n"))
