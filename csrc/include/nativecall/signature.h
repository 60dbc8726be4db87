/* nativecall/signature.h: signatures, for providers and consumers; includes its four headers.
 *
 * A signature is the C type of a function as text, "i:d&f" (docs/abi/signatures.md). Its canonical
 * form is its identity on a platform. Interned (intern.h), its address is CEP 1000's signature id
 * and the key of SEP 201's approach 2; packed, it is the key of approach 1.
 *
 *     signaturetext.h     the canonical form
 *     signaturecursor.h   a cursor with which a JIT walks it
 *     packed.h            packed words and tables of them
 *     packedliteral.h     NATIVECALL_SIG("d:dd"), the packed word as a constant */
#ifndef NATIVECALL_SIGNATURE_H
#define NATIVECALL_SIGNATURE_H

#include "detail/core/packed.h"
#include "detail/core/packedliteral.h"
#include "detail/core/signaturecursor.h"
#include "detail/core/signaturetext.h"

#endif
