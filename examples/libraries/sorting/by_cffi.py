"""qsort orders cities by a Python function, which may fail: with cffi."""

from cffi import FFI

ffi = FFI()
ffi.cdef("""
    typedef struct { char name[16]; double latitude; int inhabitants; } city;
    void qsort(void *, size_t, size_t, int (*)(const void *, const void *));
""")
c = ffi.dlopen(None)
raised = []


def note(kind, error, traceback):
    raised.append(error)


def sort(cities, key):
    """Order cities by what key gives."""
    raised.clear()

    @ffi.callback("int(const void *, const void *)", onerror=note)
    def compare(a, b):
        if raised:
            return 0
        a, b = key(ffi.cast("city *", a)), key(ffi.cast("city *", b))
        return (a > b) - (a < b)

    c.qsort(cities, len(cities), ffi.sizeof("city"), compare)
    if raised:
        raise raised[0]


def main():
    given = [(b"Oslo", 59.9, 709037), (b"Quito", -0.2, 1763275), (b"Perth", -32.0, 2224475)]
    cities = ffi.new("city[]", given)
    for key in (lambda a: a.latitude, lambda a: -a.inhabitants, lambda a: ffi.string(a.name)):
        sort(cities, key)
        print([ffi.string(one.name).decode() for one in cities])
    try:
        sort(cities, lambda a: 1 / (a.inhabitants - 709037))
    except ZeroDivisionError as error:
        print(error)


if __name__ == "__main__":
    main()
