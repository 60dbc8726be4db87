/* problems.c: what a user has: functions in C, in a library of their own, as pointers to be solved.
 */
#include <math.h>

/* Kepler's equation, x - e sin x = M, for a comet near the sun; the same with the orbit given. */
typedef struct {
    double eccentricity;
    double mean_anomaly;
} Orbit;

double kepler_of(double x, void *orbit);
double kepler_of(double x, void *orbit)
{
    const Orbit *given = (const Orbit *)orbit;
    return x - given->eccentricity * sin(x) - given->mean_anomaly;
}

double kepler(double x);
double kepler(double x)
{
    return x - 0.967 * sin(x) - 0.25;
}

/* A pendulum, as an angle and how fast it changes; the same with gravity over length given. */
void pendulum_of(double t, const double *y, double *dydt, void *ratio);
void pendulum_of(double t, const double *y, double *dydt, void *ratio)
{
    (void)t;
    dydt[0] = y[1];
    dydt[1] = -*(const double *)ratio * sin(y[0]);
}

void pendulum(double t, const double *y, double *dydt);
void pendulum(double t, const double *y, double *dydt)
{
    (void)t;
    dydt[0] = y[1];
    dydt[1] = -sin(y[0]);
}
