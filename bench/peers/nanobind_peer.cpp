// bench/peers/nanobind_peer.cpp: nanobind functions made from the kernels' pointers.
//
// make(signature, address) returns what `m.def(name, pointer)` makes.
#include <cstdint>
#include <string>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

namespace nb = nanobind;

template <typename Function> static Function *as(std::uintptr_t address)
{
    return reinterpret_cast<Function *>(address);
}

static nb::object make(const std::string &signature, std::uintptr_t address)
{
    if (signature == "d:d")
        return nb::cpp_function(as<double(double)>(address));
    if (signature == "d:ddd")
        return nb::cpp_function(as<double(double, double, double)>(address));
    throw nb::key_error(("no kernel with signature '" + signature + "'").c_str());
}

NB_MODULE(bench_nanobind, module)
{
    module.def("make", make);
}
