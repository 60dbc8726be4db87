"""The header of native objects, by each standard and compiler, without a warning; C++'s classes."""

import gc
import shutil
import sysconfig

import pytest

import nativecall as nc
from support import build
from support.levels import sweep

pytestmark = pytest.mark.compiler


@pytest.mark.parametrize("compiler", ["gcc", "g++", "clang", "clang++"])
def test_the_header_compiles_by_every_standard(include, tmp_path, compiler):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    is_cpp = compiler.endswith("++")
    source = tmp_path / ("use.cpp" if is_cpp else "use.c")
    source.write_text(
        "#include <Python.h>\n#include <nativecall/nativeobject.h>\nint main(void) { return 0; }\n"
    )
    for standard in ("c++11", "c++14", "c++17", "c++20") if is_cpp else ("c99", "c11", "c17"):
        command = [compiler, f"-std={standard}", *build.WARNINGS, "-fsyntax-only", f"-I{include}"]
        command += ["-isystem", sysconfig.get_path("include"), str(source)]
        assert build.refusal(command) == "", standard


@pytest.mark.parametrize("standard", sweep(["c++11", "c++17", "c++20"], "c++11", "c++20"))
def test_a_cpp_class_is_a_class_of_native_objects(builder, include, standard, fails):
    name = f"objects_{standard.replace('+', 'p')}"
    made = builder.extension(
        "objects_cpp.cpp", name, include=include, language="c++", standard=standard
    )
    ext = build.load_extension(made)
    one = ext.make(3, 4)
    assert (one.x, one.y, one.sum(), ext.sum(one)) == (3.0, 4.0, 7.0, 7.0)
    assert ext.living() == 2  # Point's part and Base's

    class Sub(ext.Point):
        pass

    sub = Sub()
    assert (sub.x, sub.y, sub.sum(), ext.sum(sub)) == (1.0, 2.0, 3.0, 3.0)
    assert ext.living() == 4
    with fails(ValueError, "x is negative"):
        ext.make(-1, 0)
    assert ext.living() == 4  # nothing is left half-made
    message = "nativecall::make: the fields of class 'Sub' do not match this C++ class"
    with fails(ValueError, message):
        ext.make(1, 2, Sub)
    with fails(ValueError, message.replace("Sub", "NativeObject")):
        ext.make(1, 2, nc.NativeObject)
    message = "nativecall::make: class 'Shape' cannot be instantiated: it has an abstract method"
    with fails(ValueError, message):
        ext.make(1, 2, ext.Shape)
    assert ext.living() == 4
    assert ext.is_native(one)
    with fails(TypeError, "expected a native object (got int)"):
        ext.is_native(3)
    with fails(TypeError, "a Point is needed"):
        ext.sum(3)
    del one, sub
    gc.collect()
    assert ext.living() == 0
