"""Compiling LLVM IR, linking the object files, and freeing the code: LLVM's LLJIT by llvmlite.

::

    available() -> bool, reason() -> str      # whether code can be generated here, and why not
    compile(key, module, name) -> Code
    kept(key, name) -> Code | None            # without LLVM, where its object file is kept
    code.address                              # valid as long as `code` is referenced

Guarantees:

- llvmlite is imported by the first call of a function here, and not at all with NATIVECALL_JIT=0;
  `kept` never imports it.
- Where memory cannot be made executable, LLVM is not asked for code, and the first who wants some
  is warned: `available` is False. A process that gives up that right later keeps the code that it
  has, and gets no more.
- Why there is no code is remembered where that lasts. Too little memory does not last: then
  `available` is False this time, and a MemoryError while LLVM starts is the caller's.
- While LLVM starts, one lock is held, and while it works only llvmlite's own (idle.py). Threads
  that ask for the same code at once get one `Code`, compiled once (_singleflight.py).
- Machine code is mapped as long as its `Code` is referenced, and unmapped with the last reference;
  at the end of the process it stays, since what else is torn down may call it.
- An object file that refers to nothing outside is loaded by the core where it can
  (csrc/codegen/objectfile.c), without LLVM; LLVM links the others.
- LLVM keeps about 10 KB for every library that was ever linked, until the LLJIT that linked it is
  disposed of. Hence an LLJIT links a limited number of libraries, then another follows, and the
  first is disposed of with the last `Code` from it. LLVM's optimizer keeps 1.5 KB for every module
  that it sees, for ever; hence it sees a limited number, and later ones are left to the code
  generator, whose code is right and a little longer. Memory is level however much is made and
  dropped.
- LLVM is asked for nothing where less than a megabyte of the caller's C stack is left; then the
  core carries out plans. On aarch64 the code generator of LLVM 22 takes 500 KB for any function, in
  a step that passes over what guards the end of a smaller stack.
- A fork waits until LLVM is idle, so the child has LLVM in a good state: code made before works in
  it, and it can make more.
"""

from __future__ import annotations

import itertools
import os
import sys

from .. import _cache, _ext
from .._errors import warn_once
from .._fifo import Shared
from .._singleflight import once
from . import identity, idle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from llvmlite import binding as llvm

    from .._ext import Foreign

_LIBRARIES = 64  # that one LLJIT links
_MODULES = 64  # that are parsed in one context
_ROOM = 64 << 20  # bytes that must be free before LLVM begins
_STACK = 1 << 20  # bytes of the C stack that must be left
_PERF = os.environ.get("NATIVECALL_PERF") == "1"
_OPTIMIZED = 1024  # modules that LLVM's optimizer sees in a process
_PROBE = "define i32 @nc_probe() nounwind {\n  ret i32 42\n}\n"


class Unloadable(RuntimeError):
    """LLVM cannot load an object file: the system allows no more executable pages, for instance."""


class NoRoom(Exception):
    """LLVM cannot begin at this moment, for want of memory in most cases.

    Where memory runs out while LLVM works, LLVM ends the process.
    """


class Code:
    """Machine code in memory, from the call of `compile` that was given `key`."""

    __slots__ = ("__weakref__", "_kept", "address", "key")

    def __init__(self, key: str, address: int, kept: object = None) -> None:
        self.key = key
        self.address = address  # of the function; valid as long as this object is referenced
        self._kept = kept  # what has its memory, where LLVM has not

    def __repr__(self) -> str:
        return f"<machine code {self.key!r}>"


class _Linker:
    """An LLJIT and how many libraries it has linked."""

    __slots__ = ("jit", "links")

    def __init__(self, jit: llvm.LLJIT) -> None:
        self.jit = jit
        self.links = itertools.count(1)

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if ending():  # see _Machine
            self.jit.detach()


class _Machine:
    """LLVM, made ready for the processor that this process runs on."""

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
        # To dispose of it would be to wait for LLVM, for ever where a thread that Python has ended
        # was at work in it. llvmlite does not see to that if it was imported while Python ended.
        if ending():
            self._shared_context.detach()
            self.target.detach()

    def module(self, text: str, optimized: bool) -> llvm.ModuleRef:
        """A module of IR, verified, and perhaps optimized; ``with`` closes it."""
        # To make a context takes time, and it keeps types of its modules.
        if next(self._parsed) % _MODULES == 0:
            self._shared_context = self.llvm.create_context()
        made = self.llvm.parse_assembly(text, self._shared_context)
        try:
            # LLVM's code generators abort the process where a module is not valid.
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
            # 1.5 KB stay: llvmlite never frees the list of a builder's observers.
            with llvm.create_pass_builder(self.target, options) as builder:
                passes = builder.getModulePassManager()
                try:
                    passes.run(module, builder)
                finally:
                    # Its own close() does nothing, for a base class that does nothing comes first:
                    # 30 to 60 KB of passes would stay.
                    llvm.newpassmanagers.NewPassManager._dispose(passes)
                    passes.detach()

    def emit(self, text: str, optimized: bool) -> bytes:
        """The object file of a module of IR."""
        with self.module(text, optimized) as module:
            made: bytes = self.target.emit_object(module)
            return made

    def link(self, key: str, data: bytes, name: str) -> Code:
        """Load an object file: here where it refers to nothing outside, else by LLVM."""
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
        if sys.is_finalizing():  # then it stays, and nothing can be imported
            tracker.detach()
        else:
            import weakref  # which LLVM's Python side has imported; it takes its time

            weakref.finalize(code, _unload, tracker, linker).atexit = False
        return code

    def _load(self, data: bytes, name: str) -> tuple[llvm.ResourceTracker, _Linker]:
        """What keeps an object file loaded and has its address, and what loaded it."""
        linker = self._linker
        if linker is None or next(linker.links) > _LIBRARIES:
            # JITLink reports what is out of reach; the older linker of LLVM truncates it.
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
    """Unmap the code of a tracker; its LLJIT goes with the last reference to it."""
    # weakref and llvmlite know the end of the process only where they were used before it began.
    if ending():
        tracker.detach()
    else:
        tracker.close()


# -- whether code can be generated ----------------------------------------------------------------

_outcome: tuple[_Machine | None, str] | None = None


def available() -> bool:
    """Whether code can be generated in this process, as far as its memory allows now."""
    return _start()[0] is not None


def lasts() -> bool:
    """Whether what `available` last said holds for as long as this process lives."""
    return _outcome is not None


def reason() -> str:
    """Why no code can be generated; ``""`` where it can."""
    return _start()[1]


def _start() -> tuple[_Machine | None, str]:
    """The machine, made by the first call in the process."""
    outcome = _outcome
    if outcome is None:
        outcome = once("", lambda: _outcome, _tried)
        assert outcome is not None
    return outcome


def _tried() -> tuple[_Machine | None, str]:
    """Make the machine and have it compile a trivial function, or learn why that is impossible."""
    global _outcome
    if _turned_off():
        outcome: tuple[_Machine | None, str] = None, "NATIVECALL_JIT is 0"
    else:
        try:
            _require_room()
            _require_permission()
            outcome = _probe()
        except NoRoom as error:
            return None, str(error)  # the next one who asks may find more
        except Unloadable as error:
            outcome = None, str(error)
    # A thread that could not wait may have been first.
    if _outcome is None:
        _outcome = outcome
    return _outcome


def _turned_off() -> bool:
    """Whether the environment asks for no generated code."""
    chosen = os.environ.get("NATIVECALL_JIT", "")
    if chosen not in ("", "0", "1"):
        warn_once(f"NATIVECALL_JIT={chosen} is not known, so ignored: 0 is for no generated code")
    return chosen == "0"


def _probe() -> tuple[_Machine | None, str]:
    try:
        with idle.starting:
            import ctypes

            import llvmlite
            import llvmlite.binding as llvm
            from llvmlite import ir

            # llvmlite fills a table at its first text, and is not ready for two threads that do it.
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
    """Refuse to judge from an error while llvmlite, or something in Python's library, is being
    imported: a finalizer that runs amid that, and wants code, sees parts of it only.
    """
    for name, module in [*sys.modules.items()]:
        package = name.partition(".")[0]
        known = package == "llvmlite" or package in sys.stdlib_module_names
        if known and getattr(getattr(module, "__spec__", None), "_initializing", False):
            raise NoRoom(f"while {name} is being imported: {error}") from error


def _require_room() -> None:
    """Refuse to begin where LLVM would soon find no memory, or no stack, for it then ends the
    process, and where it never becomes idle.
    """
    if sys.is_finalizing() and not idle.keep_for_good():
        raise NoRoom("Python ends, and has ended a thread in which LLVM was at work")
    if _ext.stack_left() < _STACK:
        raise NoRoom(f"LLVM needs {_STACK >> 10} KB of the C stack, and this thread has less left")
    if not _ext.has_room(_ROOM):
        raise NoRoom(f"LLVM needs {_ROOM >> 20} MB of memory to work in, and there is less now")


def _require_permission() -> None:
    """Refuse to begin where memory cannot be made executable: LLVM would end the process.

    The first time, a warning says what that means; a process may lose the right while it runs.
    """
    refused = _ext.code_refused()
    if not refused:
        return
    warn_once(
        f"{refused}: conversions and loops of ufuncs are carried out by plans, with the same "
        "results, and slower; 'nativecall doctor' shows which"
    )
    raise Unloadable(refused)


# -- compiling ------------------------------------------------------------------------------------

_codes: Shared[tuple[bytes, str], Code] = Shared()


def compile(key: str, module: Callable[[], str], name: str) -> Code:
    """Machine code for a module of LLVM IR.

    Parameters
    ----------
    key : str
        Everything that determines the text of the module. The machine and the versions of LLVM,
        CPython and this package are added to it.
    module : callable
        Returns the text of the module. It is called only where no object file of the key is kept.
        What the text declares and does not define, a library of the process must have; it must
        hold no address, for the object file serves other processes.
    name : str
        The function, or the variable, of the module whose address is wanted.

    Returns
    -------
    Code
        The same object to all who ask for the same, as long as one of them has it.

    Raises
    ------
    Unloadable
        If the object file cannot be linked: a RuntimeError.
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
        # A thread that could not wait may have been first.
        return _codes.share(wanted, _linked(machine, key, module, *wanted))

    code: Code = once(wanted, lambda: _codes.find(wanted), make)
    return code


def kept(key: str, name: str) -> Code | None:
    """What `compile` would give, where that needs no LLVM and it has not been started: the object
    file is kept, and refers to nothing outside. None for all else, also where no code may be made.
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


#: The hash of what LLVM told another process; "" where nothing is known of it, None before that is
#: asked.
_noted: str | None = None


def _digest(hashed: str, key: str) -> bytes:
    """What an object file is kept by; `hashed` is the hash of the identity of LLVM."""
    return _cache.hashed(f"{hashed} {key}".encode()).digest()


def _loaded(key: str, data: bytes, name: str) -> Code | None:
    """Code from an object file that the core can load; None for others."""
    loaded = _ext.load_object(data, name)
    if loaded is None:
        return None
    pages, address = loaded
    code = Code(key, address, pages)
    _tell_perf(code, data, name)
    return code


def _tell_perf(code: Code, data: bytes, name: str) -> None:
    """Write the name of code for perf, if NATIVECALL_PERF=1 asks for that."""
    if _PERF:
        from .perfmap import write

        write(code.key, data, name, code.address)


def _linked(
    machine: _Machine, key: str, module: Callable[[], str], digest: bytes, name: str
) -> Code:
    """Code from the kept object file of the digest, or from the module."""
    _require_permission()
    objects = _cache.shared()
    kept = objects.get(digest)
    if kept is not None:
        try:
            return machine.link(key, kept, name)
        except RuntimeError:
            # Either the file is at fault, or the request is, which then fails below as well.
            objects.discard(digest)
    _require_room()
    optimized = next(machine._optimizations) <= _OPTIMIZED
    made = machine.emit(module(), optimized)
    code = machine.link(key, made, name)
    # Other processes get nothing that they would make better.
    objects.put(digest, made, file=optimized)
    return code
