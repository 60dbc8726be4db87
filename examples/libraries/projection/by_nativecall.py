"""Project coordinates with PROJ, which passes and returns them as unions by value."""

import nativecall as nc

DECLARED = """
    typedef struct PJconsts PJ;
    typedef struct pj_ctx PJ_CONTEXT;
    typedef union { struct { double x, y, z, t; } xyzt; struct { double lam, phi; } lp; } PJ_COORD;
    typedef enum { PJ_FWD = 1, PJ_IDENT = 0, PJ_INV = -1 } PJ_DIRECTION;
    enum { PJ_LOG_NONE };
    int proj_log_level(PJ_CONTEXT *, int);
    PJ *proj_create(PJ_CONTEXT *, const char *definition);
    PJ *proj_destroy(PJ *);
    PJ_COORD proj_trans(PJ *, PJ_DIRECTION, PJ_COORD);
    int proj_errno(const PJ *);
    const char *proj_errno_string(int);
    double proj_torad(double);
"""
proj = nc.load("proj", DECLARED, encoding="utf-8", errors={"proj_create": "null"})


def main():
    proj.proj_log_level(None, proj.PJ_LOG_NONE)
    utm = proj.proj_create(None, "+proj=utm +zone=32 +ellps=GRS80")
    lam, phi = proj.proj_torad(12), proj.proj_torad(55)
    there = proj.proj_trans(utm, proj.PJ_FWD, {"lp": (lam, phi)})
    print(round(there.xyzt.x, 3), round(there.xyzt.y, 3))
    back = proj.proj_trans(utm, proj.PJ_INV, there).lp
    print(abs(back.lam - lam) < 1e-12, abs(back.phi - phi) < 1e-12)
    print(proj.proj_trans(utm, proj.PJ_FWD, {"lp": (0, 2)}).xyzt.x)
    print(proj.proj_errno_string(proj.proj_errno(utm)))
    proj.proj_destroy(utm)
    try:
        proj.proj_create(None, "+proj=none")
    except nc.NativeFailure:
        print("no such projection")


if __name__ == "__main__":
    main()
