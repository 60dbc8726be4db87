"""Other projects build against the installed headers, by the three build systems that they use."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

import pytest

import nativecall as nc
from nativecall._cli import main
from support import build
from support.levels import sweep

DOWNSTREAM = Path(__file__).resolve().parents[1] / "downstream"
PROJECTS = ["setuptools", "scikit-build-core", "meson-python"]  # by the packages that build them
USE = """
import nativecall as nc
from nc_ends import sum_of_ends
exp = nc.load("m", "double exp(double);").exp
print(sum_of_ends(exp, 0.0, 0.0), sum_of_ends(abs, 1.0, 2.0))
"""


@pytest.mark.compiler
@pytest.mark.skipif(build.compiler() is None, reason="there is no C compiler")
@pytest.mark.parametrize("project", sweep(PROJECTS, "setuptools"))
def test_a_project_is_built_and_runs(project, tmp_path, capsys):
    for package in (project, "pip"):
        try:
            metadata.version(package)
        except metadata.PackageNotFoundError:
            pytest.skip(f"{package} is not installed")
    if project == "meson-python" and shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not installed")
    source = tmp_path / "source"
    shutil.copytree(DOWNSTREAM / project, source)
    shutil.copy(DOWNSTREAM / "ends.c", source)
    assert main(["--pkgconfigdir"]) == 0
    scripts = [sysconfig.get_path("scripts"), os.environ["PATH"]]
    environment = os.environ | {
        "PATH": os.pathsep.join(scripts),
        "PKG_CONFIG_PATH": capsys.readouterr().out.strip(),
    }
    site = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    options = ["--no-build-isolation", "--no-deps", "--no-index", "--target", str(site)]
    done = subprocess.run(
        [*install, *options, str(source)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    used = subprocess.run(
        [sys.executable, "-c", USE],
        env=os.environ | {"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert used.stdout == "2.0 None\n"


def test_folders_for_build_systems_are_there(capsys):
    for option, file in (
        ("--cmakedir", "nativecall-config.cmake"),
        ("--pkgconfigdir", "nativecall.pc"),
    ):
        assert main([option]) == 0
        folder = Path(capsys.readouterr().out.strip())
        assert (folder / file).is_file()
        assert folder.is_relative_to(Path(nc.get_include()).parent)
