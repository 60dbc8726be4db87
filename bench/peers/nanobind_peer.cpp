// bench/peers/nanobind_peer.cpp: nanobind functions made from the kernels' pointers.
//
// make(signature, address) returns what `m.def(name, pointer)` makes; add(module, name, signature,
// address) is that `m.def`, which adds an overload where the name is taken. A NumPy array is taken
// as a writable, C-contiguous nb::ndarray. Point is the class of the objects section.
#include <complex>
#include <cstdint>
#include <string>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/complex.h>
#include <nanobind/stl/string.h>

namespace nb = nanobind;
template <typename Item>
using Array = nb::ndarray<Item, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <typename Function> static Function *as(std::uintptr_t address)
{
    return reinterpret_cast<Function *>(address);
}

template <typename Item> static auto of_array(std::uintptr_t address)
{
    auto *function = as<Item(Item *, std::int64_t)>(address);
    return [function](Array<Item> values, std::int64_t count) {
        return function(values.data(), count);
    };
}

template <typename... Extra>
static nb::object define(const std::string &signature, std::uintptr_t address,
                         const Extra &...extra)
{
    using std::int64_t;
    using Complex = std::complex<double>; // passed as C passes its complex
    if (signature == "d:")
        return nb::cpp_function(as<double()>(address), extra...);
    if (signature == "d:d")
        return nb::cpp_function(as<double(double)>(address), extra...);
    if (signature == "d:dd")
        return nb::cpp_function(as<double(double, double)>(address), extra...);
    if (signature == "d:ddd")
        return nb::cpp_function(as<double(double, double, double)>(address), extra...);
    if (signature == "d:dddd")
        return nb::cpp_function(as<double(double, double, double, double)>(address), extra...);
    if (signature == "q:qqq")
        return nb::cpp_function(as<int64_t(int64_t, int64_t, int64_t)>(address), extra...);
    if (signature == "i:i")
        return nb::cpp_function(as<std::int32_t(std::int32_t)>(address), extra...);
    if (signature == "q:q")
        return nb::cpp_function(as<int64_t(int64_t)>(address), extra...);
    if (signature == "q:qq")
        return nb::cpp_function(as<int64_t(int64_t, int64_t)>(address), extra...);
    if (signature == "f:f")
        return nb::cpp_function(as<float(float)>(address), extra...);
    if (signature == "Zd:ZdZd")
        return nb::cpp_function(as<Complex(Complex, Complex)>(address), extra...);
    if (signature == "d:&dq")
        return nb::cpp_function(of_array<double>(address), extra...);
    if (signature == "f:&fq")
        return nb::cpp_function(of_array<float>(address), extra...);
    throw nb::key_error(("no kernel with signature '" + signature + "'").c_str());
}

static nb::object make(const std::string &signature, std::uintptr_t address)
{
    return define(signature, address);
}

static void add(nb::object scope, const std::string &name, const std::string &signature,
                std::uintptr_t address)
{
    define(signature, address, nb::name(name.c_str()), nb::scope(scope));
}

struct Point {
    double x = 0, y = 0;
    double sum() const
    {
        return x + y;
    }
};

NB_MODULE(bench_nanobind, module)
{
    nb::class_<Point>(module, "Point")
        .def(nb::init<>())
        .def_rw("x", &Point::x)
        .def_rw("y", &Point::y)
        .def("sum", &Point::sum);
    module.def("make", make);
    module.def("add", add);
}
