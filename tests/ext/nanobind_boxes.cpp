// Functions as nanobind binds them.
#include <nanobind/nanobind.h>

static double half(double x)
{
    return x / 2;
}

struct Point {
    double x;
    double norm() const { return x < 0 ? -x : x; }
};

NB_MODULE(MODULE, m)
{
    m.def("half", &half);
    m.def("stateless", [](double x) { return x + 1; });
    m.attr("half_capsule") = nanobind::capsule(reinterpret_cast<void *>(&half), "double (double)");
    nanobind::class_<Point>(m, "Point").def(nanobind::init<>()).def("norm", &Point::norm);
}
