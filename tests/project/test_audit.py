"""Audit events: what may run foreign code is seen by hooks, which may refuse it."""

PROGRAM = """
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
