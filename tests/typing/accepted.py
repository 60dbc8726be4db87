"""What type checkers must accept, and what they know of it; nobody runs this."""

# pyright: standard

from __future__ import annotations

from collections.abc import Callable
from typing import assert_type

import nativecall as nc

address = 0x1000
cos = nc.wrap(address, "d:d", name="cos")
assert_type(cos, nc.NativeCallable[[float], float])
assert_type(cos(0.5), float)
assert_type(cos(1), float)
assert_type(nc.wrap(address, "q:qi")(1, 2), int)
assert_type(nc.wrap(address, "?:d")(1.0), bool)
assert_type(nc.wrap(address, "v:ddq", gil="release")(1.0, 2.0, 3), None)
assert_type(nc.wrap(cos), nc.NativeCallable[[float], float])
assert_type(cos.builtin(0.5), float)

function: Callable[[float], float] = cos
anything: nc.NativeCallable = cos
untold = nc.wrap(address, "d:&d", out=[0])
untold(1, "x", None)
several: nc.NativeCallable = nc.wrap({"d:d": 1, "f:f": 2})
bound: nc.NativeCallable = several.bind(1.0)
converted: nc.NativeCallable = bound["d:d"].convert("f:f", errors="none")


@nc.callback("d:d", errors=0.0)
def half(x: float) -> float:
    return x / 2


assert_type(half(1.0), float)
assert_type(half(x=1.0), float)
as_callable: nc.NativeCallable[[float], float] = half
half.close()
twice = nc.callback("d:d", lambda x: 2.0 * x)

lib = nc.load("m", "double cos(double);", errors={"cos": "none"})
lib.cos(0.5)
made: nc.NativeCallable = nc.wrap(lib.function("cos", "d:d"))
rows: list[str] = [entry.signature for entry in cos.entries]


class Account(nc.NativeObject):
    balance = nc.field("q")
    visits = nc.field("q", atomic=True)
    lock = nc.field(nc.Lock)
    rate = nc.method(None, "d:&v")

    @nc.method("d:&vd")
    def grown(self, by: float) -> float:
        return float(self.balance + by)


class Savings(Account):
    def rate(self) -> float:
        return 0.5


account = Savings(100)
with account.lock:
    account.balance += 5
assert_type(account.rate(), float)
account.grown(2.0)
Account.rate(account)
assert_type(Account.visits.add(account, 1), int)
Account.visits.exchange(account, 3)
assert_type(Account.visits.compare_exchange(account, 3, 4), bool)
assert_type(Account.visits.offset, int)
assert_type(nc.native_object(id(account), Account), Account)
assert_type(nc.native_object(id(account), owned=False), nc.NativeObject)
