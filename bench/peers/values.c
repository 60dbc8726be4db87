/* bench/peers/values.c: see values.h. */
#include "values.h"

#include <stdlib.h>
#include <string.h>
#include <wchar.h>

double take_p2(P2 p)
{
    return p.x + p.y;
}

double take_s64(S64 s)
{
    return s.v[7];
}

double take_s4k(S4K s)
{
    return s.v[511];
}

double read_p2(const P2 *p)
{
    return p->x;
}

double three(double a, double b, double c)
{
    return a + b + c;
}

int next(int n)
{
    return (int)((unsigned)n + 1);
}

double half(double x, int *out)
{
    *out = 1;
    return x / 2;
}

int first(const char *text)
{
    return text[0];
}

int wide_first(const wchar_t *text)
{
    return (int)text[0];
}

char *text(void)
{
    static char here[] = "eleven byte";
    return here;
}

unsigned char *unsigned_text(void)
{
    return (unsigned char *)text();
}

wchar_t *wide_text(void)
{
    static wchar_t here[] = L"eleven char";
    return here;
}

void *open_one(int n)
{
    int *one = malloc(sizeof(*one));
    if (one != NULL) {
        *one = n;
    }
    return one;
}

void close_one(void *one)
{
    free(one);
}

char *new_text(void)
{
    char *made = malloc(12);
    return made != NULL ? strcpy(made, "eleven byte") : NULL;
}

void free_text(char *text)
{
    free(text);
}

double each_node(double (*f)(Node *), int times)
{
    Node node = {2.0, NULL};
    double sum = 0;
    for (int i = 0; i < times; i++) {
        sum += f(&node);
    }
    return sum;
}

double each_p2(double (*f)(P2), int times)
{
    double sum = 0;
    for (int i = 0; i < times; i++) {
        sum += f((P2){i, 1});
    }
    return sum;
}

double map_p2(P2 (*f)(P2), int times)
{
    P2 p = {0, 1};
    for (int i = 0; i < times; i++) {
        p = f(p);
    }
    return p.x;
}

double apply(double (*f)(double), int times)
{
    double sum = 0;
    for (int i = 0; i < times; i++) {
        sum += f(i);
    }
    return sum;
}

void sort(double *items, size_t count, int (*compare)(const double *, const double *))
{
    qsort(items, count, sizeof(*items), (int (*)(const void *, const void *))compare);
}

Vec3 vec3_add(Vec3 a, Vec3 b)
{
    return (Vec3){a.x + b.x, a.y + b.y, a.z + b.z};
}

Vec3 vec3_scale(Vec3 a, double by)
{
    return (Vec3){a.x * by, a.y * by, a.z * by};
}

double vec3_dot(Vec3 a, Vec3 b)
{
    return a.x * b.x + a.y * b.y + a.z * b.z;
}
