/* solvers.h: a root finder and a solver of ordinary differential equations in plain C, which know
 * nothing of Python.
 *
 * Functions come as pointers with a `data` argument, as C libraries have them. `stop` is asked now
 * and then: when it gives anything but 0, the work ends soon with SOLVER_STOPPED. */
#ifndef SOLVERS_H
#define SOLVERS_H

typedef double (*Function)(double x, void *data);
typedef void (*RightSide)(int n, double t, const double *y, double *dydt, void *data);
typedef int (*Stop)(const void *data);

typedef enum {
    SOLVER_DONE,
    SOLVER_STOPPED,
    SOLVER_ENDS,       /* an end is infinite or NaN */
    SOLVER_SAME_SIGN,  /* no root between the ends is known of */
    SOLVER_NOT_FINITE, /* a value of the function is NaN */
    SOLVER_TOO_LONG,   /* the limit of steps is reached */
    SOLVER_STEP,       /* the step would be smaller than the spacing of doubles */
    SOLVER_MEMORY
} SolverStatus;

/* A zero of f between a and b, where f has different signs, by Brent's method: bracketed all the
 * time, and as fast as the secant method and inverse quadratic interpolation when they work. The
 * root is right to within xtol + rtol * |root|. `calls` counts the calls of f. */
SolverStatus find_root(Function f, void *data, Stop stop, double a, double b, double xtol,
                       double rtol, double *root, long *calls);

/* y(t1) for the n equations y' = f(t, y) and y(t0), which is in y and is replaced, by the pair of
 * Dormand and Prince of orders 5 and 4. The error of each step is kept below atol + rtol * |y|, in
 * the root mean square over the components. `calls` counts the calls of f. */
SolverStatus solve_ode(int n, RightSide f, void *data, Stop stop, double t0, double t1, double *y,
                       double rtol, double atol, long *calls);

#endif
