/* numerics.c: see numerics.h. */
#include "numerics.h"

double integrate(Function1 f, void *data, Stop stop, double a, double b, long n)
{
    double h = (b - a) / (2.0 * (double)n);
    double sum = f(a, data) + f(b, data);
    long i;
    for (i = 1; i < 2 * n && !stop(data); i++) {
        sum += (i % 2 == 1 ? 4.0 : 2.0) * f(a + (double)i * h, data);
    }
    return sum * h / 3.0;
}

int find_root(Function1 f, void *data, Stop stop, double a, double b, double *root)
{
    double left = f(a, data);
    double right = f(b, data);
    int i;
    if (!stop(data) && (left < 0.0) == (right < 0.0) && left != 0.0 && right != 0.0) {
        return -1;
    }
    for (i = 0; i < 60 && !stop(data); i++) {
        double middle = a + (b - a) / 2.0;
        double value = f(middle, data);
        if ((value < 0.0) == (left < 0.0)) {
            a = middle;
        } else {
            b = middle;
        }
    }
    *root = a + (b - a) / 2.0;
    return 0;
}

double solve(Function2 f, void *data, Stop stop, double t0, double y0, double t1, long n)
{
    double h = (t1 - t0) / (double)n;
    double y = y0;
    long i;
    for (i = 0; i < n && !stop(data); i++) {
        double t = t0 + (double)i * h;
        double k1 = f(t, y, data);
        double k2 = f(t + h / 2.0, y + h / 2.0 * k1, data);
        double k3 = f(t + h / 2.0, y + h / 2.0 * k2, data);
        double k4 = f(t + h, y + h * k3, data);
        y += h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4);
    }
    return y;
}
