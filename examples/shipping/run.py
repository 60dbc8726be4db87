"""Make a wheel from a header with one of three build systems, and run a program that uses it.

The program runs where the package and nativecall alone are installed: without a compiler, headers,
a cache and llvmlite.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
import zipfile
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
BACKENDS = {
    "meson-python": "mesonpy",
    "scikit-build-core": "scikit_build_core.build",
    "setuptools": "setuptools.build_meta",
}
PROGRAM = """
import geometry
from geometry import lib
print("distance          ", geometry.distance((0, 0), (3, 4)))
print("perimeter         ", geometry.perimeter((0, 0), (3, 0), (3, 4)))
print("box               ", lib.geo_box(lib.new("geo_point[]", [(1, 5), (4, 2)]), 2))
print("dimensions        ", lib.GEO_DIMENSIONS)
"""


def wheel(backend: str, folder: Path) -> Path:
    """The wheel of this package, built in a folder."""
    source = folder / "source"
    shutil.copytree(HERE, source)
    project = source / "pyproject.toml"
    text = project.read_text().replace('"meson-python>=0.17"', f'"{backend}"')
    project.write_text(text.replace('"mesonpy"', f'"{BACKENDS[backend]}"'))
    scripts = sysconfig.get_path("scripts")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    options = ["--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", folder]
    path = os.pathsep.join([scripts, os.environ["PATH"]])
    subprocess.run([*pip, *options, source], check=True, env=os.environ | {"PATH": path})
    return next(folder.glob("*.whl"))


def installed(built: Path, folder: Path) -> Path:
    """The Python of an environment that has the wheel and nativecall."""
    venv.create(folder)
    paths = {"base": str(folder), "platbase": str(folder)}
    site = Path(sysconfig.get_path("platlib", "venv", paths))
    with zipfile.ZipFile(built) as archive:
        archive.extractall(site)
    for name in ("nativecall", "cffi", "_cffi_backend"):
        origin = Path(find_spec(name).origin)
        found = origin.parent if origin.name == "__init__.py" else origin
        (site / found.name).symlink_to(found)
    return Path(sysconfig.get_path("scripts", "venv", paths), "python")


backend = sys.argv[1] if len(sys.argv) > 1 else "setuptools"
with tempfile.TemporaryDirectory() as directory:
    built = wheel(backend, Path(directory))
    with zipfile.ZipFile(built) as archive:
        files = sorted(name for name in archive.namelist() if "dist-info" not in name)
    print("wheel             ", *files)
    python = installed(built, Path(directory, "environment"))
    bare = {"PATH": "", "NATIVECALL_CACHE_DIR": ""}
    subprocess.run([python, "-c", PROGRAM], check=True, env=bare, cwd=directory)
