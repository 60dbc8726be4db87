"""Sort cities with qsort and a Python function, which may raise."""

import nativecall as nc

c = nc.load(
    None,
    """
    typedef struct { char name[16]; double latitude; int inhabitants; } city;
    void qsort(city *, size_t, size_t, int (*)(const city *, const city *));
    """,
)


def sort(cities, key):
    """Order cities by what key gives."""

    def compare(a, b):
        a, b = key(a), key(b)
        return (a > b) - (a < b)

    c.qsort(cities, len(cities), c.ffi.sizeof("city"), compare)


def main():
    given = [(b"Oslo", 59.9, 709037), (b"Quito", -0.2, 1763275), (b"Perth", -32.0, 2224475)]
    cities = c.new("city[]", given)
    for key in (lambda a: a.latitude, lambda a: -a.inhabitants, lambda a: nc.string(a.name)):
        sort(cities, key)
        print([nc.string(one.name, "ascii") for one in cities])
    try:
        sort(cities, lambda a: 1 / (a.inhabitants - 709037))
    except ZeroDivisionError as error:
        print(error)


if __name__ == "__main__":
    main()
