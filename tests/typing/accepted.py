"""What type checkers must accept, and what they know of it; nobody runs this."""

# pyright: standard

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import assert_type

import numpy as np

import nativecall as nc

address = 0x1000
cos: nc.NativeCallable[[float], float] = nc.wrap(address, "d:d", name="cos")
assert_type(cos(0.5), float)
assert_type(cos(1), float)
assert_type(nc.wrap(cos), nc.NativeCallable[[float], float])
assert_type(nc.wrap(cos, gil="release"), nc.NativeCallable[[float], float])
assert_type(cos.builtin(0.5), float)

function: Callable[[float], float] = cos
anything: nc.NativeCallable = cos
unannotated = nc.wrap(address, "d:d", gil="release")
unannotated(np.float32(1)) + unannotated(Fraction(1, 2))
untold = nc.wrap(address, "d:&d", out=[0])
untold(1, "x", None)
several: nc.NativeCallable = nc.wrap({"d:d": 1, "f:f": 2})
bound: nc.NativeCallable = several.bind(1.0)
converted: nc.NativeCallable = bound["d:d"].convert("f:f", errors="none")


@nc.callback("d:d", errors=0.0)
def half(x: float) -> float:
    return x / 2


assert_type(half(1.0), float)
as_callable: nc.NativeCallable[[float], float] = half
half.close()
twice = nc.callback("d:d", lambda x: 2.0 * x)
thrice: nc.Callback = nc.callback("d:d", lambda x: 3.0 * x)
exact: nc.Callback[[float], float] = nc.callback("d:d", lambda x: 3.0 * x)


def keep(function: nc.Callback) -> None: ...


def take(function: nc.NativeCallable) -> None: ...


keep(nc.callback("d:d", lambda x: x))
keep(half)
take(nc.callback("d:d", lambda x: x))
with nc.callback("d:d", half.function or abs) as opened:
    keep(opened)
    as_opened: nc.Callback = opened
with nc.callback("d:d", half) as known:
    assert_type(known(1.0), float)


@nc.callback("v:&c", encoding="utf-8")
def said(text: str) -> None: ...


lib = nc.load("m", "double cos(double);", errors={"cos": "none"})
lib.cos(0.5)
made: nc.NativeCallable = lib.function("cos", "d:d")
found: nc.NativeCallable[[float], float] = lib.function("cos", "d:d", gil="release")
lib.function("abs", "i:i", free=None)(np.int64(3))
checked: nc.NativeCallable = lib.function("cos", "d:d", check=lambda result, *_: str(result))
declared: nc.NativeCallable = lib.function("cos")
with lib as same:
    assert_type(same, nc.Library)


def annotated(x: float) -> float:
    return x


assert_type(nc.callback(types=lib)(annotated)(1.0), float)
loop: nc.NativeCallable = nc.ufunc_loop(np.add, "dd->d")
block = lib.new("int[4]")
block[0] = lib.asarray(block).sum()
for entry in cos.entries:
    assert_type(entry.signature, str)
    assert_type(entry.address, int)
    assert_type(entry.fortran, bool)
assert_type(nc.customslots(cos)[0].data, int)


class Account(nc.NativeObject):
    balance = nc.field("q")
    visits = nc.field("q", atomic=True)
    rate = nc.method(None, "d:&v")

    @nc.method("d:&vd")
    def grown(self, by: float) -> float:
        return float(self.balance + by)


class Savings(Account):
    def rate(self) -> float:
        return 0.5


class Branch(nc.NativeObject):
    head = nc.field(Account)
    next = nc.field("Branch")
    size = nc.field("(3)d")
    share = nc.field("d")
    open = nc.field("?")


account = Savings(100)
account.balance += 5
assert_type(account.rate(), float)
assert_type(account.grown(2.0), float)
branch = Branch(account, share=0.5)
branch.share = np.float32(1)
branch.next = branch
branch.size[0] = 1
assert_type(branch.head, Account | None)
accounts = nc.ObjectArray(Account, 3)
of_accounts: nc.ObjectArray[Account] = accounts
assert_type(accounts[0], Account)
of_each: list[int] = [one.balance for one in accounts]
accounts["balance"][:] = 0
assert_type(nc.string(b"x", "utf-8"), str | None)
assert_type(nc.string(b"x"), bytes | str | None)
assert_type(cos.to_ufunc(), np.ufunc)
Account.rate(account)
assert_type(Account.visits.add(account, 1), int)
Account.visits.exchange(account, 3)
assert_type(Account.visits.compare_exchange(account, 3, 4), bool)
assert_type(Account.visits.offset, int)
assert_type(nc.native_object(id(account), Account), Account)
assert_type(nc.native_object(id(account), owned=False), nc.NativeObject)
