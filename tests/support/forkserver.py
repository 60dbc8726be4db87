"""Run code in a fresh interpreter quickly: a server forks for each program.

The server is a Python that has imported `PRELOADED` and run nothing else. A request names the code,
its arguments, the directory, the environment and the output files. The server forks; the child
leaves the loop, runs the code as `__main__` and exits through `Py_Finalize` as usual. The server
has a single thread, so a fork copies a quiet process. If its client is gone, it kills the running
program and exits. A server that has exited is restarted.

A program that must do an import itself, or reads its environment during an import, needs a real
process: use the fixture `python` instead of `forked`.

The server handles one request at a time, from one client, the test process.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

#: Modules imported in advance. NumPy and llvmlite take the longest to import.
PRELOADED = ("ctypes", "numpy", "cffi", "nativecall", "nativecall._codegen.engine")
#: The server's environment, without variables set by the test that starts it.
_ENVIRONMENT = {**os.environ, "NATIVECALL_CACHE_DIR": ""}

_SERVER = """
import importlib, json, os, select, signal, sys
for name in {preloaded!r}:
    try:
        importlib.import_module(name)
    except ImportError:
        pass
requests, answers = os.fdopen(int(sys.argv[1])), os.fdopen(int(sys.argv[2]), "w")
interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the client decides
for line in requests:
    request = json.loads(line)
    child = os.fork()
    if child == 0:
        break
    try:
        print(child, file=answers, flush=True)
    except BrokenPipeError:
        os.kill(child, signal.SIGKILL)
        os._exit(0)
    try:
        end = os.pidfd_open(child)
    except (AttributeError, OSError):  # not Linux, or an old one
        pass
    else:
        if requests in select.select([requests, end], [], [])[0]:  # closed
            os.kill(child, signal.SIGKILL)
            os._exit(0)
        os.close(end)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), file=answers, flush=True)
else:
    os._exit(0)
signal.signal(signal.SIGINT, interrupted)
requests.close()
answers.close()
for number, path in enumerate(request["files"], 1):
    file = os.open(path, os.O_WRONLY)
    os.dup2(file, number)
    os.close(file)
os.chdir(request["cwd"])
os.environ.clear()
os.environ.update(request["environment"])
sys.argv[:] = ["-c", *request["arguments"]]
sys.path[0] = ""
code = compile(request["code"], "<string>", "exec")
for name in [*globals()]:
    if not name.startswith("__") and name != "code":
        del globals()[name]
del name
exec(code)
"""


class ForkServer:
    """A running server; see `shared`.

    Parameters
    ----------
    preloaded : sequence of str
        The modules imported in advance.
    """

    def __init__(self, preloaded: Sequence[str] = PRELOADED) -> None:
        self._words = [sys.executable, "-W", "error", "-c", _SERVER.format(preloaded=preloaded)]
        self._start()
        atexit.register(self.close)

    def _start(self) -> None:
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        self._process = subprocess.Popen(
            [*self._words, str(requests), str(answers)],
            pass_fds=(requests, answers),
            stdin=subprocess.DEVNULL,
            cwd=tempfile.gettempdir(),  # has no package of ours
            env=_ENVIRONMENT,
        )
        os.close(requests)
        os.close(answers)

    def close(self) -> None:
        """Stop the server."""
        atexit.unregister(self.close)
        self._end()

    def _end(self) -> None:
        os.close(self._requests)
        os.close(self._answers)
        self._process.wait()

    def run(
        self, code: str, arguments: Sequence[str], cwd: Path, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end.

        Raises
        ------
        subprocess.TimeoutExpired
            If it takes longer than `timeout` seconds; it is killed.
        """
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder, name) for name in ("stdout", "stderr")]
            for file in files:
                file.touch()
            request = {"code": code, "arguments": [*arguments], "cwd": str(cwd)}
            request["files"] = [*map(str, files)]
            request["environment"] = dict(os.environ)
            if self._process.poll() is not None:
                self._end()
                self._start()
            os.write(self._requests, (json.dumps(request) + "\n").encode())
            child = int(self._answer(None))
            try:
                status = int(self._answer(timeout))
            except BaseException:  # an interruption, too: it leaves this answer unread
                os.kill(child, signal.SIGKILL)
                self._answer(None)
                raise
            out, err = [file.read_text(encoding="utf-8", errors="replace") for file in files]
            return subprocess.CompletedProcess("forked code", status, out, err)

    def _answer(self, timeout: float | None) -> bytes:
        """Return a line from the server."""
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([self._answers], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("forked code", timeout or 0)
            part = os.read(self._answers, 1)
            if not part:
                self._process.wait()
                raise EOFError("the fork server has ended")
            line += part
        return line


@functools.cache
def shared() -> ForkServer:
    """Return this process's server, started on first use."""
    return ForkServer()
