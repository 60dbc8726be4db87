/* bench/peers/values.h: C functions of the idioms that bindings meet: structs by value and by
 * pointer, text, handles, callbacks. Each does as little as it can. */
#ifndef BENCH_VALUES_H
#define BENCH_VALUES_H

#include <stddef.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

typedef struct {
    double x, y;
} P2;

typedef struct {
    double x, y, z;
} Vec3;

typedef struct {
    double v[8];
} S64;

typedef struct {
    double v[512];
} S4K;

typedef struct Node {
    double value;
    struct Node *next;
} Node;

EXPORT double take_p2(P2 p);
EXPORT double take_s64(S64 s);
EXPORT double take_s4k(S4K s);
EXPORT double read_p2(const P2 *p);
EXPORT double three(double a, double b, double c);
EXPORT int next(int n);
EXPORT double half(double x, int *out);
EXPORT int first(const char *text);
EXPORT int wide_first(const wchar_t *text);
EXPORT char *text(void);
EXPORT unsigned char *unsigned_text(void);
EXPORT wchar_t *wide_text(void);
EXPORT void *open_one(int n);
EXPORT void close_one(void *one);
EXPORT char *new_text(void);
EXPORT void free_text(char *text);
EXPORT double each_node(double (*f)(Node *), int times);
EXPORT double each_p2(double (*f)(P2), int times);
EXPORT double map_p2(P2 (*f)(P2), int times);
EXPORT double apply(double (*f)(double), int times);
EXPORT void sort(double *items, size_t count, int (*compare)(const double *, const double *));
EXPORT Vec3 vec3_add(Vec3 a, Vec3 b);
EXPORT Vec3 vec3_scale(Vec3 a, double by);
EXPORT double vec3_dot(Vec3 a, Vec3 b);

#endif
