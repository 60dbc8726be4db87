"""qsort orders cities by a Python function, which may fail: with ctypes."""

import ctypes as ct


class City(ct.Structure):
    _fields_ = [("name", ct.c_char * 16), ("latitude", ct.c_double), ("inhabitants", ct.c_int)]


COMPARE = ct.CFUNCTYPE(ct.c_int, ct.POINTER(City), ct.POINTER(City))
c = ct.CDLL(None)
c.qsort.argtypes, c.qsort.restype = [ct.c_void_p, ct.c_size_t, ct.c_size_t, COMPARE], None


def sort(cities, key):
    """Order cities by what key gives."""
    raised = []

    def compare(a, b):
        if raised:
            return 0
        try:
            a, b = key(a.contents), key(b.contents)
            return (a > b) - (a < b)
        except Exception as error:
            raised.append(error)
            return 0

    c.qsort(cities, len(cities), ct.sizeof(City), COMPARE(compare))
    if raised:
        raise raised[0]


def main():
    given = [(b"Oslo", 59.9, 709037), (b"Quito", -0.2, 1763275), (b"Perth", -32.0, 2224475)]
    cities = (City * 3)(*given)
    for key in (lambda a: a.latitude, lambda a: -a.inhabitants, lambda a: a.name):
        sort(cities, key)
        print([one.name.decode() for one in cities])
    try:
        sort(cities, lambda a: 1 / (a.inhabitants - 709037))
    except ZeroDivisionError as error:
        print(error)


if __name__ == "__main__":
    main()
