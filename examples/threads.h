/* C functions for threads.py, which nativecall compiles. */
static inline double half(double x)
{
    return x / 2;
}

static inline double twice(double x)
{
    return x * 2;
}

static inline double move(double *x, double by)
{
    return *x += by;
}

static inline double total(double (*f)(double), long n)
{
    double sum = 0;
    for (long i = 0; i < n; i++)
        sum += f(1.0);
    return sum;
}
