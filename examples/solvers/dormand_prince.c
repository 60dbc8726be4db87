/* dormand_prince.c: ordinary differential equations by the pair of Dormand and Prince; see
 * solvers.h.
 *
 * A step evaluates the right side six times and has the value for the next one from its seventh
 * stage. Two formulas, of orders 5 and 4, share the stages; their difference is the error that the
 * step size is controlled by. The first step and the rules of control are those of Hairer, Norsett
 * and Wanner, Solving Ordinary Differential Equations I, section II.4, with the constants that
 * SciPy's RK45 has, so both take the same steps. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "solvers.h"

enum { STAGES = 7, MOST_STEPS = 1000000 };

static const double nodes[STAGES] = {0.0, 1.0 / 5, 3.0 / 10, 4.0 / 5, 8.0 / 9, 1.0, 1.0};
static const double weights[STAGES][STAGES] = {
    {0.0},
    {1.0 / 5},
    {3.0 / 40, 9.0 / 40},
    {44.0 / 45, -56.0 / 15, 32.0 / 9},
    {19372.0 / 6561, -25360.0 / 2187, 64448.0 / 6561, -212.0 / 729},
    {9017.0 / 3168, -355.0 / 33, 46732.0 / 5247, 49.0 / 176, -5103.0 / 18656},
    {35.0 / 384, 0.0, 500.0 / 1113, 125.0 / 192, -2187.0 / 6784, 11.0 / 84}, /* order 5 */
};
/* Order 5 less order 4. */
static const double difference[STAGES] = {71.0 / 57600,      0.0,        -71.0 / 16695, 71.0 / 1920,
                                          -17253.0 / 339200, 22.0 / 525, -1.0 / 40};

/* The equations, and where a solution stands. */
typedef struct {
    int n;
    RightSide f;
    void *data;
    long calls;
    double rtol;
    double atol;
    double *y;         /* the solution at the last step taken */
    double *next;      /* at the end of the step under way */
    double *k[STAGES]; /* the right side at each stage; k[0] belongs to y */
} Problem;

static void evaluate(Problem *p, double t, const double *y, double *dydt)
{
    p->f(p->n, t, y, dydt, p->data);
    p->calls++;
}

/* next = y + h * (the weighted sum of the stages before `stage`) */
static void advance(Problem *p, int stage, double h)
{
    int i;
    int j;
    for (i = 0; i < p->n; i++) {
        double slope = 0.0;
        for (j = 0; j < stage; j++) {
            slope += weights[stage][j] * p->k[j][i];
        }
        p->next[i] = p->y[i] + h * slope;
    }
}

/* What an error in component i is measured by. */
static double scale(const Problem *p, int i, double y)
{
    return p->atol + p->rtol * fmax(fabs(p->y[i]), fabs(y));
}

/* The error of a step of size h that has been made: accepted below 1. */
static double error_of(const Problem *p, double h)
{
    double sum = 0.0;
    int i;
    int j;
    for (i = 0; i < p->n; i++) {
        double error = 0.0;
        for (j = 0; j < STAGES; j++) {
            error += difference[j] * p->k[j][i];
        }
        error *= h / scale(p, i, p->next[i]);
        sum += error * error;
    }
    return sqrt(sum / p->n);
}

/* A first step, from the sizes of y, y' and y''. */
static double first_step(Problem *p, double t, double span)
{
    double size = 0.0;
    double slope = 0.0;
    double bend = 0.0;
    double length = fabs(span);
    double trial;
    double largest;
    int i;
    for (i = 0; i < p->n; i++) {
        double unit = scale(p, i, 0.0);
        size += p->y[i] / unit * (p->y[i] / unit);
        slope += p->k[0][i] / unit * (p->k[0][i] / unit);
    }
    size = sqrt(size / p->n);
    slope = sqrt(slope / p->n);
    trial = fmin(size < 1e-5 || slope < 1e-5 ? 1e-6 : 0.01 * size / slope, length);
    for (i = 0; i < p->n; i++) {
        p->next[i] = p->y[i] + copysign(trial, span) * p->k[0][i];
    }
    evaluate(p, t + copysign(trial, span), p->next, p->k[1]);
    for (i = 0; i < p->n; i++) {
        double change = (p->k[1][i] - p->k[0][i]) / scale(p, i, 0.0);
        bend += change * change;
    }
    bend = sqrt(bend / p->n) / trial;
    largest = fmax(slope, bend);
    return fmin(fmin(100.0 * trial, length),
                largest <= 1e-15 ? fmax(1e-6, trial * 1e-3) : pow(0.01 / largest, 1.0 / 5));
}

/* From t to t1, with p->k[0] known. */
static SolverStatus follow(Problem *p, Stop stop, double t, double t1)
{
    double size = first_step(p, t, t1 - t);
    int rejected = 0;
    int steps;
    for (steps = 0; t != t1; steps++) {
        double least = 10.0 * fabs(nextafter(t, t1) - t);
        double end;
        double error;
        double factor;
        int stage;
        if (stop(p->data)) {
            return SOLVER_STOPPED;
        }
        if (steps == MOST_STEPS) {
            return SOLVER_TOO_LONG;
        }
        if (size < least) {
            if (rejected) {
                return SOLVER_STEP;
            }
            size = least;
        }
        end = size < fabs(t1 - t) ? t + copysign(size, t1 - t) : t1;
        for (stage = 1; stage < STAGES; stage++) {
            advance(p, stage, end - t);
            evaluate(p, t + nodes[stage] * (end - t), p->next, p->k[stage]);
        }
        size = fabs(end - t);
        error = error_of(p, end - t);
        factor = 0.9 * pow(error, -1.0 / 5); /* fmin and fmax make of NaN what must be done */
        if (error < 1.0) {
            double *swapped = p->y;
            p->y = p->next;
            p->next = swapped;
            swapped = p->k[0];
            p->k[0] = p->k[STAGES - 1];
            p->k[STAGES - 1] = swapped;
            t = end;
            size *= fmin(rejected ? 1.0 : 10.0, factor);
            rejected = 0;
        } else {
            size *= fmax(0.2, factor);
            rejected = 1;
        }
    }
    return stop(p->data) ? SOLVER_STOPPED : SOLVER_DONE;
}

SolverStatus solve_ode(int n, RightSide f, void *data, Stop stop, double t0, double t1, double *y,
                       double rtol, double atol, long *calls)
{
    Problem p = {n, f, data, 0, rtol, atol, NULL, NULL, {NULL}};
    /* Zeros, for a right side that fails writes nothing. */
    double *memory = (double *)calloc((size_t)n * (STAGES + 2), sizeof *memory);
    SolverStatus status;
    int i;
    *calls = 0;
    if (memory == NULL) {
        return SOLVER_MEMORY;
    }
    p.y = memory;
    p.next = memory + n;
    for (i = 0; i < STAGES; i++) {
        p.k[i] = memory + (size_t)n * (size_t)(i + 2);
    }
    memcpy(p.y, y, (size_t)n * sizeof *y);
    evaluate(&p, t0, p.y, p.k[0]);
    status = follow(&p, stop, t0, t1);
    memcpy(y, p.y, (size_t)n * sizeof *y);
    *calls = p.calls;
    free(memory);
    return status;
}
