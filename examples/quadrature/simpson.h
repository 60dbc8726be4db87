/* simpson.h: adaptive quadrature, as scipy.integrate.quad does it in short: Simpson's rule, with
 * intervals cut in two until the halves tell nothing new. It counts how its function is called. */
#ifndef SIMPSON_H
#define SIMPSON_H

#include <math.h>

typedef struct Integrand Integrand;

struct Integrand {
    double (*call)(Integrand *self, double x); /* NAN once it has failed */
    long native;                               /* calls of C functions */
    long boxed;                                /* calls through Python */
};

typedef struct {
    double a, b;       /* the ends */
    double fa, fm, fb; /* the function there and in the middle */
    double value;
} Interval;

static Interval interval(Integrand *f, double a, double fa, double b, double fb)
{
    Interval made = {a, b, fa, 0.0, fb, 0.0};
    made.fm = f->call(f, (a + b) / 2.0);
    made.value = (b - a) / 6.0 * (fa + 4.0 * made.fm + fb);
    return made;
}

static double refined(Integrand *f, Interval whole, double tolerance, int depth, double *error)
{
    const double m = (whole.a + whole.b) / 2.0;
    const Interval left = interval(f, whole.a, whole.fa, m, whole.fm);
    const Interval right = interval(f, m, whole.fm, whole.b, whole.fb);
    const double difference = (left.value + right.value - whole.value) / 15.0;
    if (depth > 0 && fabs(difference) > tolerance) { /* not so with NAN, which ends it all */
        return refined(f, left, tolerance / 2.0, depth - 1, error) +
               refined(f, right, tolerance / 2.0, depth - 1, error);
    }
    *error += fabs(difference);
    return left.value + right.value + difference;
}

/* The integral from a to b, and about how wrong it is in *error. */
static double quad(Integrand *f, double a, double b, double *error)
{
    const double fa = f->call(f, a);
    *error = 0.0;
    return refined(f, interval(f, a, fa, b, f->call(f, b)), 1e-10, 30, error);
}

#endif
