"""Compile LLVM IR, link the object files and free the code, with LLVM's LLJIT (llvmlite).

::

    available() -> bool, reason() -> str      # whether code can be generated here, and why not
    compile(key, module, name) -> Code
    kept(key, name) -> Code | None            # from the cache, without LLVM
    code.address                              # valid as long as `code` is referenced

Guarantees:

- Import: the first call of `available`, `reason` or `compile` imports llvmlite, unless
  NATIVECALL_JIT=0. `kept` never imports it.
- Permission: if memory cannot be made executable, `available` is False, and the first request for
  code warns. A process that loses the permission later keeps its code but cannot compile more.
- Failures: if the reason why code cannot be generated is permanent, it is remembered. If memory is
  short, `available` is False this time only. A MemoryError during LLVM's startup propagates.
- Threads: LLVM's startup holds one lock; later calls take only llvmlite's own lock (idle.py).
  Threads that request the same code at once share one `Code`, compiled once (_singleflight.py).
- Lifetime: machine code stays mapped as long as its `Code` is referenced. At process exit, code is
  not unmapped, since objects that are torn down later may call it.
- Loading: where possible, the core itself loads object files that have no external references
  (csrc/codegen/objectfile.c). LLVM links the other object files.
- Memory: its use is bounded, even if code is created and freed forever. An LLJIT keeps about 10 KB
  for every library that it linked. So each LLJIT links a limited number of libraries, and is freed
  with its last `Code`. LLVM's optimizer leaks 1.5 KB per module, so it runs on a limited number of
  modules. The code of later modules is correct, but a little longer.
- Stack: with less than a megabyte of C stack left, LLVM is not called; the core then interprets
  plans. On aarch64 the code generator of LLVM 22 uses 500 KB for any function, in one step. On a
  smaller stack, that step jumps over the guard page.
- Fork: a fork waits until LLVM is idle. In the child, existing code works, and more can be
  compiled.
"""

from __future__ import annotations

import itertools
import os
import sys

from .. import _cache, _ext
from .._errors import TYPE_CHECKING, warn_once
from .._fifo import Shared
from .._singleflight import once
from . import identity, idle

if TYPE_CHECKING:
    from collections.abc import Callable

    from llvmlite import binding as llvm

    from .._ext import Foreign

_LIBRARIES = 64  # libraries per LLJIT
_MODULES = 64  # modules per context
_ROOM = 64 << 20  # bytes that must be free before LLVM begins
_STACK = 1 << 20  # bytes of the C stack that must be left
_PERF = os.environ.get("NATIVECALL_PERF") == "1"
_OPTIMIZED = 1024  # modules per process that LLVM's optimizer runs on
_PROBE = "define i32 @nc_probe() nounwind {\n  ret i32 42\n}\n"


class Unloadable(RuntimeError):
    """LLVM cannot load an object file, for example if no more executable pages are allowed."""


class NoRoom(Exception):
    """LLVM cannot be used now, usually because memory is short.

    If memory ran out while LLVM was at work, LLVM would abort the process.
    """


class Code:
    """Machine code in memory, compiled or loaded for `key`."""

    __slots__ = ("__weakref__", "_kept", "address", "key")

    def __init__(self, key: str, address: int, kept: object = None) -> None:
        self.key = key
        self.address = address  # of the function; valid as long as this object is referenced
        self._kept = kept  # owns the memory, if LLVM does not

    def __repr__(self) -> str:
        return f"<machine code {self.key!r}>"


class _Linker:
    """An LLJIT and the number of libraries it has linked."""

    __slots__ = ("jit", "links")

    def __init__(self, jit: llvm.LLJIT) -> None:
        self.jit = jit
        self.links = itertools.count(1)

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if ending():  # see _Machine.__del__
            self.jit.detach()


class _Machine:
    """LLVM, initialized for the processor of this process."""

    def __init__(self, llvm: Foreign, version: str) -> None:
        self.llvm = llvm
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.cpu = llvm.get_host_cpu_name()
        self.features = llvm.get_host_cpu_features().flatten()
        self.target = llvm.Target.from_default_triple().create_target_machine(
            cpu=self.cpu, features=self.features, opt=2, reloc="pic", codemodel="small"
        )
        self._names = itertools.count()
        self._linker: _Linker | None = None
        self._optimizations = itertools.count(1)
        self._parsed = itertools.count(1)
        self._shared_context = llvm.create_context()
        triple = llvm.get_process_triple()
        processor = triple, self.cpu, self.features
        self.identity = repr((version, llvm.llvm_version_info, *processor, *identity.python()))
        self.hashed = _cache.hashed(self.identity.encode()).hexdigest()

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # Freeing the context and the target would block forever if Python ended a thread inside
        # LLVM. llvmlite does not detach them itself if it was imported during shutdown.
        if ending():
            self._shared_context.detach()
            self.target.detach()

    def module(self, text: str, optimized: bool) -> llvm.ModuleRef:
        """Parse, verify and perhaps optimize a module of IR; ``with`` closes it."""
        # Creating a context takes time, but a context keeps the types of all its modules. So share
        # one, and replace it from time to time.
        if next(self._parsed) % _MODULES == 0:
            self._shared_context = self.llvm.create_context()
        made = self.llvm.parse_assembly(text, self._shared_context)
        try:
            # LLVM's code generators abort the process on an invalid module.
            made.verify()
            if optimized:
                self.optimize(made)
        except BaseException:
            made.close()
            raise
        return made

    def optimize(self, module: llvm.ModuleRef) -> None:
        """Run LLVM's optimizer over a module."""
        llvm = self.llvm
        with llvm.create_pipeline_tuning_options(speed_level=2) as options:
            options.loop_vectorization = options.slp_vectorization = True
            # This leaks 1.5 KB: llvmlite never frees the list of a builder's observers.
            with llvm.create_pass_builder(self.target, options) as builder:
                passes = builder.getModulePassManager()
                try:
                    passes.run(module, builder)
                finally:
                    # close() would leak 30 to 60 KB of passes: it resolves to a base class's
                    # method, which does nothing.
                    llvm.newpassmanagers.NewPassManager._dispose(passes)
                    passes.detach()

    def emit(self, text: str, optimized: bool) -> bytes:
        """Return the object file of a module of IR."""
        with self.module(text, optimized) as module:
            made: bytes = self.target.emit_object(module)
            return made

    def link(self, key: str, data: bytes, name: str) -> Code:
        """Load an object file, without LLVM if it has no external references."""
        loaded = _loaded(key, data, name)
        if loaded is not None:
            return loaded
        _require_room()
        try:
            tracker, linker = self._load(data, name)
        except RuntimeError as error:
            raise Unloadable(str(error)) from error
        code = Code(key, tracker[name])
        _tell_perf(code, data, name)
        if sys.is_finalizing():  # never unmap it; nothing can be imported now
            tracker.detach()
        else:
            import weakref  # a slow import, but llvmlite has imported it already

            weakref.finalize(code, _unload, tracker, linker).atexit = False
        return code

    def _load(self, data: bytes, name: str) -> tuple[llvm.ResourceTracker, _Linker]:
        """Link an object file; return its tracker, which keeps it loaded, and the linker."""
        linker = self._linker
        if linker is None or next(linker.links) > _LIBRARIES:
            # JITLink reports relocations out of range; LLVM's older linker truncates them.
            jit = self.llvm.create_lljit_compiler(
                self.target, use_jit_link=os.name != "nt", suppress_errors=True
            )
            linker = self._linker = _Linker(jit)
        builder = self.llvm.JITLibraryBuilder().add_object_img(data).add_current_process()
        builder.export_symbol(name)
        return builder.link(linker.jit, f"nativecall.{next(self._names)}"), linker


def _unload(
    tracker: llvm.ResourceTracker, linker: _Linker, ending: Callable[[], bool] = sys.is_finalizing
) -> None:
    """Unmap the code of a tracker; the LLJIT is freed with the last reference to `linker`."""
    # Check for shutdown here: weakref and llvmlite notice it only if they were used earlier.
    if ending():
        tracker.detach()
    else:
        tracker.close()


# -- whether code can be generated ----------------------------------------------------------------

_outcome: tuple[_Machine | None, str] | None = None


def available() -> bool:
    """Return whether code can be generated now; if memory is short, the answer may change."""
    return _start()[0] is not None


def lasts() -> bool:
    """Return whether the last result of `available` is final for this process."""
    return _outcome is not None


def reason() -> str:
    """Return why no code can be generated; ``""`` if it can."""
    return _start()[1]


def _start() -> tuple[_Machine | None, str]:
    """Return (machine, ""), or (None, why there is none); the first call creates the machine."""
    outcome = _outcome
    if outcome is None:
        outcome = once("", lambda: _outcome, _tried)
        assert outcome is not None
    return outcome


def _tried() -> tuple[_Machine | None, str]:
    """Create the machine and compile a trivial function, or find out why that fails."""
    global _outcome
    if _turned_off():
        outcome: tuple[_Machine | None, str] = None, "NATIVECALL_JIT is 0"
    else:
        try:
            _require_room()
            _require_permission()
            outcome = _probe()
        except NoRoom as error:
            return None, str(error)  # not remembered: there may be more room next time
        except Unloadable as error:
            outcome = None, str(error)
    # A thread that must not block may have done the same meanwhile.
    if _outcome is None:
        _outcome = outcome
    return _outcome


def _turned_off() -> bool:
    """Return whether the environment disables generated code."""
    chosen = os.environ.get("NATIVECALL_JIT", "")
    if chosen not in ("", "0", "1"):
        warn_once(f"NATIVECALL_JIT={chosen} is unknown and ignored; 0 disables generated code")
    return chosen == "0"


def _probe() -> tuple[_Machine | None, str]:
    try:
        with idle.starting:
            import ctypes

            import llvmlite
            import llvmlite.binding as llvm
            from llvmlite import ir

            # llvmlite fills a table when the first constant text is created. That is not
            # thread-safe.
            str(ir.Constant(ir.ArrayType(ir.IntType(8), 1), bytearray(b" ")))
            idle.locks[1:] = [llvm.ffi.lib._lock._lock]
            machine = _Machine(llvm, llvmlite.__version__)
            try:
                code = machine.link("probe", machine.emit(_PROBE, False), "nc_probe")
            except RuntimeError as error:
                return None, f"LLVM cannot load code here ({error})"
            value = ctypes.CFUNCTYPE(ctypes.c_int)(code.address)()
    except (ImportError, OSError) as error:
        _require_imported(error)
        return None, f"llvmlite cannot be imported ({error})"
    except (RuntimeError, AttributeError) as error:
        _require_imported(error)
        return None, f"this llvmlite cannot generate code here ({error})"
    if value != 42:
        return None, f"a generated function that returns 42 returned {value}"
    identity.note(machine.identity)
    return machine, ""


def _require_imported(error: Exception) -> None:
    """Raise NoRoom if an error may come from an import in progress.

    A finalizer that requests code during an import of llvmlite or of the standard library sees an
    incomplete module.
    """
    for name, module in [*sys.modules.items()]:
        package = name.partition(".")[0]
        known = package == "llvmlite" or package in sys.stdlib_module_names
        if known and getattr(getattr(module, "__spec__", None), "_initializing", False):
            raise NoRoom(f"while {name} is being imported: {error}") from error


def _require_room() -> None:
    """Raise NoRoom if memory or stack is short, since LLVM would abort the process.

    Also raise it if LLVM will never become idle.
    """
    if sys.is_finalizing() and not idle.keep_for_good():
        raise NoRoom("Python is exiting, and has ended a thread that was using LLVM")
    if _ext.stack_left() < _STACK:
        raise NoRoom(f"LLVM needs {_STACK >> 10} KB of C stack, but this thread has less left")
    if not _ext.has_room(_ROOM):
        raise NoRoom(f"LLVM needs {_ROOM >> 20} MB of memory to work in, but less is available")


def _require_permission() -> None:
    """Raise Unloadable if memory cannot be made executable, since LLVM would abort the process.

    Warn the first time. A process may lose the permission while it runs.
    """
    refused = _ext.code_refused()
    if not refused:
        return
    warn_once(
        f"{refused}: plans carry out conversions and ufunc loops instead, with the same results "
        "but slower; 'nativecall doctor' shows which"
    )
    raise Unloadable(refused)


# -- compiling ------------------------------------------------------------------------------------

_codes: Shared[tuple[bytes, str], Code] = Shared()


def compile(key: str, module: Callable[[], str], name: str) -> Code:
    """Compile a module of LLVM IR, or load its cached object file.

    Parameters
    ----------
    key : str
        Everything that determines the text of the module. The machine and the versions of LLVM,
        CPython and this package are added to the key.
    module : callable
        Returns the text of the module. It is called only if no object file of the key is cached. A
        library loaded in the process must define the symbols that the text declares. The text must
        not contain addresses, since other processes use the object file.
    name : str
        The function or variable of the module whose address is returned.

    Returns
    -------
    Code
        The same object for equal requests, as long as it is referenced.

    Raises
    ------
    Unloadable
        If the object file cannot be linked. This is a RuntimeError, too.
    NoRoom
        If memory is short now.
    RuntimeError
        If `available` is False, or if the module is not valid.
    """
    machine, missing = _start()
    if machine is None:
        raise RuntimeError(f"no code can be generated: {missing}")
    wanted = _digest(machine.hashed, key), name

    def make() -> Code:
        # A thread that must not block may have done the same meanwhile.
        return _codes.share(wanted, _linked(machine, key, module, *wanted))

    return once(wanted, lambda: _codes.find(wanted), make)


def kept(key: str, name: str) -> Code | None:
    """Return the same code as `compile`, if the core can load it from the cache without LLVM.

    LLVM must not have been started, and the cached object file must have no external references.
    Otherwise, or if code is disabled, return None.
    """
    global _noted
    if _outcome is not None or _turned_off():
        return None
    if _noted is None:
        told = identity.noted()
        _noted = "" if told is None else _cache.hashed(told.encode()).hexdigest()
    if not _noted:
        return None
    wanted = _digest(_noted, key), name
    code = _codes.find(wanted)
    if code is None:
        data = _cache.shared().get(wanted[0])
        code = None if data is None else _loaded(key, data, name)
        if code is not None:
            code = _codes.share(wanted, code)
    return code


#: The hash of the stored identity of LLVM; "" if none is stored, None before it is looked up.
_noted: str | None = None


def _digest(hashed: str, key: str) -> bytes:
    """Return the cache key of an object file; `hashed` is the hash of LLVM's identity."""
    return _cache.hashed(f"{hashed} {key}".encode()).digest()


def _loaded(key: str, data: bytes, name: str) -> Code | None:
    """Load an object file without LLVM; return None if LLVM must link it."""
    loaded = _ext.load_object(data, name)
    if loaded is None:
        return None
    pages, address = loaded
    code = Code(key, address, pages)
    _tell_perf(code, data, name)
    return code


def _tell_perf(code: Code, data: bytes, name: str) -> None:
    """If NATIVECALL_PERF=1, write the name of the code for perf."""
    if _PERF:
        from .perfmap import write

        write(code.key, data, name, code.address)


def _linked(
    machine: _Machine, key: str, module: Callable[[], str], digest: bytes, name: str
) -> Code:
    """Link the cached object file of the digest, or compile the module."""
    _require_permission()
    objects = _cache.shared()
    kept = objects.get(digest)
    if kept is not None:
        try:
            return machine.link(key, kept, name)
        except RuntimeError:
            # If the request is at fault rather than the file, compiling below fails too.
            objects.discard(digest)
    _require_room()
    optimized = next(machine._optimizations) <= _OPTIMIZED
    made = machine.emit(module(), optimized)
    code = machine.link(key, made, name)
    # Don't store unoptimized code for other processes, since they can still run the optimizer.
    objects.put(digest, made, file=optimized)
    return code
