/* tests/ext/conformance_functions.h: the functions that every provider of the conformance matrix
 * offers, in this order: the first entry of a table, a signature of more than one packed word, and
 * two with flags. Knows nothing of nativecall; flags are numbers of docs/abi/find.md.
 *
 * Define CONFORMANCE_LINKAGE as nothing for a library that exports the functions. */
#ifndef CONFORMANCE_FUNCTIONS_H
#define CONFORMANCE_FUNCTIONS_H

#include <stdint.h>

#ifndef CONFORMANCE_LINKAGE
#define CONFORMANCE_LINKAGE static
#endif

/* X(signature, flags, function): 1 needs the GIL, 0x20 reports failures by a result other than 0 */
#define CONFORMANCE_ENTRIES(X)                                                                     \
    X("d:d", 0, square)                                                                            \
    X("d:dddddddddddddddd", 0, add16)                                                              \
    X("q:q", 1, negate)                                                                            \
    X("i:i", 0x20, is_odd)

CONFORMANCE_LINKAGE double square(double x)
{
    return x * x;
}

CONFORMANCE_LINKAGE double add16(double a, double b, double c, double d, double e, double f,
                                 double g, double h, double i, double j, double k, double l,
                                 double m, double n, double o, double p)
{
    return a + b + c + d + e + f + g + h + i + j + k + l + m + n + o + p;
}

CONFORMANCE_LINKAGE int64_t negate(int64_t x)
{
    return -x;
}

CONFORMANCE_LINKAGE int is_odd(int x)
{
    return x % 2 != 0;
}

#endif
