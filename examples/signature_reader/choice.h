/* choice.h: which entry a call site takes, by the C types that it has; and the call.
 *
 * A compiler knows some signatures by heart: for them it has the code of the call ready. Here they
 * are a C switch over packed words, which the compiler of this file turns into comparisons of
 * numbers. An entry fits when each argument is of the parameter's type, or widens to it without
 * loss: int32 to int64 and to float64, float32 to float64. */
#ifndef CHOICE_H
#define CHOICE_H

#include <stddef.h>
#include <stdint.h>

/* A value of a call site; its type is a code of signatures, one of i q f d. */
typedef struct {
    char type;
    int64_t integer; /* of i and q */
    double real;     /* of f and d */
} Value;

/* The best entry so far. */
typedef struct {
    uint64_t word;  /* its packed signature; 0: none */
    void *function; /* what it calls */
    int widened;    /* arguments that are widened */
} Choice;

/* Takes the entry if it fits, and widens fewer arguments than the one before. */
void consider(Choice *choice, uint64_t word, void *function, const Value *arguments, size_t count);

/* Calls what was chosen, for the same arguments. */
Value call(const Choice *choice, const Value *arguments);

#endif
