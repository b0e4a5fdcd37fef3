"""Threads: as many as BLAS may use, and BLAS gets its own back."""

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from elmfield._array.running import n_threads, small_products, spread


def blas():
    return [b["num_threads"] for b in threadpool_info() if b["user_api"] == "blas"]


def test_blas_keeps_to_one_thread_and_gets_its_own_back():
    with threadpool_limits(2, user_api="blas"):
        usual = blas()
        with small_products():
            assert set(blas()) == {1}
            with small_products():
                assert set(blas()) == {1}
            assert set(blas()) == {1}
        assert blas() == usual
        with pytest.raises(KeyError), small_products():
            raise KeyError
        assert blas() == usual


def test_users_that_overlap_leave_blas_as_it_was():
    with threadpool_limits(2, user_api="blas"):
        usual, entered, leave = blas(), threading.Event(), threading.Event()

        def other():
            with small_products():
                entered.set()
                leave.wait(10)

        thread = threading.Thread(target=other)
        with small_products():
            thread.start()
            assert entered.wait(10)
        leave.set()
        thread.join()
        assert blas() == usual


def test_a_limit_on_blas_is_a_limit_on_us():
    with threadpool_limits(1, user_api="blas"):
        assert n_threads() == 1


def test_spread_keeps_the_order_and_passes_errors_on(monkeypatch):
    monkeypatch.setattr("elmfield._array.running.n_threads", lambda: 3)
    assert spread(lambda k: k * k, range(20)) == [k * k for k in range(20)]
    names = set(spread(lambda k: threading.current_thread().name, range(20), 1))
    assert names == {threading.current_thread().name}
    with pytest.raises(ZeroDivisionError):
        spread(lambda k: 1 // k, [1, 2, 0])
    assert spread(np.sqrt, []) == []
