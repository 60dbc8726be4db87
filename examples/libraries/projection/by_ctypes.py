"""PROJ projects coordinates, which are unions, passed and returned by value: with ctypes.

It passes no unions so, but structs of the same size and members.
"""

import ctypes as ct


class Coordinate(ct.Structure):
    _fields_ = [("x", ct.c_double), ("y", ct.c_double), ("z", ct.c_double), ("t", ct.c_double)]


proj = ct.CDLL("libproj.so.25")
proj.proj_create.argtypes, proj.proj_create.restype = [ct.c_void_p, ct.c_char_p], ct.c_void_p
proj.proj_destroy.argtypes, proj.proj_destroy.restype = [ct.c_void_p], ct.c_void_p
proj.proj_trans.argtypes = [ct.c_void_p, ct.c_int, Coordinate]
proj.proj_trans.restype = Coordinate
proj.proj_log_level.argtypes = [ct.c_void_p, ct.c_int]
proj.proj_errno.argtypes = [ct.c_void_p]
proj.proj_errno_string.restype = ct.c_char_p
proj.proj_torad.argtypes, proj.proj_torad.restype = [ct.c_double], ct.c_double
PJ_FWD, PJ_INV, PJ_LOG_NONE = 1, -1, 0


def create(definition):
    """The transformation that a text defines."""
    made = proj.proj_create(None, definition.encode())
    if not made:
        raise ValueError("no such projection")
    return made


def main():
    proj.proj_log_level(None, PJ_LOG_NONE)
    utm = create("+proj=utm +zone=32 +ellps=GRS80")
    at = Coordinate(proj.proj_torad(12), proj.proj_torad(55))
    there = proj.proj_trans(utm, PJ_FWD, at)
    print(round(there.x, 3), round(there.y, 3))
    back = proj.proj_trans(utm, PJ_INV, there)
    print(abs(back.x - at.x) < 1e-12, abs(back.y - at.y) < 1e-12)
    print(proj.proj_trans(utm, PJ_FWD, Coordinate(0, 2)).x)
    print(proj.proj_errno_string(proj.proj_errno(utm)).decode())
    proj.proj_destroy(utm)
    try:
        create("+proj=none")
    except ValueError as error:
        print(error)


if __name__ == "__main__":
    main()
