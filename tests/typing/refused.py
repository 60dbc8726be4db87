"""What type checkers must refuse: the lines marked so, and no others; nobody runs this."""

# pyright: standard

from __future__ import annotations

import nativecall as nc

address = 0x1000
cos: nc.NativeCallable[[float], float] = nc.wrap(address, "d:d")
cos("x")  # refused
cos(1.0, 2.0)  # refused
cos(None)  # refused
cos(1j)  # refused
text: str = cos(1.0)  # refused
nc.wrap(cos)("x")  # refused
cos.builtin("x")  # refused
nc.load("m").function("cos", "d:d", typo=1)  # refused
nc.load("m").function("cos", 5)  # refused
nc.wrap(address, "d:d", gil="never")  # refused
nc.wrap(address, "d:d", typo=1)  # refused
nc.wrap()  # refused
nc.wrap(address, 5)  # refused
nc.load("m", errors="sometimes")  # refused
nc.no_such_name  # refused
cos.no_such_attribute  # refused
nc.callback("d:d", 5)  # refused
nc.callback()  # refused


@nc.callback("d:d")
def half(x: float) -> float:
    return x / 2


half("x")  # refused
nothing: int = half.closed()  # refused


class Account(nc.NativeObject):
    visits = nc.field("q", atomic=True)
    rate = nc.method(None, "d:&v")
    parent = nc.field(nc.NativeObject)

    @nc.method("d:&vd")
    def grown(self, by: float) -> float:
        return by


account = Account(100)
Account.visits.add(account)  # refused
Account.visits.add(account, "x")  # refused
Account.visits.exchange(5, 1)  # refused
Account.visits.compare_exchange(account, 1)  # refused
Account.visits.swap(account, 1)  # refused
Account.rate(5)  # refused
nc.field()  # refused
nc.method(None, "d:&v", errors="bogus")  # refused
number: int = cos.entries[0].signature  # refused
number = nc.customslots(cos)[0].key  # refused
nc.field("q", atomic=True, typo=1)  # refused
account.parent = 5  # refused
account.parent.nothing  # refused
account.grown("x")  # refused
nc.ObjectArray(int, 3)  # refused
nc.ObjectArray(Account, 3)[0].nothing  # refused
nc.string(b"x", 3)  # refused
nothing = nc.string(b"x", "utf-8")  # refused
