"""Encode and check data with libcbor, whose functions are declared with empty parentheses."""

import nativecall as nc

cbor = nc.load(
    "cbor",
    """
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
    """,
    out={"cbor_serialize_alloc": ["buffer", "size"], "cbor_load": ["result"]},
    errors={"cbor_load": "null"},
    free={"cbor_serialize_alloc": "free"},
)


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
    made = item(value)
    length, data, _ = cbor.cbor_serialize_alloc(made)
    cbor.cbor_decref(cbor.new("cbor_item_t *[1]", [made]))
    return bytes(cbor.ffi.buffer(data, length))


def check(data):
    """Raise for what is no CBOR, with the place and the kind of the mistake."""
    made, _ = cbor.cbor_load(data, len(data))
    cbor.cbor_decref(cbor.new("cbor_item_t *[1]", [made]))


def main():
    data = encode([1, "Grüße", None, [2**40]])
    print(data.hex(" "))
    check(data)
    try:
        check(data[:-1])
    except nc.NativeFailure as failure:
        print(tuple(failure.out.error))


if __name__ == "__main__":
    main()
