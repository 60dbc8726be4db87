// Functions as pybind11 binds them: pointers, overloads of pointers, and what is no pointer.
#include <pybind11/pybind11.h>

#include <complex>

static double half(double x)
{
    return x / 2;
}

static int add_integers(int a, int b)
{
    return a + b;
}

static double add_numbers(double a, double b)
{
    return a + b;
}

static double total(const double *x, long n, double *out)
{
    return x[0] + static_cast<double>(n) + out[0];
}

static float twice(float x) noexcept
{
    return x * 2;
}

struct Point {
    double x;
};

static double of_point(Point p)
{
    return p.x;
}

static double at_point(Point &p)
{
    return p.x;
}

static std::complex<double> turned(std::complex<double> z)
{
    return z * std::complex<double>(0, 1);
}

static void nothing() {}

using function = double (*)(double);
static double (*bound)(const double *, long, double *) = &total;

PYBIND11_MODULE(MODULE, m)
{
    double scale = 3;
    pybind11::class_<Point>(m, "Point").def(pybind11::init<>()).def_readwrite("x", &Point::x);
    m.def("half", &half);
    m.def("add", &add_integers);
    m.def("add", &add_numbers);
    m.def("mixed", &half);
    m.def("mixed", [](int x) { return x + 1; });
    m.def("twice", &twice);
    m.def("nothing", &nothing);
    m.def("of_point", &of_point);
    m.def("at_point", &at_point);
    m.def("stateless", [](double x) { return x + 1; });
    m.def("scaled", [scale](double x) { return x * scale; });
    m.attr("total") = reinterpret_cast<std::uintptr_t>(bound);
    m.attr("turned") = reinterpret_cast<std::uintptr_t>(&turned);
    m.attr("turned_name") = typeid(&turned).name();
    m.attr("total_name") = typeid(bound).name();
}
