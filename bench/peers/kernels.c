/* bench/peers/kernels.c: the C functions that every peer calls; see kernels.h. */
#include "kernels.h"

#include <math.h>

double kernel_d_d(double a)
{
    return a + 1.0;
}

double kernel_d_ddd(double a, double b, double c)
{
    return a + b + c;
}

double kernel_peak(double x, double at, double width)
{
    return exp(-fabs(x - at) / width);
}

double kernel_solve(double (*slope)(double t, double y), double y, double step, int64_t steps)
{
    for (int64_t i = 0; i < steps; i++) {
        double t = (double)i * step;
        double first = slope(t, y);
        double second = slope(t + step / 2, y + step / 2 * first);
        double third = slope(t + step / 2, y + step / 2 * second);
        double fourth = slope(t + step, y + step * third);
        y += step / 6 * (first + 2 * second + 2 * third + fourth);
    }
    return y;
}

#define TENS(X, n) X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7) X(n##8) X(n##9)
#define HUNDREDS(X, n)                                                                             \
    TENS(X, n##0)                                                                                  \
    TENS(X, n##1)                                                                                  \
    TENS(X, n##2)                                                                                  \
    TENS(X, n##3)                                                                                  \
    TENS(X, n##4)                                                                                  \
    TENS(X, n##5)                                                                                  \
    TENS(X, n##6)                                                                                  \
    TENS(X, n##7)                                                                                  \
    TENS(X, n##8)                                                                                  \
    TENS(X, n##9)
#define THOUSANDS(X, n)                                                                            \
    HUNDREDS(X, n##0)                                                                              \
    HUNDREDS(X, n##1)                                                                              \
    HUNDREDS(X, n##2)                                                                              \
    HUNDREDS(X, n##3)                                                                              \
    HUNDREDS(X, n##4)                                                                              \
    HUNDREDS(X, n##5)                                                                              \
    HUNDREDS(X, n##6)                                                                              \
    HUNDREDS(X, n##7)                                                                              \
    HUNDREDS(X, n##8)                                                                              \
    HUNDREDS(X, n##9)
#define ALL(X) THOUSANDS(X, 1) THOUSANDS(X, 2) THOUSANDS(X, 3) THOUSANDS(X, 4) THOUSANDS(X, 5)
#define ADDS(n)                                                                                    \
    static double adds_##n(double x)                                                               \
    {                                                                                              \
        return x + n;                                                                              \
    }
#define PLACE(n) adds_##n,
ALL(ADDS)
double (*const kernel_table[BENCH_TABLE])(double) = {ALL(PLACE)};

int32_t kernel_i_i(int32_t a)
{
    return a + 1;
}

int64_t kernel_q_q(int64_t a)
{
    return a + 1;
}

float kernel_f_f(float a)
{
    return a + 1.0f;
}

#define DEFINE(a, b, c)                                                                            \
    double kernel_many_##a##b##c(bench_##a x, bench_##b y, bench_##c z)                            \
    {                                                                                              \
        return (double)x + (double)y + (double)z;                                                  \
    }
BENCH_MANY(DEFINE)
