from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from packcli.families.processors.resize import Clip, ClipBudget, fit_image, fit_volume
from packcli.train.sizing import Resizing

SIDE = st.integers(1, 4000)


@settings(max_examples=1500)
@given(SIDE, SIDE, st.integers(1, 3 * 10**6), st.integers(1, 10), st.sampled_from([28, 32]))
def test_limits_lead_back_to_the_size_of_an_image(height, width, least, spread, factor):
    assume(max(height, width) / min(height, width) <= 200)
    new = fit_image(height, width, factor, least, least * spread)
    limits = Resizing(height, width, *new, factor).limits()
    assert limits is not None
    assert fit_image(height, width, factor, *limits) == new


@settings(max_examples=1500)
@given(SIDE, SIDE, st.integers(2, 99), st.integers(1, 3 * 10**7), st.integers(1, 10))
def test_limits_lead_back_to_the_size_of_a_clip(height, width, frames, least, spread):
    assume(max(height, width) / min(height, width) <= 150)
    clip = Clip(frames, height, width)
    new = fit_volume(clip, ClipBudget(32, 2, least, least * spread))
    limits = Resizing(height, width, *new, 32, frames=frames).limits()
    assert limits is not None
    assert fit_volume(clip, ClipBudget(32, 2, *limits)) == new


def test_a_size_that_no_limits_give():
    assert Resizing(100, 100, 28, 2800, 28).limits() is None
