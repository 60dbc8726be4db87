"""PROJ projects coordinates, which are unions, passed and returned by value: with cffi.

It passes no unions so, but structs of the same size and members.
"""

from cffi import FFI

ffi = FFI()
ffi.cdef("""
    typedef struct PJconsts PJ;
    typedef struct pj_ctx PJ_CONTEXT;
    typedef struct { double x, y, z, t; } PJ_COORD;
    typedef enum { PJ_FWD = 1, PJ_IDENT = 0, PJ_INV = -1 } PJ_DIRECTION;
    enum { PJ_LOG_NONE };
    int proj_log_level(PJ_CONTEXT *, int);
    PJ *proj_create(PJ_CONTEXT *, const char *definition);
    PJ *proj_destroy(PJ *);
    PJ_COORD proj_trans(PJ *, PJ_DIRECTION, PJ_COORD);
    int proj_errno(const PJ *);
    const char *proj_errno_string(int);
    double proj_torad(double);
""")
proj = ffi.dlopen("libproj.so.25")


def create(definition):
    """The transformation that a text defines."""
    made = proj.proj_create(ffi.NULL, definition.encode())
    if not made:
        raise ValueError("no such projection")
    return made


def main():
    proj.proj_log_level(ffi.NULL, proj.PJ_LOG_NONE)
    utm = create("+proj=utm +zone=32 +ellps=GRS80")
    at = ffi.new("PJ_COORD *", [proj.proj_torad(12), proj.proj_torad(55)])
    there = proj.proj_trans(utm, proj.PJ_FWD, at[0])
    print(round(there.x, 3), round(there.y, 3))
    back = proj.proj_trans(utm, proj.PJ_INV, there)
    print(abs(back.x - at.x) < 1e-12, abs(back.y - at.y) < 1e-12)
    print(proj.proj_trans(utm, proj.PJ_FWD, ffi.new("PJ_COORD *", [0, 2])[0]).x)
    print(ffi.string(proj.proj_errno_string(proj.proj_errno(utm))).decode())
    proj.proj_destroy(utm)
    try:
        create("+proj=none")
    except ValueError as error:
        print(error)


if __name__ == "__main__":
    main()
