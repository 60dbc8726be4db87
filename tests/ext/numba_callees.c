/* tests/ext/numba_callees.c: C functions that jitted code calls in tests/bridges/test_numba_calls.py:
 * each way to pass a value, and each way to fail. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    double x;
    int n;
} Pair;

typedef struct {
    double items[3];
    float factor;
    int64_t count;
} Large;

typedef struct {
    double *data;
    intptr_t shape[2];
    intptr_t strides[2];
} View;

double half(double x)
{
    return x * 0.5;
}

float twice(float x)
{
    return x * 2;
}

int64_t next(int64_t x)
{
    return x + 1;
}

double _Complex product(double _Complex z, float _Complex w)
{
    return z * (double _Complex)w;
}

Pair pair(double x, int n)
{
    Pair made = {x, n};
    return made;
}

double area(Pair p)
{
    return p.x * p.n;
}

Large grown(Large b)
{
    b.items[1] += (double)b.factor;
    b.count *= 2;
    return b;
}

int status(int x)
{
    return x > 3 ? x : 0;
}

int positive(int x)
{
    return x > 0 ? x : 0;
}

double *same(double *p)
{
    return p;
}

int failing(int code)
{
    errno = code;
    return 7;
}

double checked(double x, int *error)
{
    if (x < 0) {
        *error = 9;
    }
    return x;
}

double applied(double (*f)(double), double x)
{
    return f(x) + 1;
}

double total(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += x[i];
    }
    return sum;
}

void count(double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        x[i] = (double)i;
    }
}

bool negation(bool b)
{
    return !b;
}

int8_t narrow(int8_t a, uint16_t b)
{
    return (int8_t)(a + b);
}

double trace(View *view)
{
    double sum = 0;
    for (intptr_t i = 0; i < view->shape[0]; i++) {
        sum += *(double *)(void *)((char *)view->data + i * (view->strides[0] + view->strides[1]));
    }
    return sum;
}
