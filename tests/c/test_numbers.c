/* tests/c/test_numbers.c: numbers.h.
 *
 * All numbers of 16 bits, a half's and bfloat16's, are read and written: each is what its parts say
 * and, of a half, what the compiler says; between two neighbours each number is written as the
 * nearer one, and the middle as the even one. */
#include "nativecall/detail/core/numbers.h"

#include <math.h>

#include "check.h"

static uint64_t written(double number, int digits)
{
    return nc_bits_of_double(number, 2, digits);
}

/* What two neighbours and the numbers between them are written as. */
static void check_between(uint64_t bits, int digits, int sign)
{
    const uint64_t negative = sign < 0 ? 0x8000 : 0;
    const double low = sign * nc_bits_to_double(bits, 2, digits);
    const double high = isinf(nc_bits_to_double(bits + 1, 2, digits))
                            ? low + (low - sign * nc_bits_to_double(bits - 1, 2, digits))
                            : sign * nc_bits_to_double(bits + 1, 2, digits);
    const double middle = low + (high - low) / 2;
    const long double above = nextafterl((long double)middle, (long double)high);
    const long double below = nextafterl((long double)middle, (long double)low);

    CHECK(written(low, digits) == (negative | bits));
    CHECK(written(middle, digits) == (negative | (bits + (bits & 1))));
    CHECK(written(nextafter(middle, low), digits) == (negative | bits));
    CHECK(written(nextafter(middle, high), digits) == (negative | (bits + 1)));
    /* Rounded once: by way of the nearest double these would be the middle. */
    CHECK(written(nc_double_to_round(below), digits) == (negative | bits));
    CHECK(written(nc_double_to_round(above), digits) == (negative | (bits + 1)));
}

static void test_format(int digits)
{
    const int width = 16 - digits;
    const uint64_t infinity = ((UINT64_C(1) << width) - 1) << (digits - 1);
    const int bias = (1 << (width - 1)) - 1;
    uint64_t bits;

    for (bits = 0; bits < infinity; bits++) {
        const int exponent = (int)(bits >> (digits - 1));
        const uint64_t mantissa = bits & ((UINT64_C(1) << (digits - 1)) - 1);
        const double whole = (double)(exponent == 0 ? 0 : UINT64_C(1) << (digits - 1));
        const int power = (exponent == 0 ? 1 : exponent) - bias - (digits - 1);
        const double expected = ldexp(whole + (double)mantissa, power);
        CHECK(nc_bits_to_double(bits, 2, digits) == expected);
        CHECK(nc_bits_to_double(bits | 0x8000, 2, digits) == -expected);
        check_between(bits, digits, 1);
        check_between(bits, digits, -1);
    }
    CHECK(signbit(nc_bits_to_double(0x8000, 2, digits)) && written(-0.0, digits) == 0x8000);
    CHECK(nc_bits_to_double(infinity, 2, digits) == INFINITY);
    CHECK(nc_bits_to_double(infinity | 0x8000, 2, digits) == -INFINITY);
    CHECK(written(INFINITY, digits) == infinity &&
          written(-DBL_MAX, digits) == (infinity | 0x8000));
    CHECK(written(DBL_TRUE_MIN, digits) == 0 && written(-DBL_TRUE_MIN, digits) == 0x8000);
    for (bits = infinity + 1; bits < 0x8000; bits++) {
        const uint64_t quiet = bits | UINT64_C(1) << (digits - 2);
        CHECK(isnan(nc_bits_to_double(bits, 2, digits)));
        CHECK(written(nc_bits_to_double(bits | 0x8000, 2, digits), digits) == (quiet | 0x8000));
    }
}

static void test_long_double(void)
{
    static const long double exact[] = {0.0L, 1.5L, -65504.0L, 5e-324L, -1.7976931348623157e308L};
    size_t i;
    for (i = 0; i < sizeof exact / sizeof exact[0]; i++) {
        const double same = (double)exact[i];
        CHECK(nc_double_to_round((long double)same) == same);
    }
    CHECK(signbit(nc_double_to_round(-0.0L)) && isnan(nc_double_to_round((long double)NAN)));
    CHECK(nc_double_to_round((long double)INFINITY) == INFINITY);
    CHECK(nc_double_to_round(-(long double)INFINITY) == -INFINITY);
    if (LDBL_MAX_EXP > DBL_MAX_EXP) {
        CHECK(nc_double_to_round(LDBL_MAX) == DBL_MAX && nc_double_to_round(-LDBL_MAX) == -DBL_MAX);
        CHECK(nc_double_to_round(LDBL_MIN) == DBL_TRUE_MIN);
        CHECK(nc_double_to_round(-LDBL_MIN) == -DBL_TRUE_MIN);
    }
}

/* By code every type keeps its own numbers; a half is the compiler's. */
static void test_codes(void)
{
    uint32_t bits;
#define TEST_INTEGER(code, name, type, kind, least, greatest)                                      \
    {                                                                                              \
        type value;                                                                                \
        nc_write_integer(code, (uint64_t)(least), &value);                                         \
        CHECK(value == least && nc_read_integer(code, &value) == (uint64_t)least);                 \
        nc_write_integer(code, (uint64_t)(greatest), &value);                                      \
        CHECK(value == greatest && nc_read_integer(code, &value) == (uint64_t)greatest);           \
    }
    NC_INTEGERS(TEST_INTEGER)
#undef TEST_INTEGER
#define TEST_FLOAT(code, name, type, held, digits, exponent, greatest, ...)                        \
    {                                                                                              \
        const long double most = ldexpl(2.0L - ldexpl(1.0L, 1 - digits), exponent - 1);            \
        type value;                                                                                \
        nc_write_float(code, -most, &value);                                                       \
        CHECK(nc_read_float(code, &value) == -most);                                               \
        CHECK(sizeof value > 8 || fabsl(strtold(greatest, NULL) / most - 1.0L) < 1e-7L);           \
    }
    NC_FLOATS(TEST_FLOAT)
#undef TEST_FLOAT
    for (bits = 0; bits < 0x10000; bits++) {
        const uint16_t half = (uint16_t)bits;
        const long double number = nc_read_float('e', &half);
        uint16_t back;
        nc_write_float('e', number, &back);
        CHECK(isnan(number) || back == half);
#if defined(__FLT16_MANT_DIG__)
        {
            __extension__ _Float16 theirs;
            memcpy(&theirs, &half, sizeof theirs);
            CHECK(isnan(number) ? isnan((double)theirs) : number == (long double)theirs);
        }
#endif
    }
}

int main(void)
{
    test_format(11);
    test_format(8);
    test_long_double();
    test_codes();
    return check_report("numbers");
}
