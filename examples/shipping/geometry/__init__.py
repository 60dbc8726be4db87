"""Points in the plane: a C library with its header frozen."""

import os

import nativecall as nc

_here = os.path.dirname(__file__)
lib = nc.load(
    "geometry",
    folders=_here,
    frozen=os.path.join(_here, "geometry.nc"),
    out={"geo_box": ["low", "high"]},
)
distance = lib.geo_distance
perimeter = lib.geo_perimeter
