/* bench/peers/kernels.h: the C functions that every peer calls.
 *
 * They live in a shared library of their own, so no peer can inline one, and do next to nothing, so
 * that a row shows the cost of the call. A peer is given the address, or links against the library.
 */
#ifndef BENCH_KERNELS_H
#define BENCH_KERNELS_H

#include <stdint.h>

#if defined(_WIN32)
#define BENCH_EXPORT __declspec(dllexport)
#else
#define BENCH_EXPORT __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

BENCH_EXPORT double kernel_d_d(double a);
BENCH_EXPORT double kernel_d_ddd(double a, double b, double c);
BENCH_EXPORT int64_t kernel_q_q(int64_t a);
BENCH_EXPORT float kernel_f_f(float a);
BENCH_EXPORT int32_t kernel_i_i(int32_t a);

/* An integrand that takes some hundred evaluations, for its peak is no smooth one. */
BENCH_EXPORT double kernel_peak(double x, double at, double width);

/* Runge and Kutta's method from t = 0 in so many steps, which evaluates four times in each. */
BENCH_EXPORT double kernel_solve(double (*slope)(double t, double y), double y, double step,
                                 int64_t steps);

/* 5,000 functions, of which number i adds 1000 + i. */
enum { BENCH_TABLE = 5000 };
extern BENCH_EXPORT double (*const kernel_table[BENCH_TABLE])(double);

/* 125 signatures of three arguments, kernel_many_ddd to kernel_many_hhh. */
#define BENCH_THIRD(X, a, b)                                                                       \
    X(a, b, d)                                                                                     \
    X(a, b, q)                                                                                     \
    X(a, b, i)                                                                                     \
    X(a, b, f)                                                                                     \
    X(a, b, h)
#define BENCH_SECOND(X, a)                                                                         \
    BENCH_THIRD(X, a, d)                                                                           \
    BENCH_THIRD(X, a, q)                                                                           \
    BENCH_THIRD(X, a, i)                                                                           \
    BENCH_THIRD(X, a, f)                                                                           \
    BENCH_THIRD(X, a, h)
#define BENCH_MANY(X)                                                                              \
    BENCH_SECOND(X, d)                                                                             \
    BENCH_SECOND(X, q)                                                                             \
    BENCH_SECOND(X, i)                                                                             \
    BENCH_SECOND(X, f)                                                                             \
    BENCH_SECOND(X, h)
typedef double bench_d;
typedef int64_t bench_q;
typedef int32_t bench_i;
typedef float bench_f;
typedef int16_t bench_h;
#define BENCH_DECLARE(a, b, c)                                                                     \
    BENCH_EXPORT double kernel_many_##a##b##c(bench_##a, bench_##b, bench_##c);
BENCH_MANY(BENCH_DECLARE)

#ifdef __cplusplus
}
#endif

#endif
