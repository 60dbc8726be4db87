/* choice.c: see choice.h. */
#include <string.h>

#include <nativecall/signature.h>

#include "choice.h"

/* ---- calls that are known by heart ----------------------------------------------------------- */

/* What a call site does for one signature. */
typedef struct {
    const char *parameters; /* a code for each */
    void (*emit)(void *function, const Value *arguments, Value *result);
} Call;

/* The argument at a position, as the parameter has it. */
#define INT32(k) (int32_t)arguments[k].integer
#define INT64(k) arguments[k].integer
#define FLOAT32(k) (float)arguments[k].real
#define FLOAT64(k) to_double(&arguments[k])

static double to_double(const Value *value)
{
    return value->type == 'i' ? (double)value->integer : value->real;
}

#define CALL(name, codes, code, member, pointer, given)                                            \
    static void emit_##name(void *function, const Value *arguments, Value *result)                 \
    {                                                                                              \
        result->type = code;                                                                       \
        result->member = ((pointer)(uintptr_t)function)given;                                      \
    }                                                                                              \
    static const Call name = {codes, emit_##name}

CALL(d_d, "d", 'd', real, double (*)(double), (FLOAT64(0)));
CALL(d_dd, "dd", 'd', real, double (*)(double, double), (FLOAT64(0), FLOAT64(1)));
CALL(d_ddd, "ddd", 'd', real, double (*)(double, double, double),
     (FLOAT64(0), FLOAT64(1), FLOAT64(2)));
CALL(d_di, "di", 'd', real, double (*)(double, int32_t), (FLOAT64(0), INT32(1)));
CALL(f_f, "f", 'f', real, float (*)(float), (FLOAT32(0)));
CALL(f_ff, "ff", 'f', real, float (*)(float, float), (FLOAT32(0), FLOAT32(1)));
CALL(i_i, "i", 'i', integer, int32_t (*)(int32_t), (INT32(0)));
CALL(i_ii, "ii", 'i', integer, int32_t (*)(int32_t, int32_t), (INT32(0), INT32(1)));
CALL(q_q, "q", 'q', integer, int64_t (*)(int64_t), (INT64(0)));
CALL(q_qq, "qq", 'q', integer, int64_t (*)(int64_t, int64_t), (INT64(0), INT64(1)));

/* The call for a packed signature, whatever its flags; NULL when it is not known by heart. */
static const Call *call_of(uint64_t word)
{
    switch (word & ~NC_PACKED_FLAGS_MASK) {
    case NATIVECALL_SIG("d:d"):
        return &d_d;
    case NATIVECALL_SIG("d:dd"):
        return &d_dd;
    case NATIVECALL_SIG("d:ddd"):
        return &d_ddd;
    case NATIVECALL_SIG("d:di"):
        return &d_di;
    case NATIVECALL_SIG("f:f"):
        return &f_f;
    case NATIVECALL_SIG("f:ff"):
        return &f_ff;
    case NATIVECALL_SIG("i:i"):
        return &i_i;
    case NATIVECALL_SIG("i:ii"):
        return &i_ii;
    case NATIVECALL_SIG("q:q"):
        return &q_q;
    case NATIVECALL_SIG("q:qq"):
        return &q_qq;
    default:
        return NULL;
    }
}

/* ---- the choice ------------------------------------------------------------------------------ */

static int widens(char from, char to)
{
    return (from == 'i' && (to == 'q' || to == 'd')) || (from == 'f' && to == 'd');
}

void consider(Choice *choice, uint64_t word, void *function, const Value *arguments, size_t count)
{
    const Call *known = call_of(word);
    int widened = 0;
    size_t i;
    if (known == NULL || strlen(known->parameters) != count) {
        return;
    }
    for (i = 0; i < count; i++) {
        if (arguments[i].type != known->parameters[i]) {
            if (!widens(arguments[i].type, known->parameters[i])) {
                return;
            }
            widened++;
        }
    }
    if (choice->word == 0 || widened < choice->widened) {
        choice->word = word;
        choice->function = function;
        choice->widened = widened;
    }
}

Value call(const Choice *choice, const Value *arguments)
{
    Value result = {0, 0, 0.0};
    call_of(choice->word)->emit(choice->function, arguments, &result);
    return result;
}
