"""Functions of LLVM IR, of `llvmlite.ir` and `llvmlite.binding`, as native callables."""

import gc
import pickle

import numpy as np
import pytest

import nativecall as nc
from nativecall._codegen import engine

ir = pytest.importorskip("llvmlite.ir")
binding = pytest.importorskip("llvmlite.binding")

DOUBLE, POINTER = ir.DoubleType(), ir.PointerType()
I32 = ir.IntType(32)


def made(name="f", result=DOUBLE, args=(DOUBLE, I32, POINTER), body=True):
    """A function of a module of its own; its result is its first argument twice."""
    module = ir.Module(name)
    function = ir.Function(module, ir.FunctionType(result, args), name)
    if body:
        builder = ir.IRBuilder(function.append_basic_block())
        if result is DOUBLE:
            builder.ret(builder.fadd(function.args[0], function.args[0]))
        elif isinstance(result, ir.VoidType):
            builder.ret_void()
        else:
            builder.ret(function.args[0])
    return function


def referred(function):
    """The same, in LLVM's own module."""
    return binding.parse_assembly(str(function.module)).get_function(function.name)


needs_code = pytest.mark.skipif(not engine.available(), reason=engine.reason() or "code")


@needs_code
@pytest.mark.parametrize("form", [lambda f: f, referred], ids=["ir", "binding"])
def test_a_function_is_compiled(form):
    f = nc.wrap(form(made()))
    assert (f.signatures, f.__name__) == (("d:diP",), "f")
    assert f(2.5, 1, None) == 5.0
    gc.collect()
    assert f(2.5, 1, None) == 5.0, "the code lives as long as the callable"
    assert nc.wrap(form(made("g")), "d:diP", name="h").__name__ == "h"
    with pytest.raises(nc.SignatureError, match="'signature' is 'd:d', but the target is 'd:diP'"):
        nc.wrap(form(made()), "d:d")


@needs_code
def test_all_types():
    for bits, code in ((8, "b"), (16, "h"), (32, "i"), (64, "q")):
        f = nc.wrap(made(result=ir.IntType(bits), args=(ir.IntType(bits),)))
        assert (f.signatures, f(-5)) == ((f"{code}:{code}",), -5)
    assert nc.wrap(made(result=ir.FloatType(), args=(ir.FloatType(),)))(2.5) == 2.5
    assert nc.wrap(made(result=ir.VoidType(), args=()))() is None


@needs_code
def test_ir_has_no_signs_and_no_pointees():
    for bits, code, most in (
        (8, "B", 255),
        (16, "H", 65535),
        (32, "I", 2**32 - 1),
        (64, "Q", 2**64 - 1),
    ):
        f = nc.wrap(made(result=ir.IntType(bits), args=(ir.IntType(bits),)), f"{code}:{code}")
        assert (f.signatures, f(most)) == ((f"{code}:{code}",), most)
    assert nc.wrap(made(result=ir.IntType(8), args=(ir.IntType(8),)), "?:?")(True) is True
    f = nc.wrap(made(), "d:dI&d")
    assert f(2.5, 3, np.ones(3)) == 5.0


@needs_code
@pytest.mark.parametrize("signature", ["d:fi&d", "d:dh&d", "d:d&dP", "f:diP", "d:diP.", "d:di"])
def test_what_the_ir_says_is_believed(signature):
    with pytest.raises(nc.SignatureError, match="but the target is 'd:diP'"):
        nc.wrap(made(), signature)


@needs_code
@pytest.mark.parametrize("form", [lambda f: f, referred], ids=["ir", "binding"])
def test_the_ir_is_pickled(form):
    f = nc.wrap(form(made("twice")), "d:dI&d", name="mine", gil="release")
    again = pickle.loads(pickle.dumps(f))
    assert (again.signatures, again.__name__, again(2.5, 3, None)) == (("d:dI&d",), "mine", 5.0)
    assert again.entries[0].gil == "release"
    assert pickle.loads(pickle.dumps(again))(1.5, 0, None) == 3.0
    assert pickle.loads(pickle.dumps(f.bind(2.5)))(0, None) == 5.0


@needs_code
def test_what_a_module_calls():
    module = ir.Module("calls")
    kind = ir.FunctionType(DOUBLE, (DOUBLE,))
    cos = ir.Function(module, kind, "cos")
    intrinsic = module.declare_intrinsic("llvm.sin", (DOUBLE,))
    f = ir.Function(module, kind, "f")
    builder = ir.IRBuilder(f.append_basic_block())
    builder.ret(builder.fadd(builder.call(cos, f.args), builder.call(intrinsic, f.args)))
    assert nc.wrap(f)(0.0) == 1.0
    with pytest.raises(ValueError, match="'cos' is only declared: its module does not define it"):
        nc.wrap(cos)
    missing = ir.Function(module, kind, "nc_tests_nowhere")
    assert missing.is_declaration
    with pytest.raises(
        ValueError, match="declares 'nc_tests_nowhere', which no library in this process exports"
    ):
        nc.wrap(f)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"args": (ir.IntType(1),)}, "takes or returns 'i1', which LLVM IR does not pass as C"),
        ({"args": (ir.IntType(128),)}, "takes or returns 'i128'"),
        (
            {"args": (ir.LiteralStructType((DOUBLE, DOUBLE)),)},
            "takes or returns '{ ?double, double ?}'",
        ),
        ({"args": (ir.VectorType(DOUBLE, 2),)}, "takes or returns '<2 x double>'"),
        ({"args": (ir.HalfType(),)}, "takes or returns 'half'"),
    ],
)
def test_what_c_passes_otherwise_is_refused(change, reason):
    function = made(result=ir.VoidType(), **change)
    for one in (function, referred(function)):
        with pytest.raises(nc.SignatureError, match=reason):
            nc.wrap(one)


def test_functions_that_c_cannot_call():
    module = ir.Module("v")
    kind = ir.FunctionType(ir.VoidType(), (I32,), var_arg=True)
    variadic = ir.Function(module, kind, "v")
    ir.IRBuilder(variadic.append_basic_block()).ret_void()
    with pytest.raises(nc.SignatureError, match="'v' is variadic"):
        nc.wrap(variadic)
    for change, word in (("calling_convention", "fastcc"), ("linkage", "internal")):
        function = made()
        setattr(function, change, word)
        with pytest.raises(nc.SignatureError, match=f"C cannot call 'f', which is '{word}'"):
            nc.wrap(function)
    function = made()
    text = str(function.module).replace('ptr %".3"', 'ptr byval(double) %".3"')
    with pytest.raises(nc.SignatureError, match="which is 'byval' in LLVM IR"):
        nc.wrap(binding.parse_assembly(text).get_function("f"))


@needs_code
def test_modules_that_llvm_refuses():
    function = made()
    function.blocks[0].instructions.clear()
    function.blocks[0].terminator = None
    with pytest.raises(ValueError, match="LLVM rejects the module of 'f': "):
        nc.wrap(function)
    function = made()
    function.module.triple = "riscv64-unknown-linux-gnu"
    with pytest.raises(ValueError, match="the module of 'f' is for 'riscv64-unknown-linux-gnu'"):
        nc.wrap(function)


def test_without_generated_code(monkeypatch):
    monkeypatch.setattr(engine, "available", lambda: False)
    monkeypatch.setattr(engine, "reason", lambda: "somebody said so")
    with pytest.raises(nc.SignatureError, match="'f' is LLVM IR, and no code can be generated"):
        nc.wrap(made())


def test_what_is_no_function():
    module = ir.Module("m")
    number = ir.GlobalVariable(module, DOUBLE, "number")
    for obj in (number, DOUBLE):
        with pytest.raises(TypeError, match="'target' must be an address"):
            nc.wrap(obj)
    for obj in (module, binding.parse_assembly("@x = global i32 5")):
        with pytest.raises(TypeError, match="an LLVM module has many functions: pass one, as in "):
            nc.wrap(obj)
