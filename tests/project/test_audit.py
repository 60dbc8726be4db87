"""Audit events: what may run foreign code is seen by hooks, which may refuse it."""

PROGRAM = """
import copy
import operator
import pickle
import sys
import nativecall as nc

events = []
refuse = ""


def hook(event, args):
    if event.startswith("nativecall."):
        events.append((event, *args))
        if event == refuse:
            raise PermissionError(event)


sys.addaudithook(hook)
address = nc.load(None, "int abs(int);").abs.address()
loaded = events[:]
del events[:]
nc.wrap(address, "i:i")
nc.wrap(address, "i:i", errors="nonzero")
for _ in range(2):
    nc.callback("i:i", abs)
nc.callback("i:i", errors=3)(abs)
assert loaded == [("nativecall.load", None)], loaded
assert events == [
    ("nativecall.wrap", address, "i:i"),
    ("nativecall.wrap", address, "i:i"),
    *[("nativecall.callback", "i:i", abs)] * 3,
], events
del events[:]
class Text(str):
    pass
for given in (nc.Signature("i:i"), Text("i:i"), nc.Signature("int (int)")):
    nc.wrap(address, given)
    nc.wrap(address, given, errors="nonzero")
    made = nc.callback(given, operator.neg)
    pickle.loads(pickle.dumps(made))
    copy.copy(made)
seen = [args[1] if event == "nativecall.wrap" else args[0] for event, *args in events]
assert {type(one) for one in seen} == {str}, events
assert seen == ["i:i"] * (len(seen) - len(seen) // 3) + ["int (int)"] * (len(seen) // 3), seen
assert len(seen) >= 12
for refuse, call in (
    ("nativecall.load", lambda: nc.load("m")),
    ("nativecall.wrap", lambda: nc.wrap(address, "i:i")),
    ("nativecall.wrap", lambda: nc.wrap(address, "i:i", errors="nonzero")),
    ("nativecall.callback", lambda: nc.callback("i:i", abs)),
    ("nativecall.callback", lambda: nc.callback("i:i", abs, errors=3)),
):
    try:
        call()
    except PermissionError:
        continue
    raise AssertionError(refuse)
"""


def test_events(forked):
    forked(PROGRAM)
