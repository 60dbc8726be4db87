// bench/peers/pybind11_peer.cpp: pybind11 functions made from the kernels' pointers.
//
// make(signature, address) returns what `m.def(name, pointer)` makes; add(module, name, signature,
// address) is that `m.def`, which adds an overload where the name is taken. A NumPy array is taken
// as a C-contiguous py::array_t. Point is the class of the objects section.
#include <complex>
#include <cstdint>
#include <string>

#include <pybind11/complex.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

namespace py = pybind11;
template <typename Item> using Array = py::array_t<Item, py::array::c_style>;

template <typename Function> static Function *as(std::uintptr_t address)
{
    return reinterpret_cast<Function *>(address);
}

template <typename Item> static auto of_array(std::uintptr_t address)
{
    auto *function = as<Item(Item *, std::int64_t)>(address);
    return [function](Array<Item> values, std::int64_t count) {
        return function(values.mutable_data(), count);
    };
}

template <typename... Extra>
static py::object define(const std::string &signature, std::uintptr_t address,
                         const Extra &...extra)
{
    using std::int64_t;
    using Complex = std::complex<double>; // passed as C passes its complex
    if (signature == "d:")
        return py::cpp_function(as<double()>(address), extra...);
    if (signature == "d:d")
        return py::cpp_function(as<double(double)>(address), extra...);
    if (signature == "d:dd")
        return py::cpp_function(as<double(double, double)>(address), extra...);
    if (signature == "d:ddd")
        return py::cpp_function(as<double(double, double, double)>(address), extra...);
    if (signature == "d:dddd")
        return py::cpp_function(as<double(double, double, double, double)>(address), extra...);
    if (signature == "q:qqq")
        return py::cpp_function(as<int64_t(int64_t, int64_t, int64_t)>(address), extra...);
    if (signature == "i:i")
        return py::cpp_function(as<std::int32_t(std::int32_t)>(address), extra...);
    if (signature == "q:q")
        return py::cpp_function(as<int64_t(int64_t)>(address), extra...);
    if (signature == "q:qq")
        return py::cpp_function(as<int64_t(int64_t, int64_t)>(address), extra...);
    if (signature == "f:f")
        return py::cpp_function(as<float(float)>(address), extra...);
    if (signature == "Zd:ZdZd")
        return py::cpp_function(as<Complex(Complex, Complex)>(address), extra...);
    if (signature == "d:&dq")
        return py::cpp_function(of_array<double>(address), extra...);
    if (signature == "f:&fq")
        return py::cpp_function(of_array<float>(address), extra...);
    throw py::key_error("no kernel with signature '" + signature + "'");
}

static py::object make(const std::string &signature, std::uintptr_t address)
{
    return define(signature, address);
}

static void add(py::object scope, const std::string &name, const std::string &signature,
                std::uintptr_t address)
{
    py::object present = py::getattr(scope, name.c_str(), py::none());
    scope.attr(name.c_str()) =
        define(signature, address, py::name(name.c_str()), py::scope(scope), py::sibling(present));
}

struct Point {
    double x = 0, y = 0;
    double sum() const
    {
        return x + y;
    }
};

PYBIND11_MODULE(bench_pybind11, module)
{
    py::class_<Point>(module, "Point")
        .def(py::init<>())
        .def_readwrite("x", &Point::x)
        .def_readwrite("y", &Point::y)
        .def("sum", &Point::sum);
    module.def("make", make);
    module.def("add", add);
}
