// bench/peers/nanobind_peer.cpp: nanobind functions made from the kernels' pointers.
//
// make(signature, address) returns what `m.def(name, pointer)` makes. A NumPy array is taken as a
// writable, C-contiguous nb::ndarray of double.
#include <cstdint>
#include <string>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

namespace nb = nanobind;
using Array = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <typename Function> static Function *as(std::uintptr_t address)
{
    return reinterpret_cast<Function *>(address);
}

static nb::object make(const std::string &signature, std::uintptr_t address)
{
    using std::int64_t;
    if (signature == "d:")
        return nb::cpp_function(as<double()>(address));
    if (signature == "d:d")
        return nb::cpp_function(as<double(double)>(address));
    if (signature == "d:dd")
        return nb::cpp_function(as<double(double, double)>(address));
    if (signature == "d:ddd")
        return nb::cpp_function(as<double(double, double, double)>(address));
    if (signature == "d:dddd")
        return nb::cpp_function(as<double(double, double, double, double)>(address));
    if (signature == "q:qqq")
        return nb::cpp_function(as<int64_t(int64_t, int64_t, int64_t)>(address));
    if (signature == "d:&dq") {
        auto *function = as<double(double *, int64_t)>(address);
        return nb::cpp_function(
            [function](Array values, int64_t count) { return function(values.data(), count); });
    }
    throw nb::key_error(("no kernel with signature '" + signature + "'").c_str());
}

NB_MODULE(bench_nanobind, module)
{
    module.def("make", make);
}
