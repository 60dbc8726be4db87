/* bench/peers/kernels.c: the C functions that every peer calls; see kernels.h. */
#include "kernels.h"

#include <math.h>

double kernel_d(void)
{
    return 1.0;
}

double kernel_d_d(double a)
{
    return a + 1.0;
}

double kernel_d_dd(double a, double b)
{
    return a + b;
}

double kernel_d_ddd(double a, double b, double c)
{
    return a + b + c;
}

double kernel_d_dddd(double a, double b, double c, double d)
{
    return a + b + c + d;
}

int64_t kernel_q_qqq(int64_t a, int64_t b, int64_t c)
{
    return a + b + c;
}

double kernel_d_Pdq(double *values, int64_t count)
{
    return values[count - 1];
}

double kernel_peak(double x, double at, double width)
{
    return exp(-fabs(x - at) / width);
}

int32_t kernel_i_i(int32_t a)
{
    return a + 1;
}

int64_t kernel_q_q(int64_t a)
{
    return a + 1;
}

int64_t kernel_q_qq(int64_t a, int64_t b)
{
    return a + b;
}

float kernel_f_f(float a)
{
    return a + 1.0f;
}

float kernel_f_Pfq(float *values, int64_t count)
{
    return values[count - 1];
}

double _Complex kernel_Zd_ZdZd(double _Complex a, double _Complex b)
{
    return a + b;
}

struct bench_point kernel_T_Td(struct bench_point a, double b)
{
    struct bench_point result = {a.x * b, a.y * b};
    return result;
}

#define DEFINE(a, b, c)                                                                            \
    double kernel_many_##a##b##c(bench_##a x, bench_##b y, bench_##c z)                            \
    {                                                                                              \
        return (double)x + (double)y + (double)z;                                                  \
    }
BENCH_MANY(DEFINE)
