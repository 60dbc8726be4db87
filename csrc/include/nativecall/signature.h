/* nativecall/signature.h: functions on signatures, for providers and consumers. This header only
 * includes the five headers below.
 *
 *     char text[64];
 *     size_t n;                                                  "i: d &f" becomes "i:d&f"
 *     NcSignatureCursor cursor;
 *     NcSignatureType type;
 *     if (nc_signature_canonical("i: d &f", 7, text, sizeof text, &n) == NC_OK &&
 *         nc_signature_open(text, n, &cursor) == NC_OK)
 *         while (nc_signature_next(&cursor, &type) == NC_OK) ... the result, then the arguments
 *     nc_prototype_signature("int (double, const float *)", text)       writes "i:d&f"
 *
 * A signature is the C type of a function as text, e.g. "i:d&f" (docs/abi/signatures.md). On one
 * platform, two signatures describe the same type if their canonical forms are equal. The address
 * of the interned text (intern.h) is CEP 1000's signature id and the key of SEP 201's approach 2.
 * The packed form is the key of approach 1.
 *
 *     signaturetext.h     the canonical form
 *     signaturecursor.h   a cursor to iterate over it, for a JIT
 *     packed.h            packed words and packed tables
 *     packedliteral.h     NATIVECALL_SIG("d:dd"), the packed word as a constant
 *     prototype.h         the signature of a C declaration
 *
 * Threads: pure functions; no GIL needed. Errors: NC_E_*, with the offset of the error. Ownership:
 * nothing is allocated; cursors and types point into the caller's text. */
#ifndef NATIVECALL_SIGNATURE_H
#define NATIVECALL_SIGNATURE_H

#include "detail/core/packed.h"
#include "detail/core/packedliteral.h"
#include "detail/core/signaturecursor.h"
#include "detail/core/signaturetext.h"
#include "detail/prototype.h"

#endif
