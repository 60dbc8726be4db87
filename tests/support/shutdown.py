"""Test a process whose threads still call Python while it exits."""

from __future__ import annotations

import signal
import subprocess
import sys

# CPython's last words if it exits between the test of whether it does and PyGILState_Ensure;
# nothing in its C API closes that gap (PEP 788).
_UNAVOIDABLE = (
    "Fatal Python error: init_threadstate: thread state already initialized\n",
    # The thread was in PyGILState_Ensure when the TSS key of thread states was deleted. Held there
    # by a debugger, a thread without this package ends in the same way (3.13.0).
    "Fatal Python error: gilstate_tss_set: failed to set current tstate (TSS)\n",
)
# There CPython 3.14 reads freed memory without a message; with ctypes' callbacks, too.
_UNAVOIDABLE_SILENT = sys.version_info >= (3, 14)
# The same a moment later, as ThreadSanitizer reports it: the lock of thread states is gone.
_UNAVOIDABLE_TOLD = ("SEGV on unknown address 0x0", " new_threadstate ", " PyGILState_Ensure ")


def ended_well(done: subprocess.CompletedProcess[str], printed: str) -> bool:
    """Return whether the process exited normally, False in CPython's gap; fail otherwise."""
    if done.returncode == -signal.SIGABRT and done.stderr.startswith(_UNAVOIDABLE):
        return False
    if _UNAVOIDABLE_SILENT and done.returncode == -signal.SIGSEGV and done.stderr == "":
        return False
    if done.returncode != 0 and all(part in done.stderr for part in _UNAVOIDABLE_TOLD):
        return False
    assert (done.returncode, done.stdout, done.stderr) == (0, printed, "")
    return True
