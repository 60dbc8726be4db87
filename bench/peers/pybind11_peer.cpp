// bench/peers/pybind11_peer.cpp: pybind11 functions made from the kernels' pointers.
//
// make(signature, address) returns what `m.def(name, pointer)` makes.
#include <cstdint>
#include <string>

#include <pybind11/pybind11.h>

namespace py = pybind11;

template <typename Function> static Function *as(std::uintptr_t address)
{
    return reinterpret_cast<Function *>(address);
}

static py::object make(const std::string &signature, std::uintptr_t address)
{
    if (signature == "d:d")
        return py::cpp_function(as<double(double)>(address));
    if (signature == "d:ddd")
        return py::cpp_function(as<double(double, double, double)>(address));
    throw py::key_error("no kernel with signature '" + signature + "'");
}

PYBIND11_MODULE(bench_pybind11, module)
{
    module.def("make", make);
}
