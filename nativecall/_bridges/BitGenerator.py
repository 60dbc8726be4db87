"""NumPy's bit generators: objects of `numpy.random`, and capsules named "BitGenerator".

The capsule holds a struct of NumPy's C API (numpy/random/bitgen.h): the state, and functions that
return the next 64-bit or 32-bit unsigned integer, the next double in [0, 1), and raw bits. This
module returns functions without arguments, each bound to the state: ``d:``, ``Q:`` and ``I:``.

NumPy locks a generator while it uses the generator without the GIL. The functions returned here do
not lock. Hold ``bit_generator.lock`` if another thread may use the same generator.
"""

from __future__ import annotations

from .. import _lib
from .._callable.callable import NativeCallable
from .._errors import TYPE_CHECKING

if TYPE_CHECKING:
    from .._ext import Foreign

# Word index of each function in the struct, by its type; word 0 is the state. `next_raw` is
# omitted, since `next_uint64` has the same type.
_WORDS = {"d:P": 3, "Q:P": 1, "I:P": 2}


def native(obj: Foreign) -> NativeCallable | None:
    """Return the functions of a bit generator, or of the bit generator inside a
    `numpy.random.Generator` or a `RandomState`. Return None for other objects, or if the struct
    does not match `obj`.
    """
    bits: Foreign = getattr(obj, "bit_generator", getattr(obj, "_bit_generator", obj))
    capsule = getattr(bits, "capsule", None)
    if type(capsule).__name__ != "PyCapsule" or not hasattr(type(bits), "random_raw"):
        return None
    from .PyCapsule import address

    place = address(capsule, b"BitGenerator")
    if not place or word(place, 0) != bits.ctypes.state_address:
        return None
    return native_at(place, bits)


def native_at(address: int, owner: object) -> NativeCallable:
    """Return the functions of the struct at an address; `owner` owns its memory."""
    state = _lib.ffi.cast("void *", word(address, 0))
    found: dict[str, object] = {}
    for text, index in _WORDS.items():
        raw = NativeCallable(word(address, index), text, owner=owner, name="next")
        found[text.removesuffix("P")] = raw.bind(state)
    return NativeCallable(found, name="next", owner=owner)


def word(address: int, index: int) -> int:
    """Return word `index` of the memory at an address."""
    return int(_lib.ffi.cast("uintptr_t *", address)[index])
