"""Packs limited by samples, images and patches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packcli.pack.options import PlanOptions
from packcli.pack.plan import make_plan


def totals(plan, values):
    return np.array([values[plan.order[part]].sum() for part in plan.members.slices()])


def mixed(n, seed=0):
    """Captions with one image, videos, documents and short texts: lengths, images, patches."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(4, n, p=[0.55, 0.05, 0.15, 0.25])
    caption = np.exp(rng.normal(np.log(150), 0.8, n)).astype(np.int64) + 16
    image = rng.integers(12, 39, n) * rng.integers(12, 39, n)
    video = rng.integers(3000, 5500, n)
    vision = np.where(kind == 0, image, np.where(kind == 1, video, 0))
    text = np.where(kind == 2, rng.integers(2000, 8000, n), caption)
    return np.minimum(vision + text, 8192), (kind == 0).astype(np.int64), 4 * vision


@pytest.mark.parametrize("seed", [None, 3])
def test_a_vision_mix_stays_near_the_largest_bound(seed):
    lengths, images, patches = mixed(10_000)
    options = PlanOptions(8192, max_samples=16, max_images=8, max_patches=24_576, seed=seed)
    plan = make_plan(lengths, options, images=images, patches=patches)
    ones = np.ones_like(lengths)
    for values, most in ((lengths, 8192), (ones, 16), (images, 8), (patches, 24_576)):
        assert totals(plan, values).max() <= most
    assert sorted(plan.order.tolist()) == list(range(10_000))
    assert plan.packs <= 1.02 * plan.lower_bound
    free = make_plan(lengths, PlanOptions(8192))
    assert totals(free, patches).max() > 24_576  # the limit binds


def test_the_bound_is_that_of_the_scarcest_budget():
    plan = make_plan([1] * 100, PlanOptions(100, max_samples=7))
    assert (plan.packs, plan.lower_bound) == (15, 15)
    images = [1, 1, 2, 0]
    plan = make_plan([5, 5, 5, 5], PlanOptions(100, max_images=2), images=images)
    assert (plan.packs, plan.lower_bound) == (2, 2)


def test_limits_that_do_not_bind_change_nothing():
    lengths = np.random.default_rng(0).integers(1, 500, 1_000)
    free = make_plan(lengths, PlanOptions(1000))
    loose = make_plan(lengths, PlanOptions(1000, max_samples=1000))
    assert free.order.tolist() == loose.order.tolist()


def test_a_sample_over_a_limit_is_rejected():
    options = PlanOptions(100, max_images=2, max_patches=50)
    plan = make_plan([5, 5, 5, 0], options, images=[3, 2, 0, 9], patches=[0, 50, 51, 99])
    assert plan.order.tolist() == [1]
    assert (plan.rejected.tolist(), plan.zero.tolist()) == ([0, 2], [3])


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 3), st.integers(0, 30))), st.data())
@settings(max_examples=150, deadline=None)
def test_no_budget_is_ever_exceeded(rows, data):
    lengths, images, patches = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    options = PlanOptions(
        capacity=data.draw(st.integers(20, 40)),
        max_samples=data.draw(st.none() | st.integers(1, 5)),
        max_images=data.draw(st.none() | st.integers(3, 6)),
        max_patches=data.draw(st.none() | st.integers(30, 60)),
    )
    plan = make_plan(lengths, options, images=images, patches=patches)
    assert sorted(plan.order.tolist()) == list(range(len(rows)))
    ones = np.ones_like(lengths)
    budgets = (
        (lengths, options.capacity),
        (ones, options.max_samples),
        (images, options.max_images),
        (patches, options.max_patches),
    )
    for values, most in budgets:
        assert most is None or totals(plan, values).max(initial=0) <= most
    assert plan.lower_bound <= plan.packs


def pairs(n, most, seed=0):
    """As many images as make every pack of `most` full, at random lengths."""
    rng = np.random.default_rng(seed)
    return rng.integers(10, 2000, n), rng.integers(0, most + 1, n)


@pytest.mark.parametrize("most", [3, 4, 7])
def test_images_as_scarce_as_can_be_pair_up(most):
    lengths, images = pairs(5000, most)
    plan = make_plan(lengths, PlanOptions(8192, max_images=most), images=images)
    assert totals(plan, images).max() <= most
    assert totals(plan, lengths).max() <= 8192
    assert plan.packs <= 1.01 * plan.lower_bound


@pytest.mark.parametrize("share", [0.7, 0.9, 1.0, 1.1])
@pytest.mark.parametrize("sigma", [0.1, 0.5, 1.0])
def test_samples_as_scarce_as_tokens(share, sigma):
    rng = np.random.default_rng(1)
    lengths = np.exp(rng.normal(6.4, sigma, 10_000)).astype(np.int64).clip(8, 8192)
    most = round(share * 8192 / lengths.mean())
    plan = make_plan(lengths, PlanOptions(8192, max_samples=most))
    assert totals(plan, np.ones_like(lengths)).max() <= most
    assert plan.packs <= 1.015 * plan.lower_bound


def test_what_stands_apart_from_long_samples_needs_packs_of_its_own():
    # beside each 90 is room for one of the tens; three packs for the other 18 of six each
    plan = make_plan([90] * 2 + [10] * 20, PlanOptions(100, max_samples=6))
    assert (plan.packs, plan.lower_bound) == (5, 5)


@pytest.mark.parametrize(("capacity", "excess"), [(8192, 0.055), (32_768, 0.01)])
@pytest.mark.parametrize("kind", [0, 1])
def test_three_budgets_as_scarce_as_each_other(capacity, excess, kind):
    rng = np.random.default_rng(5)
    images = rng.integers(0, 5, 20_000)
    text = np.exp(rng.normal(np.log(400), 1.0, 20_000)).astype(np.int64) + 8
    vision = 576 * images if kind == 0 else rng.integers(0, 1000, 20_000)
    lengths = np.minimum(text + vision, 8192)
    patches = 4 * np.minimum(vision, lengths)
    packs = lengths.sum() / capacity
    most = {"max_images": round(images.sum() / packs), "max_patches": round(patches.sum() / packs)}
    plan = make_plan(lengths, PlanOptions(capacity, **most), images=images, patches=patches)
    assert sorted([*plan.order.tolist(), *plan.rejected.tolist()]) == list(range(20_000))
    for values, budget in zip((lengths, images, patches), (capacity, *most.values()), strict=True):
        assert totals(plan, values).max() <= budget
    assert plan.packs <= (1 + excess) * plan.lower_bound


def test_what_divides_all_needs_cannot_be_left_over():
    # 13 images of 576 tokens a pack, though patches would do for 13.8
    patches = np.full(130, 2304)
    plan = make_plan([600] * 130, PlanOptions(10_000, max_patches=31_747), patches=patches)
    assert (plan.packs, plan.lower_bound) == (10, 10)
    plan = make_plan([600] * 131, PlanOptions(10_000, max_patches=32_000), patches=[2304] * 131)
    assert (plan.packs, plan.lower_bound) == (11, 11)
