// numerics.hpp: a small numerical library in C++11, which knows nothing of Python.
//
// A function is whatever can be called with doubles: a lambda, a pointer, an object. Each algorithm
// is compiled for the type that it is given, so the compiler sees what the loop calls. A function
// ends the work by throwing.
#ifndef NUMERICS_HPP
#define NUMERICS_HPP

#include <stdexcept>

namespace numerics
{

// The integral of f(x) from a to b, by Simpson's rule with 2 * n intervals.
template <class Function> double integrate(const Function &f, double a, double b, long n)
{
    const double h = (b - a) / (2.0 * static_cast<double>(n));
    double sum = f(a) + f(b);
    for (long i = 1; i < 2 * n; i++) {
        sum += (i % 2 == 1 ? 4.0 : 2.0) * f(a + static_cast<double>(i) * h);
    }
    return sum * h / 3.0;
}

// A zero of f(x) between a and b, by bisection. Throws std::domain_error when the signs at both
// ends are equal.
template <class Function> double find_root(const Function &f, double a, double b)
{
    const double left = f(a);
    const double right = f(b);
    if ((left < 0.0) == (right < 0.0) && left != 0.0 && right != 0.0) {
        throw std::domain_error("the function has the same sign at both ends");
    }
    for (int i = 0; i < 60; i++) {
        const double middle = a + (b - a) / 2.0;
        ((f(middle) < 0.0) == (left < 0.0) ? a : b) = middle;
    }
    return a + (b - a) / 2.0;
}

// y(t1) for y' = f(t, y) and y(t0), by n classical Runge-Kutta steps.
template <class Function> double solve(const Function &f, double t0, double y0, double t1, long n)
{
    const double h = (t1 - t0) / static_cast<double>(n);
    double y = y0;
    for (long i = 0; i < n; i++) {
        const double t = t0 + static_cast<double>(i) * h;
        const double k1 = f(t, y);
        const double k2 = f(t + h / 2.0, y + h / 2.0 * k1);
        const double k3 = f(t + h / 2.0, y + h / 2.0 * k2);
        const double k4 = f(t + h, y + h * k3);
        y += h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4);
    }
    return y;
}

} // namespace numerics

#endif
