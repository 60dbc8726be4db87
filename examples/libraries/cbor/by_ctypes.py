"""libcbor encodes and checks data; it declares functions with empty parentheses: with ctypes."""

import ctypes as ct


class Mistake(ct.Structure):
    _fields_ = [("position", ct.c_size_t), ("code", ct.c_int)]


class Result(ct.Structure):
    _fields_ = [("error", Mistake), ("read", ct.c_size_t)]


cbor = ct.CDLL("libcbor.so.0.8")
for name in ("new_indefinite_array", "new_null", "build_uint64", "build_string", "move", "load"):
    getattr(cbor, "cbor_" + name).restype = ct.c_void_p
cbor.cbor_build_uint64.argtypes = [ct.c_uint64]
cbor.cbor_build_string.argtypes = [ct.c_char_p]
cbor.cbor_move.argtypes = [ct.c_void_p]
cbor.cbor_array_push.argtypes, cbor.cbor_array_push.restype = [ct.c_void_p] * 2, ct.c_bool
cbor.cbor_decref.argtypes, cbor.cbor_decref.restype = [ct.POINTER(ct.c_void_p)], None
cbor.cbor_serialize_alloc.argtypes = [ct.c_void_p, ct.POINTER(ct.c_void_p), ct.POINTER(ct.c_size_t)]
cbor.cbor_serialize_alloc.restype = ct.c_size_t
cbor.cbor_load.argtypes = [ct.c_char_p, ct.c_size_t, ct.POINTER(Result)]
cbor.free.argtypes, cbor.free.restype = [ct.c_void_p], None


def item(value):
    """A Python value as an item, which the caller is to release."""
    if value is None:
        return cbor.cbor_new_null()
    if isinstance(value, int):
        return cbor.cbor_build_uint64(value)
    if isinstance(value, str):
        return cbor.cbor_build_string(value.encode())
    array = cbor.cbor_new_indefinite_array()
    for each in value:
        cbor.cbor_array_push(array, cbor.cbor_move(item(each)))
    return array


def encode(value):
    made, buffer, size = ct.c_void_p(item(value)), ct.c_void_p(), ct.c_size_t()
    length = cbor.cbor_serialize_alloc(made, ct.byref(buffer), ct.byref(size))
    cbor.cbor_decref(ct.byref(made))
    try:
        return ct.string_at(buffer, length)
    finally:
        cbor.free(buffer)


def check(data):
    """Raise for what is no CBOR, with the place and the kind of the mistake."""
    result = Result()
    made = ct.c_void_p(cbor.cbor_load(data, len(data), ct.byref(result)))
    if not made:
        raise ValueError(result.error.position, result.error.code)
    cbor.cbor_decref(ct.byref(made))


def main():
    data = encode([1, "Grüße", None, [2**40]])
    print(data.hex(" "))
    check(data)
    try:
        check(data[:-1])
    except ValueError as error:
        print(error)


if __name__ == "__main__":
    main()
