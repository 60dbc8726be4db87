"""The tests' fork server: a program that goes wrong harms no other one, and nothing outlives it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from support import forkserver

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
FOLDER = Path(forkserver.__file__).parents[1]


@pytest.fixture(scope="module")
def server():
    found = forkserver.ForkServer(())
    yield found
    found.close()


@pytest.fixture
def run(server, tmp_path):
    """Run a program: its status, and what it printed."""

    def run(code, *arguments, timeout=60.0):
        done = server.run(code, arguments, tmp_path, timeout)
        return done.returncode, done.stdout, done.stderr

    return run


def test_programs_start_alike(run, tmp_path):
    run("import os, sys; sys.left = 1; os.environ['LEFT'] = ''; os.umask(0); os.chdir('/')")
    code = "import os, sys; print(hasattr(sys, 'left'), 'LEFT' in os.environ, os.umask(0))"
    mask = os.umask(0)
    os.umask(mask)
    assert run(f"{code}; print(os.getcwd())") == (0, f"False False {mask}\n{tmp_path}\n", "")


def test_the_environment_is_the_tests(run, monkeypatch):
    monkeypatch.setenv("ANY_NAME", "a\nvalue \udcff")
    monkeypatch.delenv("HOME", raising=False)
    code = "import os; print(ascii(os.environ['ANY_NAME']), 'HOME' in os.environ)"
    assert run(code) == (0, "'a\\nvalue \\udcff' False\n", "")


@pytest.mark.parametrize(
    ("code", "status", "printed"),
    [
        ("import sys; print('x'); sys.exit(3)", 3, "x\n"),
        ("import os; os.write(1, b'x'); os._exit(4)", 4, "x"),
        ("import os; print('x', flush=True); os.kill(os.getpid(), 9)", -9, "x\n"),
        ("import os; print('x', flush=True); os.closerange(0, 256)", 0, "x\n"),
        ("print('x' * 10_000_000)", 0, "x" * 10_000_000 + "\n"),
        ("import os; os.fork() or os.execlp('sleep', 'sleep', '1'); print('x')", 0, "x\n"),
    ],
    ids=["exit", "_exit", "signal", "descriptors", "much", "child"],
)
def test_how_programs_end(code, status, printed, run):
    assert run(code) == (status, printed, "")
    assert run("print('next')") == (0, "next\n", "")


@pytest.mark.parametrize("hang", ["while True: pass", "import os; os.kill(os.getpid(), 19)"])
def test_a_program_that_hangs(hang, run):
    with pytest.raises(subprocess.TimeoutExpired):
        run(hang, timeout=0.3)
    assert run("print('next')") == (0, "next\n", "")


def test_an_interrupted_test_takes_no_answer_of_the_next(run):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    main = threading.get_ident()
    thread = threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT))
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run("import time; time.sleep(100)")
    thread.join()
    signal.signal(signal.SIGINT, before)
    assert run("print('next')") == (0, "next\n", "")


def test_a_server_that_has_ended_is_started_again(run):
    with pytest.raises(EOFError):
        run("import os, time; os.kill(os.getppid(), 9); time.sleep(0.1)")
    assert run("print('next')") == (0, "next\n", "")


# SIGINT is ignored in what a shell runs in the background.
CLIENT = """
import os, pathlib, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, sys.argv[1])
from support import forkserver
server = forkserver.ForkServer(())
if sys.argv[2] == "early":  # before the server has answered
    server._answer = lambda timeout: os.kill(os.getpid(), 9)
server.run("open('started', 'w').close()\\nwhile True: pass", [], pathlib.Path.cwd(), 60)
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="no pidfd")
@pytest.mark.parametrize(
    ("when", "number"),
    [("early", signal.SIGKILL), ("late", signal.SIGKILL), ("late", signal.SIGINT)],
)
def test_nothing_outlives_its_client(when, number, tmp_path):
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, str(FOLDER), when],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    limit = time.monotonic() + 60
    try:
        if when == "late":
            while not (tmp_path / "started").exists():
                assert time.monotonic() < limit
                time.sleep(0.01)
            client.send_signal(number)
        printed = client.communicate(timeout=60)[1]
        assert client.returncode == -number
        assert printed.count("Traceback") == (number == signal.SIGINT)  # the client's own
        while running(client.pid):
            assert time.monotonic() < limit
            time.sleep(0.01)
    finally:
        client.kill()
        for left in running(client.pid):
            os.kill(left, signal.SIGKILL)


def running(session: int) -> list[int]:
    """The processes of a session that have not ended; some may be zombies."""
    found = []
    for one in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, its_session = one.read_text().rpartition(")")[2].split()[:4]
            if int(its_session) == session and state != "Z":
                found.append(int(one.parent.name))
    return found
