from __future__ import annotations

import pytest
from torch.utils.data import DataLoader

from packcli.contract.errors import InputError, UsageError
from packcli.train import PackCollator, PackDataset, PackStream, StreamOptions


def names(packs):
    return [name for pack in packs for name in pack.sample_ids]


def identity(packs):
    return packs


def loaded(stream, workers):
    loader = DataLoader(stream, batch_size=None, collate_fn=identity, num_workers=workers)
    return [names(packs) for packs in loader]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("ranks", [1, 3])
def test_every_pack_once_over_ranks_and_workers(many, ranks, workers):
    seen = []
    for rank in range(ranks):
        stream = PackStream(many, StreamOptions(shuffled_groups=4), ranks=(rank, ranks))
        batches = loaded(stream, workers)
        assert len(batches) == len(stream)
        seen += [name for batch in batches for name in batch]
    assert sorted(seen) == sorted(f"s{n}" for n in range(101))


@pytest.mark.parametrize(
    "options", [StreamOptions(), StreamOptions(3), StreamOptions(max_tokens=90)]
)
def test_order_does_not_depend_on_workers(many, options):
    alone = loaded(PackStream(many, options, ranks=(1, 2)), 0)
    assert alone == loaded(PackStream(many, options, ranks=(1, 2)), 2)
    assert alone == loaded(PackStream(many, options, ranks=(1, 2)), 3)
    assert len(alone) == len(PackStream(many, options, ranks=(1, 2)))


def test_max_tokens_is_kept(many):
    stream = PackStream(many, StreamOptions(max_tokens=90), ranks=(0, 1))
    batches = list(stream)
    assert max(sum(map(len, packs)) for packs in batches) <= 90
    assert sum(map(len, batches)) == 101


@pytest.mark.parametrize("options", [{"max_tokens": 90}, {"max_tokens": 60}, {"batch_size": 3}])
@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_equal_ranks_have_as_many_batches(many, options, ranks):
    batches = []
    for rank in range(ranks):
        stream = PackStream(many, StreamOptions(equal_ranks=True, **options), ranks=(rank, ranks))
        batches.append(loaded(stream, 0))
        assert len(stream) == len(batches[-1])
        assert batches[-1] == loaded(stream, 2)
    assert len({len(one) for one in batches}) == 1
    whole = loaded(PackStream(many, StreamOptions(**options), ranks=(0, ranks)), 0)
    assert batches[0] == whole[: len(batches[0])]
    seen = [[name for batch in one for name in batch] for one in batches]
    # no rank drops more than makes it equal: the one with the fewest batches drops none
    assert max(map(len, seen)) == 101 // ranks
    assert len({name for one in seen for name in one}) == sum(map(len, seen))


@pytest.mark.parametrize("first", [0, 1, 2, 3])
@pytest.mark.parametrize("second", [0, 2])
@pytest.mark.parametrize("persistent", [False, True])
def test_a_pass_after_a_resumed_one_is_whole(many, first, second, persistent):
    whole = loaded(PackStream(many, ranks=(0, 1)), 0)
    stream = PackStream(many, ranks=(0, 1))
    stream.load_state_dict(PackStream(many, ranks=(0, 1)).state_dict(seen=40))
    loader = DataLoader(
        stream, batch_size=None, collate_fn=identity, num_workers=first,
        persistent_workers=persistent and first > 0,
    )  # fmt: skip
    # a pass that is broken off leaves the place where it was
    next(iter(loader))
    del loader
    loader = DataLoader(
        stream, batch_size=None, collate_fn=identity, num_workers=first,
        persistent_workers=persistent and first > 0,
    )  # fmt: skip
    assert [names(packs) for packs in loader] == whole[40:]
    assert [names(packs) for packs in loader] == whole
    assert [names(packs) for packs in loader] == whole
    assert loaded(stream, second) == whole


def test_shuffles_by_epoch_and_repeats(many):
    stream = PackStream(many, ranks=(0, 1))
    first = loaded(stream, 0)
    assert first == loaded(stream, 0)
    stream.set_epoch(1)
    second = loaded(stream, 2)
    assert first != second
    assert sorted(first) == sorted(second)


def test_few_groups_are_decoded_at_once(many):
    stream = PackStream(many, StreamOptions(shuffled_groups=2), ranks=(0, 1))
    read = []
    own = stream.source._read
    stream.source._read = lambda place: read.append(place) or own(place)
    assert len(list(stream)) == 101
    assert len(read) == len(set(read)) == len(stream.source.groups())


@pytest.mark.parametrize("stopped", [1, 17, 50, 51])
def test_resumes_alone(many, stopped):
    options = StreamOptions(seed=3)
    whole = loaded(PackStream(many, options, ranks=(1, 2)), 0)
    first = PackStream(many, options, ranks=(1, 2))
    first.set_epoch(0)
    turns = iter(first)
    for _ in range(stopped):
        next(turns)
    state = first.state_dict()
    again = PackStream(many, options, ranks=(1, 2))
    again.load_state_dict(state)
    again.set_epoch(0)
    assert loaded(again, 0) == whole[stopped:]
    again.set_epoch(1)
    fresh = PackStream(many, options, ranks=(1, 2))
    fresh.set_epoch(1)
    assert loaded(again, 0) == loaded(fresh, 0)


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 0), (0, 2), (2, 2)])
@pytest.mark.parametrize("options", [StreamOptions(2), StreamOptions(max_tokens=90)])
def test_resumes_with_another_number_of_workers(many, before, after, options):
    whole = loaded(PackStream(many, options, ranks=(0, 2)), 0)
    stream = PackStream(many, options, ranks=(0, 2))
    stream.set_epoch(0)
    loader = DataLoader(stream, batch_size=None, collate_fn=identity, num_workers=before)
    turns, seen = iter(loader), 0
    for _ in range(7):
        seen += len(next(turns))
    state = stream.state_dict(seen)
    del turns, loader
    again = PackStream(many, options, ranks=(0, 2))
    again.load_state_dict(state)
    assert loaded(again, after) == whole[7:]


def test_batch_size_may_change_on_resume(many):
    whole = [name for batch in loaded(PackStream(many, ranks=(0, 1)), 0) for name in batch]
    again = PackStream(many, StreamOptions(batch_size=4), ranks=(0, 1))
    again.load_state_dict(PackStream(many, ranks=(0, 1)).state_dict(seen=9))
    assert [name for batch in loaded(again, 2) for name in batch] == whole[9:]


def test_state_at_the_end_of_an_epoch_leaves_nothing_of_it(many):
    stream = PackStream(many, ranks=(0, 1))
    list(stream)
    state = stream.state_dict()
    assert state["seen"] == 101
    again = PackStream(many, ranks=(0, 1))
    again.load_state_dict(state)
    assert list(again) == []


def test_state_without_a_count_is_refused_while_workers_read_ahead(many):
    stream = PackStream(many, ranks=(0, 1))
    turns = iter(DataLoader(stream, batch_size=None, collate_fn=identity, num_workers=1))
    next(turns)
    with pytest.raises(UsageError, match="seen="):
        stream.state_dict()


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (lambda path: PackStream(path, StreamOptions(seed=1), ranks=(0, 2)), "seed"),
        (lambda path: PackStream(path, ranks=(0, 3)), "ranks"),
        (lambda path: PackStream(path, StreamOptions(shuffled_groups=2), ranks=(0, 2)), "shuffled"),
    ],
)
def test_state_of_another_run_is_refused(many, other, named):
    with pytest.raises(UsageError, match=named):
        other(many).load_state_dict(PackStream(many, ranks=(0, 2)).state_dict(seen=3))


def test_persistent_workers_follow_the_epoch(many):
    stream = PackStream(many, ranks=(0, 1))
    loader = DataLoader(
        stream, batch_size=None, collate_fn=identity, num_workers=2, persistent_workers=True
    )
    epochs = []
    for epoch in range(2):
        stream.set_epoch(epoch)
        epochs.append([names(packs) for packs in loader])
    alone = PackStream(many, ranks=(0, 1))
    assert epochs[0] == loaded(alone, 0)
    alone.set_epoch(1)
    assert epochs[1] == loaded(alone, 0)


def test_batches_of_batches_are_refused(many):
    stream = PackStream(many, ranks=(0, 1))
    with pytest.raises(InputError, match="batch_size=None"):
        next(iter(DataLoader(stream, batch_size=2, collate_fn=PackCollator())))


def test_options_are_checked():
    for options in ({"batch_size": 0}, {"max_tokens": 0}, {"shuffled_groups": -1}):
        with pytest.raises(UsageError, match=next(iter(options))):
            StreamOptions(**options)


@pytest.mark.parametrize("workers", [0, 2])
def test_torchdata_resumes_in_the_middle(many, workers):
    stateful = pytest.importorskip("torchdata.stateful_dataloader")

    def loader():
        return stateful.StatefulDataLoader(
            PackStream(many, StreamOptions(2), ranks=(0, 1)),
            batch_size=None, collate_fn=identity, num_workers=workers,
        )  # fmt: skip

    whole = [names(packs) for packs in loader()]
    first = loader()
    turns = iter(first)
    for _ in range(7):
        next(turns)
    state = first.state_dict()
    second = loader()
    second.load_state_dict(state)
    turns = iter(second)
    rest = [names(next(turns)) for _ in range(4)]
    state = second.state_dict()
    third = loader()
    third.load_state_dict(state)
    assert whole[7:] == rest + [names(packs) for packs in third]


def test_torchdata_refuses_state_for_other_workers(many):
    stream = PackStream(many, ranks=(0, 1))
    state = stream.state_dict(seen=0) | {"next": 3, "workers": 2}
    stream.load_state_dict(state)
    with pytest.raises(UsageError, match="among 2"):
        iter(stream)


def test_map_style_loader_with_workers(many):
    loader = DataLoader(PackDataset(many), batch_size=5, collate_fn=identity, num_workers=2)
    assert [name for packs in loader for name in names(packs)] == [f"s{n}" for n in range(101)]


def test_equal_ranks_resume_with_the_same_max_tokens(many):
    options = StreamOptions(max_tokens=90, equal_ranks=True)
    state = PackStream(many, options, ranks=(0, 2)).state_dict(seen=3)
    other = StreamOptions(max_tokens=60, equal_ranks=True)
    with pytest.raises(UsageError, match="max_tokens was 90 and is 60"):
        PackStream(many, other, ranks=(0, 2)).load_state_dict(state)
