"""Model level: tiny models of every bundled architecture run packs and samples alone."""

from __future__ import annotations

import json

import numpy as np
import pytest

from packcli.batch import model_inputs
from packcli.contract.errors import EnvironmentLacksError, InputError, UsageError
from packcli.contract.offsets import Offsets
from packcli.contract.verdict import Verdict
from packcli.families import open_family
from packcli.verify import model_level
from packcli.verify.cpu_bridge import FLASH, cpu_kernels
from packcli.verify.kernel_level import KernelOptions
from packcli.verify.model_level import IMPLEMENTATIONS, ModelOptions, open_model, small_and_quiet
from packcli.verify.model_pack import window
from packcli.verify.model_run import TOLERANCE, compare, forward, random_pixels, run_alone
from packcli.verify.model_teeth import model_controls
from packcli.verify.run import verify
from packcli.verify.teeth import Control
from packcli.verify.tiny_model import choose_attention
from tests.verify.model_making import joined, parts_of, sample, with_bounds

FAMILIES = ("text", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5")


def compared(tiny, implementation, pack, parts, *, pairs=False):
    pixels = random_pixels(pack, tiny, 0)
    choose_attention(tiny, implementation)
    expected = Offsets.from_lengths([part.input_ids.size for part in parts])
    with small_and_quiet(), cpu_kernels(tiny.module):
        alone = run_alone(tiny, parts, expected, pixels)
        packed = forward(tiny, model_inputs([pack]), pixels, gradient=True)
        return compare(packed, alone, pairs=pairs)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_packed_logits_and_gradients_are_those_of_samples_alone(family, implementation, tiny_model):
    tiny = tiny_model(family)
    parts = parts_of(tiny.facts)
    found = compared(tiny, implementation, joined(parts), parts)
    assert found.largest <= TOLERANCE
    assert found.leak == 0.0
    assert found.apart
    asked = ~np.eye(len(parts), dtype=bool)
    assert (found.seen[asked] == 0.0).all()  # every pair was asked: none is NaN


@pytest.mark.parametrize("family", FAMILIES)
def test_a_lost_boundary_shows_who_sees_whom(family, tiny_model):
    tiny = tiny_model(family)
    parts = parts_of(tiny.facts)
    pack = joined(parts)
    lost = with_bounds(pack, np.delete(pack.samples.values, 2))
    quick = compared(tiny, "sdpa", lost, parts)
    assert not quick.apart
    assert quick.leak > 1
    each = compared(tiny, "sdpa", lost, parts, pairs=True)
    off = each.seen.copy()
    assert (np.diag(off) > 1).all()  # a sample does see itself
    np.fill_diagonal(off, 0)
    assert np.argwhere(off > 0).tolist() == [[2, 1]]


def test_a_sample_that_is_split_differs_though_it_sees_nobody(tiny_model):
    tiny = tiny_model("text")
    parts = parts_of(tiny.facts)
    pack = joined(parts)
    split = with_bounds(pack, np.insert(pack.samples.values, 1, 2))
    found = compared(tiny, "sdpa", split, parts)
    assert found.leak == 0.0
    assert found.largest > 0.01
    assert np.flatnonzero(found.deviation > TOLERANCE).tolist() == [2, 3]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_known_leaks_leak(family, implementation, tiny_model):
    tiny = tiny_model(family)
    choose_attention(tiny, implementation)
    with small_and_quiet(), cpu_kernels(tiny.module):
        found = model_controls(tiny, implementation)
    names = {control.name for control in found}
    assert all(control.caught for control in found), found
    assert all(control.deviation > 10 * TOLERANCE for control in found), found
    assert {"one boundary removed", "all boundaries removed"} < names
    assert ("mRoPE planes without the text plane" in names) == tiny.facts.has_mrope
    assert ("no seq_idx for the convolution" in names) == (family == "qwen3_5")
    assert ("attention_mask of ones" in names) == (implementation != FLASH)
    assert ("use_cache" in names) == (implementation != FLASH and family != "qwen3_5")


def run(sample_data, path, model, **options):
    directory = sample_data / "models" / model
    facts = open_family(directory).facts
    return verify([sample_data / path], facts=facts, model=ModelOptions(directory, **options))


def test_good_packs_pass_and_the_verdict_says_what_ran(sample_data):
    verdict = run(sample_data, "good", "qwen2_5_vl", sample=1, tokens=400)
    assert verdict.passed
    assert verdict.level == "model"
    assert not any(code.startswith(("isolation", "model")) for code in verdict.skipped)
    kernels = [proof["kernel"] for proof in verdict.proofs]
    model = "Qwen2_5_VLForConditionalGeneration"
    assert kernels == [
        f"{model}, eager",
        f"{model}, sdpa",
        f"{model}, flash_attention_2 on a CPU kernel of packcli",
    ]
    for proof in verdict.proofs:
        assert proof["kind"] == "model"
        assert 0 < proof["tokens"] <= 400
        assert proof["max_deviation"] <= TOLERANCE
        assert all(control["caught"] for control in proof["controls"])
    json.dumps(verdict.to_json(), allow_nan=False)


def test_a_lost_boundary_is_named_by_each_level_on_its_own(sample_data):
    path = sample_data / "broken" / "isolation.model"
    on_disk = verify([path])
    assert dict(on_disk.counts) == {"position.reset": 1}
    (rule,) = on_disk.findings
    by_kernel = verify([path], kernel=KernelOptions())
    kernel = by_kernel.findings[-1]
    by_model = run(sample_data, "broken/isolation.model", "text")
    model = by_model.findings[-1]
    assert (kernel.code, model.code) == ("isolation.attention", "isolation.model")
    assert [(one.row, one.token) for one in (rule, kernel, model)] == [(0, 23)] * 3
    seen = "sample 1 ('cat') sees sample 0 ('week') from token 23"
    assert seen in kernel.message
    assert model.message == f"{seen} under eager, sdpa, flash_attention_2"
    assert (model.sample, model.sample_id) == (1, "cat")


def test_linear_attention_says_which_kernels_ran(tiny_model):
    verdict = Verdict("model")
    total = model_level._Sums(packs=1, tokens=5)
    model_level._conclude("sdpa", total, tiny_model("qwen3_5"), verdict)
    (proof,) = verdict.proofs
    assert proof["kernel"].endswith("linear attention by segment on transformers' own code")


def test_a_control_that_goes_unnoticed_is_a_finding(sample_data, monkeypatch):
    blind = (Control("use_cache", caught=False, deviation=0.0),)
    monkeypatch.setattr(model_level, "model_controls", lambda *_: blind)
    verdict = run(sample_data, "good_text", "text", sample=1, implementations=("sdpa",))
    assert dict(verdict.counts) == {"isolation.control": 1}
    assert "use_cache went unnoticed" in verdict.findings[0].message


def test_features_are_counted_by_the_models_own_forward(sample_data):
    verdict = run(sample_data, "broken/model.slots", "qwen2_5_vl", implementations=("sdpa",))
    assert dict(verdict.counts) == {"slot.count": 1, "model.slots": 1}
    assert "Image features and image tokens do not match" in verdict.findings[-1].message


@pytest.mark.parametrize(
    ("lengths", "most", "around", "expected"),
    [
        ([4, 4, 4], 100, None, (0, 3)),
        ([4, 4, 4], 8, None, (0, 2)),
        ([90, 4, 4], 8, None, (1, 3)),
        ([4, 4, 4, 4], 8, 3, (2, 4)),
        ([4, 4, 4, 4], 8, 0, (0, 2)),
        ([90, 90], 8, None, None),
        ([90, 4, 4], 8, 1, None),
        ([4], 8, None, (0, 1)),
        ([90], 8, None, None),
    ],
)
def test_neighbours_are_chosen_that_fit(lengths, most, around, expected):
    assert window(Offsets.from_lengths(lengths), most, around) == expected


def test_what_is_too_long_is_said(sample_data):
    verdict = run(sample_data, "good_text", "text", sample=1, tokens=3, implementations=("sdpa",))
    assert verdict.passed
    assert verdict.skipped["isolation.model"] == "no pack could be run"
    some = verdict.skipped["isolation.model in some packs"]
    assert some == "no two neighbours have 3 tokens or fewer"
    assert verdict.proofs == []


def test_wrong_models_are_refused_before_a_shard_is_read(sample_data, tmp_path):
    models = sample_data / "models"
    facts = open_family(models / "qwen3_vl").facts
    with pytest.raises(UsageError, match="name its directory with --model"):
        open_model(ModelOptions(None), facts)
    with pytest.raises(UsageError, match="the data was made for qwen3_vl"):
        open_model(ModelOptions(models / "text"), facts)
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "t5", "vocab_size": 9}', encoding="utf-8")
    with pytest.raises((InputError, EnvironmentLacksError)):
        open_model(ModelOptions(tmp_path), None)


def test_real_directories_build_models(shared):
    for name in ("qwen2_5_vl", "qwen3_vl", "qwen3_5"):
        tiny = open_model(ModelOptions(shared / "models" / name), None)
        assert sum(weight.numel() for weight in tiny.module.parameters()) < 1_000_000
        assert tiny.linear == (name == "qwen3_5")
        parts = [sample(tiny.facts, image=(1, 4, 4)), sample(tiny.facts, video=(2, 4, 4))]
        assert compared(tiny, "sdpa", joined(parts), parts).apart


def test_ids_of_media_stay_apart_in_the_small_vocabulary(tiny_model):
    tiny = tiny_model("qwen3_vl")
    ids = np.array([0, 511, 512, 1804, 1805, 1855])
    assert tiny.ids(ids).tolist() == [0, 511, 0, 512, 513, 1855 % 512]
