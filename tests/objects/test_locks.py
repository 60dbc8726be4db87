"""Locks in native objects, which Python and native threads share."""

from __future__ import annotations

import copy
import gc
import signal
import threading
import time

import pytest

import nativecall as nc
from nativecall._objects.declared import Lock


class Account(nc.NativeObject):
    balance = nc.field("q")
    lock = nc.field(nc.Lock, doc="over the balance")
    name = nc.field("(8)b")


def test_a_lock_is_taken_and_given_back(fails):
    account = Account(5)
    assert not account.lock.locked()
    with account.lock as taken:
        assert account.lock.locked()
        assert taken.locked()
        assert not account.lock.acquire(blocking=False)
        assert repr(account.lock) == "<locked lock of a 'Account' object>"
    assert repr(account.lock) == "<unlocked lock of a 'Account' object>"
    assert account.lock.acquire() is True
    account.lock.release()
    with fails(RuntimeError, "nobody has this lock of a 'Account' object"):
        account.lock.release()
    with pytest.raises(KeyError), account.lock:
        raise KeyError
    assert not account.lock.locked()
    assert isinstance(account.lock, nc.Lock)
    assert Account.lock.__doc__ == "over the balance"


def test_a_lock_keeps_its_object():
    lock = Account(5).lock
    gc.collect()
    with lock:
        assert lock.locked()


def test_threads_exclude_each_other():
    account = Account()

    def work():
        for _ in range(300):
            with account.lock:
                before = account.balance
                time.sleep(0)  # another thread gets the GIL
                account.balance = before + 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert account.balance == 1200


def test_native_threads_use_the_same_lock(ext):
    """C adds to two fields that must stay equal; Python looks at both, with the lock."""
    pair = ext.Pair()
    adding = threading.Thread(target=ext.add_locked, args=(pair, 3, 20_000))
    adding.start()
    seen = 0
    while adding.is_alive():
        with pair.lock:
            assert pair.a == pair.b
            pair.a += 1
            pair.b += 1
            seen += 1
    adding.join()
    assert pair.a == pair.b == 60_000 + seen


def test_waiting_lets_other_threads_run_and_signals_through():
    account = Account()
    account.lock.acquire()

    class Stopped(Exception):
        pass

    def stop(number, frame):
        raise Stopped

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Stopped):
            account.lock.acquire()
    finally:
        signal.signal(signal.SIGALRM, before)
    waiting = threading.Thread(target=account.lock.acquire)
    waiting.start()
    account.lock.release()
    waiting.join()
    assert account.lock.locked()


def test_locks_are_no_values(fails):
    account = Account(5, [1] * 8)  # no value is meant for the lock
    assert account.name[7] == 1
    message = "field 'lock' of 'Account' is a lock, which is taken and given back, not assigned to"
    with fails(TypeError, message):
        account.lock = 1
    with fails(TypeError, message):
        Account(lock=1)
    with fails(AttributeError, "field 'lock' of 'Account' cannot be deleted"):
        del account.lock
    assert repr(account).startswith("Account(balance=5, name=array(")


def test_a_copy_s_lock_is_free():
    account = Account(5)
    with account.lock:
        other = copy.copy(account)
        assert other.balance == 5
        assert not other.lock.locked()


def test_a_subclass_s_lock_is_its_own():
    class Two(Account):
        second = nc.field(nc.Lock)

    two = Two()
    with two.lock:
        assert not two.second.locked()
        with two.second:
            assert two.second.locked()


@pytest.mark.parametrize("address", [0, 16, -1, 2**64 - 8])
def test_a_lock_is_only_where_a_field_is_one(address):
    message = "a lock is a field of a native object, declared by nativecall.field"
    account = Account()
    with pytest.raises((TypeError, OverflowError), match=f"{message}|too|negative|convert"):
        Lock(account, address)
    with pytest.raises(TypeError, match=message):
        Lock(account, id(account) + Account.balance.offset)
    with pytest.raises(TypeError, match=message):
        Lock(object(), 16)


def test_a_lock_is_always_atomic(fails):
    with fails(TypeError, "a lock is always atomic; leave atomic=True out"):
        nc.field(nc.Lock, atomic=True)
