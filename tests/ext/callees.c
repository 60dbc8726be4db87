/* tests/ext/callees.c: C functions to call: what the tests of values and calls share. */
#include <complex.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Each scalar type comes back as it went in. */
#define SAME(name, type)                                                                           \
    type same_##name(type x)                                                                       \
    {                                                                                              \
        return x;                                                                                  \
    }
SAME(bool, bool)
SAME(i8, int8_t)
SAME(u8, uint8_t)
SAME(i16, int16_t)
SAME(u16, uint16_t)
SAME(i32, int32_t)
SAME(u32, uint32_t)
SAME(i64, int64_t)
SAME(u64, uint64_t)
SAME(f32, float)
SAME(f64, double)
SAME(f80, long double)
SAME(c64, float _Complex)
SAME(c128, double _Complex)
SAME(pointer, const void *)

/* The same through memory, where a result would be refused. */
void twice_c256(long double _Complex x, long double _Complex *out)
{
    *out = 2 * x;
}

/* Which overload ran. */
struct _object; /* a PyObject */
#define WHICH(name, type)                                                                          \
    const char *which_##name(type x)                                                               \
    {                                                                                              \
        (void)x;                                                                                   \
        return #name;                                                                              \
    }
WHICH(bool, bool)
WHICH(i8, int8_t)
WHICH(u8, uint8_t)
WHICH(i32, int32_t)
WHICH(i64, int64_t)
WHICH(u64, uint64_t)
WHICH(f32, float)
WHICH(f64, double)
WHICH(f80, long double)
WHICH(c128, double _Complex)
WHICH(doubles, double *)
WHICH(floats, float *)
WHICH(bytes, const char *)
WHICH(anything, void *)
WHICH(object, struct _object *)

typedef struct {
    double x, y;
} Point;
WHICH(point, Point)

const char *which_two(double x, double y)
{
    (void)x;
    (void)y;
    return "two";
}

const char *which_none(void)
{
    return "none";
}

/* Buffers. */
double sum(const double *x, ptrdiff_t n)
{
    double total = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        total += x[i];
    }
    return total;
}

void fill(double *x, ptrdiff_t n, double value)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        x[i] = value;
    }
}

void increment(int32_t *x)
{
    *x += 1;
}

uintptr_t address_of(const void *x)
{
    return (uintptr_t)x;
}

ptrdiff_t length(const char *text)
{
    return (ptrdiff_t)strlen(text);
}

void scale_points(Point *points, int32_t n, double factor)
{
    for (int32_t i = 0; i < n; i++) {
        points[i].x *= factor;
        points[i].y *= factor;
    }
}

int32_t total_length(const char **texts, int32_t n)
{
    int32_t total = 0;
    for (int32_t i = 0; i < n; i++) {
        total += (int32_t)strlen(texts[i]);
    }
    return total;
}

/* A strided view of two dimensions: data, shape, strides. */
typedef struct {
    const char *data;
    ptrdiff_t shape[2];
    ptrdiff_t strides[2];
} View2;

double sum_view(const View2 *view)
{
    double total = 0;
    for (ptrdiff_t i = 0; i < view->shape[0]; i++) {
        for (ptrdiff_t j = 0; j < view->shape[1]; j++) {
            double item;
            memcpy(&item, view->data + i * view->strides[0] + j * view->strides[1], sizeof item);
            /* Places count, so a wrong stride or order shows. */
            total += item * (double)(1 + i * view->shape[1] + j);
        }
    }
    return total;
}

/* Structs. */
typedef struct {
    int8_t tag;
    Point at[2];
    struct {
        float w;
        int16_t n;
    } inner;
} Mixed;

Point add_points(Point a, Point b)
{
    return (Point){a.x + b.x, a.y + b.y};
}

Mixed next_mixed(Mixed m)
{
    m.tag = (int8_t)(m.tag + 1);
    m.at[0].x += 1;
    m.at[1].y += 2;
    m.inner.w *= 2;
    m.inner.n = (int16_t)-m.inner.n;
    return m;
}

typedef struct {
    const double *x;
    ptrdiff_t n;
    double (*f)(double);
} Task;

double run_task(Task task)
{
    double total = 0;
    for (ptrdiff_t i = 0; i < task.n; i++) {
        total += task.f != NULL ? task.f(task.x[i]) : task.x[i];
    }
    return total;
}

/* Functions that call. */
double apply(double (*f)(double), double x)
{
    return f != NULL ? f(x) : -1;
}

double square(double x)
{
    return x * x;
}

double (*get_square(void))(double)
{
    return square;
}

/* Failures. */
int32_t fail_with(int32_t code)
{
    errno = code;
    return code;
}

const char *null_unless(bool found)
{
    return found ? "found" : NULL;
}

/* Variadic. */
double add_all(int32_t n, ...)
{
    va_list arguments;
    double total = 0;
    va_start(arguments, n);
    for (int32_t i = 0; i < n; i++) {
        total += va_arg(arguments, double);
    }
    va_end(arguments);
    return total;
}

/* One function of each number of arguments that says it was called. */
static int64_t count;
void called0(void)
{
    count += 1;
}
int64_t called(void)
{
    return count;
}
