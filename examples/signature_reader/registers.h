/* registers.h: where a call puts each of a signature's values, on System V x86-64.
 *
 * What a compiler needs of a signature before it can emit a call. It reads canonical text with the
 * cursor of nativecall/detail/core/signaturecursor.h, and needs neither Python nor the function.
 * Sizes are those of the machine it runs on. */
#ifndef REGISTERS_H
#define REGISTERS_H

#include <stddef.h>

/* Writes a readable tree of a canonical signature: each type with its size, its alignment if that
 * is another number, and its place, and below it what is within it. Returns the characters that
 * there are, also when `size` is too small, without the zero byte; 0 for a text that is no
 * canonical signature. */
size_t describe(const char *signature, char *out, size_t size);

#endif
