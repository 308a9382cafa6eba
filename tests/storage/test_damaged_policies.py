"""Files of a policy that are missing, damaged or fit no policy: each is refused in one sentence."""

import json

import numpy as np
import pytest
from safetensors.numpy import save

from discover_rl.core.types import UserError
from discover_rl.storage.policies import Policy, load_policy
from tests.storage.test_policies import ABOUT, WIDE, deep, refusal, write


@pytest.mark.parametrize("name", ["", "nowhere"])
def test_no_policy_is_said_so(tmp_path, name):
    assert refusal(tmp_path / name) == f"There is no saved policy in {tmp_path / name}."


@pytest.mark.parametrize("name", ["policy.json", "policy.safetensors"])
@pytest.mark.parametrize("content", [b"", b"{}", b"\xff" * 40])
def test_a_damaged_file_names_the_folder(tmp_path, name, content):
    write(deep(WIDE), tmp_path)
    (tmp_path / name).write_bytes(content)
    assert f"The policy in {tmp_path} cannot be read" in refusal(tmp_path)


def test_a_truncated_or_absent_file_names_the_folder(tmp_path):
    write(deep(WIDE), tmp_path)
    arrays = tmp_path / "policy.safetensors"
    arrays.write_bytes(arrays.read_bytes()[:-4])
    assert f"The policy in {tmp_path} cannot be read" in refusal(tmp_path)
    arrays.unlink()
    assert f"The policy in {tmp_path} cannot be read" in refusal(tmp_path)


def test_another_format_is_refused_by_its_number(tmp_path):
    write(deep(WIDE), tmp_path)
    meaning = json.loads((tmp_path / "policy.json").read_text())
    (tmp_path / "policy.json").write_text(json.dumps(meaning | {"format": 99}))
    assert "format 99" in refusal(tmp_path)


@pytest.mark.parametrize(
    "name", ["observation_shape", "action_shape", "low", "high", "activation", "squash", "about"]
)
def test_a_missing_entry_is_refused(tmp_path, name):
    write(deep(WIDE), tmp_path)
    meaning = json.loads((tmp_path / "policy.json").read_text())
    del meaning[name]
    (tmp_path / "policy.json").write_text(json.dumps(meaning))
    assert name in refusal(tmp_path)


@pytest.mark.parametrize(
    "arrays",
    [{}, {"head": (6, 2)}, {"head.weight": (6, 2)}, {"head.weight": (5, 2), "head.bias": 2}],
)
def test_arrays_that_are_no_network_for_these_spaces_are_refused(tmp_path, arrays):
    write(deep(WIDE), tmp_path)
    zeros = {name: np.zeros(shape, np.float32) for name, shape in arrays.items()}
    (tmp_path / "policy.safetensors").write_bytes(save(zeros))
    assert str(tmp_path) in refusal(tmp_path)


def described(folder, **values) -> None:
    """Change what a policy's description says."""
    path = folder / "policy.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.parametrize(
    "values",
    [
        {"observation_shape": [10**9, 10**9]},
        {"observation_shape": [2, 3.0]},
        {"observation_shape": [-2, -3]},
        {"observation_shape": [3]},
        {"observation_shape": [1] * 9 + [6]},
        {"action_shape": [10**15]},
        {"action_shape": [3]},
        {"low": [-1.0]},
        {"low": [-1.0, None]},
        {"low": [5.0, 0.0]},
        {"high": [3.0, 10.0, 1.0]},
        {"activation": "evil"},
        {"activation": "relu\n"},
        {"squash": "no"},
        {"about": []},
        {"about": {"task": 3}},
        {"about": {"seed": -1}},
        {"about": {"backend": "other"}},
        {"about": {"settings": {"env.kwargs": [[[[[1]]]]]}}},
    ],
)
def test_a_description_that_fits_no_policy_is_refused(tmp_path, values):
    """Before anything is allocated by its numbers."""
    described(write(deep(WIDE), tmp_path), **values)
    assert f"The policy in {tmp_path} cannot be read" in refusal(tmp_path)


def arrays_of(policy: Policy) -> dict[str, np.ndarray]:
    return {
        f"{layer}.{part}": array for layer, it in policy.net.items() for part, array in it.items()
    }


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("layer0.weight", lambda array: array * np.float32("nan")),
        ("head.bias", lambda array: array + np.float32("inf")),
        ("head.bias", lambda array: array.astype(float)),
        ("head.weight", lambda array: array[:, :1]),  # would be broadcast over two actions
        ("layer1.bias", lambda array: array[:1]),
        ("layer1.weight", lambda array: array[None]),
        ("layer2.weight", lambda array: np.ones((16, 16), np.float32)),
        ("layer7.bias", lambda array: np.ones(16, np.float32)),
        ("head.extra", lambda array: np.ones(2, np.float32)),
        ("nodot", lambda array: np.ones(2, np.float32)),
        ("input.mean", lambda array: np.ones(6, np.float32)),
    ],
)
def test_an_array_that_does_not_fit_or_is_not_finite_is_refused(tmp_path, name, change):
    policy = deep(WIDE)
    arrays = arrays_of(policy)
    arrays[name] = np.ascontiguousarray(change(arrays.get(name)))
    write(policy, tmp_path)
    (tmp_path / "policy.safetensors").write_bytes(save(arrays))
    assert f"The policy in {tmp_path} cannot be read" in refusal(tmp_path)


@pytest.mark.parametrize("deviation", [1.0, 0.0, -1.0])
def test_a_deviation_is_above_0(tmp_path, deviation):
    policy = deep(WIDE)
    own = {"input.mean": np.zeros(6), "input.deviation": np.full(6, deviation)}
    arrays = arrays_of(policy) | {name: it.astype(np.float32) for name, it in own.items()}
    write(policy, tmp_path)
    (tmp_path / "policy.safetensors").write_bytes(save(arrays))
    if deviation > 0:
        assert np.isfinite(load_policy(tmp_path).predict(np.ones((2, 3)))[0]).all()
    else:
        assert "input.deviation" in refusal(tmp_path)


@pytest.mark.parametrize("values", [{"observation_shape": [10**15]}, {"low": [5.0, 0.0]}])
def test_the_best_policy_is_checked_like_the_last_one(tmp_path, values):
    write(deep(WIDE), tmp_path)
    path = write(deep(WIDE), tmp_path, best=True) / "policy-best.json"
    assert load_policy(tmp_path, best=True).about == ABOUT
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
    with pytest.raises(UserError, match="cannot be read"):
        load_policy(tmp_path, best=True)
    assert load_policy(tmp_path).about == ABOUT


SETTINGS = {
    "env.action_repeat": ["3", 0, 10**15, None, [1], True, 1.5],
    "env.wrappers": [5, None, "x:y", [1], [["x:y"]], {}],
    "env.count": [0, 10**9, "2"],
    "env.backend": ["other", ["gymnasium"], None],
    "env.engine": ["other"],
    "eval.episodes": [0, 0.5, 10**9],
    "start.transitions": ["x", -1],
}


@pytest.mark.parametrize(("name", "values"), SETTINGS.items(), ids=SETTINGS)
def test_settings_that_no_run_has_are_refused(tmp_path, name, values):
    write(deep(WIDE), tmp_path)
    meaning = json.loads((tmp_path / "policy.json").read_text())
    for value in values:
        meaning["about"] = ABOUT | {"settings": {name: value}}
        (tmp_path / "policy.json").write_text(json.dumps(meaning))
        assert f"at `{name}" in refusal(tmp_path)


@pytest.mark.parametrize("kind", ["F8_E4M3", "F8_E5M2", "F8_E8M0", "BF16", "F16", "I32", "F4"])
def test_numbers_of_other_types_are_refused(tmp_path, kind):
    write(deep(WIDE), tmp_path)
    path = tmp_path / "policy.safetensors"
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    for part in header.values():
        part["dtype"] = kind  # of as many bytes, so lengths must fit the type
        bits = {"F8": 8, "BF": 16, "F1": 16, "I3": 32, "F4": 4}[kind[:2]]
        part["shape"] = [(part["data_offsets"][1] - part["data_offsets"][0]) * 8 // bits]
    raw = json.dumps(header).encode()
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + content[8 + size :])
    assert f"The policy in {tmp_path} cannot be read" in refusal(tmp_path)
