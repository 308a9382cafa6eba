"""The same request gives the same runs on every machine, whatever names its settings have."""

import importlib.util
import inspect

import pytest

from discover_rl.config import Request, cohorts, current_names, resolve, settings
from discover_rl.core.types import UserError
from discover_rl.system import hardware

BACKENDS = [
    ("Hopper-v5", {"env.backend": "auto"}),
    ("Hopper-v5", {"env.backend": "envpool"}),
    ("Hopper-v5", {"env.backend": "gymnasium"}),
    ("Pendulum-v1", {"env.backend": "auto"}),
    ("BipedalWalker-v3", {}),
]


@pytest.fixture
def no_machine(monkeypatch):
    """Whoever asks for cores, a GPU, memory or installed packages fails."""

    def never(*_):
        raise AssertionError("this must not depend on the machine")

    functions = [name for name, it in vars(hardware).items() if inspect.isroutine(it)]
    assert {"accelerated", "cores", "place", "memory"} <= {*functions}
    for name in functions:
        monkeypatch.setattr(hardware, name, never)
    monkeypatch.setattr(importlib.util, "find_spec", never)
    monkeypatch.setattr("os.cpu_count", never)
    monkeypatch.setattr("os.sched_getaffinity", never, raising=False)


def requests(algorithm: str) -> list[Request]:
    return [Request(task, algorithm, "none", 10_000, 2, chosen) for task, chosen in BACKENDS]


@pytest.mark.usefixtures("no_machine")
@pytest.mark.parametrize("algorithm", ["td3", "ppo"])
def test_a_request_is_resolved_without_asking_the_machine(algorithm):
    for request in requests(algorithm):
        runs = resolve(request)
        assert len(cohorts(runs)) == 1
        chosen = request.settings.get("env.backend", "gymnasium")
        # What is left open stays open: it is decided where the run is placed.
        assert [run.env.backend for run in runs] == [chosen] * 2
        assert runs[0].to_json()["settings"]["env.backend"] == chosen


@pytest.mark.usefixtures("no_machine")
@pytest.mark.parametrize("task", ["BipedalWalker-v3", "HalfCheetah-v4", "their_module:Hopper-v5"])
def test_tasks_that_envpool_does_not_have_are_refused_on_every_machine(task):
    with pytest.raises(UserError, match=f"does not have {task}; it needs gymnasium"):
        resolve(Request(task, "td3", "none", 1000, 1, {"env.backend": "envpool"}))


# Old names


@pytest.fixture
def not_noted_yet():
    settings.note_old_name.cache_clear()
    yield
    settings.note_old_name.cache_clear()


@pytest.mark.usefixtures("not_noted_yet")
def test_an_old_name_gives_the_same_run_with_one_note(capsys):
    asked = [
        resolve(Request("Hopper-v5", "td3", "none", 1000, 1, {name: "envpool"}))
        for name in ("env.backend", "env.engine", "env.engine")
    ]
    assert asked[0] == asked[1] == asked[2]
    said = capsys.readouterr()
    assert said.err == "Note: the setting env.engine is called env.backend now.\n"
    assert not said.out


@pytest.mark.usefixtures("not_noted_yet")
def test_a_new_name_is_not_noted(capsys):
    resolve(Request("Hopper-v5", "td3", "none", 1000, 1, {"env.backend": "envpool"}))
    assert not capsys.readouterr().err


@pytest.mark.usefixtures("not_noted_yet")
def test_a_bad_value_of_an_old_name_is_refused_in_the_words_of_today():
    with pytest.raises(UserError, match=r"^env\.backend must be one of .*, not fast\.$"):
        resolve(Request("Hopper-v5", "td3", "none", 1000, 1, {"env.engine": "fast"}))


def test_the_old_name_and_the_new_one_together_are_refused():
    """Neither goes before the other, whichever comes last."""
    given = {"env.engine": "gymnasium", "env.backend": "envpool"}
    for names in (sorted(given), sorted(given, reverse=True)):
        asked = {name: given[name] for name in names}
        with pytest.raises(UserError, match=r"env\.engine is the old name of env\.backend; give"):
            resolve(Request("Hopper-v5", "td3", "none", 1000, 1, asked))


def test_every_old_name_is_of_a_setting_that_exists_and_none_is_one_itself():
    (run,) = resolve(Request("Pendulum-v1", "td3", "none", 1000))
    known = run.to_json()["settings"]
    for old, new in settings.RENAMED.items():
        assert old not in known
        assert new in known
        assert current_names({old: 1, "gamma": 2}) == {new: 1, "gamma": 2}
