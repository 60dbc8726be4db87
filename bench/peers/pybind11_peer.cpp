// bench/peers/pybind11_peer.cpp: pybind11 functions made from the kernels' pointers.
//
// make(signature, address) returns what `m.def(name, pointer)` makes. A NumPy array is taken as a
// C-contiguous py::array_t<double>.
#include <cstdint>
#include <string>

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

namespace py = pybind11;
using Array = py::array_t<double, py::array::c_style>;

template <typename Function> static Function *as(std::uintptr_t address)
{
    return reinterpret_cast<Function *>(address);
}

static py::object make(const std::string &signature, std::uintptr_t address)
{
    using std::int64_t;
    if (signature == "d:")
        return py::cpp_function(as<double()>(address));
    if (signature == "d:d")
        return py::cpp_function(as<double(double)>(address));
    if (signature == "d:dd")
        return py::cpp_function(as<double(double, double)>(address));
    if (signature == "d:ddd")
        return py::cpp_function(as<double(double, double, double)>(address));
    if (signature == "d:dddd")
        return py::cpp_function(as<double(double, double, double, double)>(address));
    if (signature == "q:qqq")
        return py::cpp_function(as<int64_t(int64_t, int64_t, int64_t)>(address));
    if (signature == "d:&dq") {
        auto *function = as<double(double *, int64_t)>(address);
        return py::cpp_function([function](Array values, int64_t count) {
            return function(values.mutable_data(), count);
        });
    }
    throw py::key_error("no kernel with signature '" + signature + "'");
}

PYBIND11_MODULE(bench_pybind11, module)
{
    module.def("make", make);
}
