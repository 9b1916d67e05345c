"""Work that is spread over processes: order, death of a worker, errors."""

import os
import pickle
import time
from pathlib import Path

import pytest

from packcli import engine
from packcli.contract import errors
from packcli.contract.errors import IncompleteError, InputError, Rejection
from packcli.engine import processes, serial
from packcli.shards.reader import ShardUnreadableError

# workers import this module by name: what they run must be at its top level


def square(task):
    return task * task


def slow_first(task):
    time.sleep(0.3 if task == 0 else 0)
    return task


def die_on_three(task):
    if task == 3:
        os._exit(9)
    return task


def die(task):
    os._exit(9)


def unreadable(task):
    if task == 2:
        raise ShardUnreadableError(Path("shard.parquet"), "bad page")
    return task


def refuse(task):
    raise Rejection("bad_json", f"task {task}")


def process_id(task):
    time.sleep(0.05)
    return os.getpid()


class Task:
    def __init__(self, number):
        self.number = number

    def __str__(self):
        return f"train-{self.number:05d}"


def die_holding(task):
    os._exit(9)


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Give spawned workers this module under the name that pickles carry."""
    folder = str(Path(__file__).parent)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", folder, prepend=os.pathsep)
    import test_engine

    for name in ("square", "slow_first", "die_on_three", "die", "unreadable", "refuse"):
        monkeypatch.setitem(globals(), name, getattr(test_engine, name))
    for name in ("process_id", "die_holding", "Task"):
        monkeypatch.setitem(globals(), name, getattr(test_engine, name))


def test_one_worker_stays_here_and_is_lazy():
    done = []
    results = engine.run(lambda task: done.append(task) or task, [1, 2, 3])
    assert next(results) == 1
    assert done == [1]
    assert list(engine.run(process_id, [1, 2])) == [os.getpid()] * 2
    assert list(engine.run(process_id, [1], workers=4)) == [os.getpid()]


def test_no_tasks():
    assert list(engine.run(square, [], workers=4)) == []
    assert list(serial.run(square, [])) == []


def test_results_keep_the_order_of_the_tasks():
    assert list(engine.run(slow_first, list(range(12)), workers=2)) == list(range(12))


def test_every_engine_gives_the_same():
    tasks = list(range(9))
    assert list(processes.run(square, tasks, workers=2)) == list(serial.run(square, tasks))


def test_it_runs_in_other_processes():
    ids = set(engine.run(process_id, list(range(6)), workers=2))
    assert os.getpid() not in ids
    assert 1 <= len(ids) <= 2


def test_results_before_a_dead_worker_arrive_and_the_task_is_named():
    results = []
    with pytest.raises(IncompleteError, match="worker process died") as caught:
        results.extend(engine.run(die_on_three, list(range(8)), workers=2))
    assert caught.value.exit_code == 5
    named = str(caught.value).partition("one of: ")[2].partition(";")[0].split(", ")
    assert "3" in named
    assert "run again to resume" in str(caught.value)


def test_a_pool_that_breaks_while_tasks_are_handed_out_says_so_too():
    with pytest.raises(IncompleteError, match="worker process died"):
        list(engine.run(die, list(range(200)), workers=2))


def test_tasks_are_called_by_their_names_and_briefly():
    with pytest.raises(IncompleteError, match=r"one of: train-00000, train-00001") as caught:
        list(engine.run(die_holding, [Task(0), Task(1)], workers=2))
    assert len(str(caught.value)) < 300


def test_an_error_of_the_work_passes_through_whole():
    results = engine.run(unreadable, list(range(6)), workers=2)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ShardUnreadableError) as caught:
        next(results)
    assert caught.value.reason == "bad page"
    assert caught.value.path == Path("shard.parquet")


def test_a_rejection_passes_through_whole():
    with pytest.raises(Rejection) as caught:
        list(engine.run(refuse, [7, 8], workers=2))
    assert (caught.value.code, caught.value.message) == ("bad_json", "task 7")


def test_every_error_survives_the_way_between_processes():
    every = [
        kind("a message")
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.PackcliError)
    ]
    every += [Rejection("bad_json", "cut"), ShardUnreadableError(Path("x"), "why")]
    for error in every:
        again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
        assert (type(again), str(again)) == (type(error), str(error))
    assert len({kind.exit_code for kind in map(type, every) if kind is not Rejection}) == 6


def test_a_reader_that_stops_early_leaves_no_workers_behind():
    import multiprocessing

    before = set(multiprocessing.active_children())
    results = engine.run(square, list(range(50)), workers=2)
    assert next(results) == 0
    results.close()
    assert set(multiprocessing.active_children()) <= before


def test_input_errors_are_not_taken_for_dead_workers():
    assert not issubclass(InputError, IncompleteError)
