"""Writing in a thread: the same calls in the same order, and no error is lost."""

import threading

import pytest

from packcli.pack.overlap import Overlapped


def _put_all(overlapped, items):
    with overlapped as behind:
        for item in items:
            behind.put(item)


def test_calls_come_in_order_in_another_thread():
    seen = []
    with Overlapped(lambda item: seen.append((item, threading.current_thread().name))) as behind:
        for item in range(50):
            behind.put(item)
    assert seen == [(item, "packcli-write") for item in range(50)]


def test_an_error_of_the_last_call_is_raised():
    with pytest.raises(ZeroDivisionError), Overlapped(lambda item: 1 // item) as behind:
        behind.put(0)


def test_an_error_stops_the_block_and_later_calls():
    done = []

    def work(item):
        done.append(item)
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        _put_all(Overlapped(work), range(1000))
    assert done == [0]


def test_an_error_of_the_block_goes_first():
    def items():
        yield 0
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _put_all(Overlapped(lambda item: 1 // item), items())
    assert all(thread.name != "packcli-write" for thread in threading.enumerate())
