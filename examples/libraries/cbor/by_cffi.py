"""libcbor encodes and checks data; it declares functions with empty parentheses: with cffi."""

from cffi import FFI

ffi = FFI()
ffi.cdef("""
    typedef struct cbor_item_t cbor_item_t;
    struct cbor_error { size_t position; int code; };
    struct cbor_load_result { struct cbor_error error; size_t read; };
    cbor_item_t *cbor_new_indefinite_array();
    cbor_item_t *cbor_new_null();
    cbor_item_t *cbor_build_uint64(uint64_t value);
    cbor_item_t *cbor_build_string(const char *value);
    bool cbor_array_push(cbor_item_t *array, cbor_item_t *item);
    cbor_item_t *cbor_move(cbor_item_t *item);
    void cbor_decref(cbor_item_t **item);
    size_t cbor_serialize_alloc(const cbor_item_t *item, unsigned char **buffer, size_t *size);
    cbor_item_t *cbor_load(const unsigned char *, size_t, struct cbor_load_result *result);
    void free(void *);
""")
cbor = ffi.dlopen("libcbor.so.0.8")


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
    made = ffi.new("cbor_item_t **", item(value))
    buffer, size = ffi.new("unsigned char **"), ffi.new("size_t *")
    length = cbor.cbor_serialize_alloc(made[0], buffer, size)
    cbor.cbor_decref(made)
    return ffi.buffer(ffi.gc(buffer[0], cbor.free), length)[:]


def check(data):
    """Raise for what is no CBOR, with the place and the kind of the mistake."""
    result = ffi.new("struct cbor_load_result *")
    made = cbor.cbor_load(data, len(data), result)
    if not made:
        raise ValueError(result.error.position, result.error.code)
    cbor.cbor_decref(ffi.new("cbor_item_t **", made))


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
