/* numerics.h: a small numerical library in plain C, which knows nothing of Python.
 *
 * Functions come as pointers with a `data` argument, as C libraries have them. `stop` is asked
 * after every call: when it gives anything but 0, the work ends at once and the result means
 * nothing. */
#ifndef NUMERICS_H
#define NUMERICS_H

typedef double (*Function1)(double x, void *data);
typedef double (*Function2)(double t, double y, void *data);
typedef int (*Stop)(const void *data);

/* The integral of f from a to b, by Simpson's rule with 2 * n intervals. */
double integrate(Function1 f, void *data, Stop stop, double a, double b, long n);

/* A zero of f between a and b, where f has different signs, by bisection. 0 with *root; -1 when the
 * signs are equal. */
int find_root(Function1 f, void *data, Stop stop, double a, double b, double *root);

/* y(t1) for y' = f(t, y) and y(t0), by n classical Runge-Kutta steps. */
double solve(Function2 f, void *data, Stop stop, double t0, double y0, double t1, long n);

#endif
