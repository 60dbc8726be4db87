/* brent.c: Brent's method for a root of one function; see solvers.h.
 *
 * Three points are kept: b, the best so far; a, the one before; and c, on the other side of the
 * root, so that it lies between b and c. The next point comes from interpolation where that
 * shrinks the interval fast enough, else from halving it (R. P. Brent, Algorithms for Minimization
 * without Derivatives, 1973, chapter 4). */
#include <math.h>

#include "solvers.h"

enum { MOST_STEPS = 1000 };

/* How far to go from b by interpolation through the points there are; 0 when that goes too far. It
 * must stay in the three quarters of the bracket next to b, and be less than half the step before
 * the last, which is what bounds the number of steps. */
static double interpolated(double a, double fa, double b, double fb, double c, double fc,
                           double tolerance, double before_last)
{
    double middle = (c - b) / 2.0;
    double s = fb / fa;
    double p;
    double q;
    if (a == c) { /* two points: a secant */
        p = 2.0 * middle * s;
        q = 1.0 - s;
    } else { /* three: the inverse function, as a parabola */
        double r = fb / fc;
        double u = fa / fc;
        p = s * (2.0 * middle * u * (u - r) - (b - a) * (r - 1.0));
        q = (u - 1.0) * (r - 1.0) * (s - 1.0);
    }
    if (p > 0.0) {
        q = -q;
    }
    p = fabs(p);
    return 2.0 * p < fmin(3.0 * middle * q - fabs(tolerance * q), fabs(before_last * q)) ? p / q
                                                                                         : 0.0;
}

SolverStatus find_root(Function f, void *data, Stop stop, double a, double b, double xtol,
                       double rtol, double *root, long *calls)
{
    double fa, fb, fc;
    double c = a;
    double step = b - a;
    double before_last = step;
    int i;
    *calls = 0;
    if (!isfinite(a) || !isfinite(b)) {
        return SOLVER_ENDS;
    }
    fa = f(a, data);
    fb = f(b, data);
    fc = fa;
    *calls = 2;
    if (stop(data)) {
        return SOLVER_STOPPED;
    }
    if ((fa < 0.0) == (fb < 0.0) && fa != 0.0 && fb != 0.0) {
        return isnan(fa) || isnan(fb) ? SOLVER_NOT_FINITE : SOLVER_SAME_SIGN;
    }
    for (i = 0; i < MOST_STEPS; i++) {
        double tolerance;
        double middle;
        if (isnan(fb)) {
            return SOLVER_NOT_FINITE;
        }
        if (fabs(fc) < fabs(fb)) { /* c is the better one: change places */
            a = b;
            fa = fb;
            b = c;
            fb = fc;
            c = a;
            fc = fa;
        }
        tolerance = (xtol + rtol * fabs(b)) / 2.0;
        middle = (c - b) / 2.0;
        if (fb == 0.0 || fabs(middle) <= tolerance) {
            *root = b;
            return SOLVER_DONE;
        }
        if (fabs(before_last) >= tolerance && fabs(fa) > fabs(fb)) {
            double next = interpolated(a, fa, b, fb, c, fc, tolerance, before_last);
            before_last = next != 0.0 ? step : middle;
            step = next != 0.0 ? next : middle;
        } else {
            before_last = step = middle;
        }
        a = b;
        fa = fb;
        b += fabs(step) > tolerance ? step : copysign(tolerance, middle);
        fb = f(b, data);
        ++*calls;
        if (stop(data)) {
            return SOLVER_STOPPED;
        }
        if ((fb < 0.0) == (fc < 0.0)) { /* the root is between the last two points */
            c = a;
            fc = fa;
            before_last = step = b - a;
        }
    }
    return SOLVER_TOO_LONG;
}
