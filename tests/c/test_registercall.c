/* tests/c/test_registercall.c: registercall.h, and the types of promotion.h.
 *
 * C functions written out here check what reaches them. Random signatures, and numbers that are
 * widened, are tests/headers/dispatch/test_registercall.py's. */
#include "nativecall/detail/registercall.h"
#include "nativecall/detail/promotion.h"

#include "check.h"

/* ---- calls ----------------------------------------------------------------------------------- */

static int plan(const char *signature, NcRegisterCall *how)
{
    return nc_registercall_prepare(signature, strlen(signature), how);
}

/* Calls a function of a signature that must be one that can be called. */
static void call(const char *signature, void *function, void *result, const void *const *args)
{
    NcRegisterCall how;
    CHECK(plan(signature, &how) == NC_OK);
    nc_registercall(&how, function, result, args);
}

#define FUNCTION(f) ((void *)(uintptr_t)(f))

static int calls = 0;

static void nothing(void)
{
    calls++;
}

/* What a caller leaves in the upper part of a register is seen by a callee that is told it is
 * wider: callees of clang rely on it. */
static long long see(long long a)
{
    return a;
}

static uintptr_t misaligned = 0;

static long long see_on_stack(int64_t a, int64_t b, int64_t c, int64_t d, int64_t e, int64_t f,
                              int64_t g, int64_t h, long long i)
{
    misaligned |= (uintptr_t)__builtin_frame_address(0) % 16;
    return i + (a + b + c + d + e + f + g + h) * 0;
}

static void check_extension(const char *code, const void *value, long long expected)
{
    char text[32];
    const int64_t zero = 0;
    const void *one[1];
    const void *nine[9];
    long long seen = 0;
    size_t i;
    NcRegisterCall how;
    one[0] = value;
    for (i = 0; i < 8; i++) {
        nine[i] = &zero;
    }
    nine[8] = value;
    snprintf(text, sizeof text, "q:%s", code);
    call(text, FUNCTION(see), &seen, one);
    CHECK(seen == expected);
    snprintf(text, sizeof text, "q:qqqqqqqq%s", code);
    if (plan(text, &how) == NC_OK) {
        call(text, FUNCTION(see_on_stack), &seen, nine);
        CHECK(seen == expected);
    }
}

static void test_extension(void)
{
    const int8_t b = -128;
    const uint8_t B = 255;
    const int16_t h = -32768;
    const uint16_t H = 65535;
    const int32_t i = INT32_MIN;
    const uint32_t unsigned32 = UINT32_MAX;
    const _Bool truth = 1;
    const int64_t q = INT64_MIN;
    check_extension("b", &b, b);
    check_extension("B", &B, B);
    check_extension("h", &h, h);
    check_extension("H", &H, H);
    check_extension("i", &i, i);
    check_extension("I", &unsigned32, unsigned32);
    check_extension("?", &truth, 1);
    check_extension("q", &q, q);
    check_extension("Q", &q, q);
    CHECK(misaligned == 0);
}

static int8_t give_b(void)
{
    return -100;
}

static void test_results(void)
{
    struct {
        int8_t value;
        unsigned char after[15];
    } narrow;
    size_t i;
    memset(&narrow, 0x55, sizeof narrow);
    call("b:", FUNCTION(give_b), &narrow.value, NULL);
    CHECK(narrow.value == -100);
    for (i = 0; i < sizeof narrow.after; i++) {
        CHECK(narrow.after[i] == 0x55);
    }
    call("b:", FUNCTION(give_b), NULL, NULL);
    call("v:", FUNCTION(nothing), &narrow, NULL);
    call("v:", FUNCTION(nothing), NULL, NULL);
    CHECK(calls == 2);
    CHECK(narrow.value == -100);
}

static void test_what_is_refused(void)
{
    static const char *const missing[] = {"d:T{dd}",  "T{dd}:d", "v:[1]d", "i:P.",
                                          "v:=T{bi}", "Zg:",     "v:Zg"};
    char text[128];
    NcRegisterCall how;
    size_t i;
    for (i = 0; i < sizeof missing / sizeof missing[0]; i++) {
        if (LDBL_MANT_DIG > DBL_MANT_DIG || strchr(missing[i], 'g') == NULL) {
            CHECK(plan(missing[i], &how) == NC_E_MISSING);
        }
    }
    CHECK(plan("", &how) == NC_E_FORMAT);
    CHECK(plan("d", &how) == NC_E_FORMAT);
    CHECK(plan("l:d", &how) == NC_E_FORMAT); /* not canonical */
    CHECK(plan("d:d ", &how) == NC_E_FORMAT);
    CHECK(nc_registercall_prepare("d:d", NC_SIGNATURE_MAX_LENGTH + 1, &how) == NC_E_TOOLONG);
    CHECK(plan("X{d:T{dd}}:&T{dd}O", &how) == NC_OK && how.parts == 2 && how.count == 2);
    /* All words of the stack, and one more. */
    memcpy(text, "v:", 2);
    memset(text + 2, 'q', sizeof text - 2);
    text[2 + NC_REGISTERCALL_INTS + NC_REGISTERCALL_STACK] = '\0';
    CHECK(plan(text, &how) == NC_OK && how.stack == NC_REGISTERCALL_STACK);
    text[2 + NC_REGISTERCALL_INTS + NC_REGISTERCALL_STACK] = 'q';
    text[3 + NC_REGISTERCALL_INTS + NC_REGISTERCALL_STACK] = '\0';
    CHECK(plan(text, &how) == NC_E_MISSING);
}

static void test_types(void)
{
    static const char *const missing[] = {"d:T{dd}", "T{dd}:d", "v:[1]d", "i:P.", "v:dT{d}d"};
    NcCallType types[NC_CALL_MAX_ARGUMENTS + 1];
    char text[NC_CALL_MAX_ARGUMENTS + 4];
    size_t count = 99;
    size_t i;
    for (i = 0; i < sizeof missing / sizeof missing[0]; i++) {
        CHECK(nc_call_types(missing[i], types, &count) == NC_E_MISSING);
    }
    CHECK(LDBL_MANT_DIG == DBL_MANT_DIG || nc_call_types("v:Zg", types, &count) == NC_E_MISSING);
    CHECK(nc_call_types("dd", types, &count) == NC_E_FORMAT);
    CHECK(nc_call_types("d:", types, &count) == NC_OK && count == 0);
    memset(text, 0, sizeof text);
    memcpy(text, "v:", 2);
    memset(text + 2, 'b', NC_CALL_MAX_ARGUMENTS);
    CHECK(nc_call_types(text, types, &count) == NC_OK && count == NC_CALL_MAX_ARGUMENTS);
    text[2 + NC_CALL_MAX_ARGUMENTS] = 'b';
    CHECK(nc_call_types(text, types, &count) == NC_E_RANGE);
}

int main(void)
{
    test_extension();
    test_results();
    test_what_is_refused();
    test_types();
    return check_report("registercall");
}
