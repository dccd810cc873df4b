/* See crc32.h. TABLES[k][b]: what byte b becomes when k more bytes have gone by. */

#include "crc32.h"

#include <string.h>

static uint32_t TABLES[8][256];

static uint32_t by_tables(uint32_t crc, const uint8_t *data, size_t size) {
    for (; size >= 8; size -= 8, data += 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        word ^= crc;
        crc = 0;
        for (int k = 0; k < 8; k++) crc ^= TABLES[7 - k][word >> (8 * k) & 255];
    }
    while (size--) crc = crc >> 8 ^ TABLES[0][(crc ^ *data++) & 255];
    return crc;
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define FOLDING __attribute__((target("pclmul,sse4.1")))

static int can_multiply;

/* x^n modulo the polynomial, as the instruction wants it: bits reversed, and one place further because the
 * product of two reversed numbers is. */
static uint64_t power(unsigned n) {
    uint32_t word = 0x80000000u; /* 1 */
    while (n--) word = word >> 1 ^ (word & 1 ? 0xedb88320u : 0);
    return (uint64_t)word << 1;
}

static uint64_t far[2], near[2]; /* what is 64 or 16 bytes further on; its low and its high half */

/* x^64 divided by the polynomial, its rest apart: 33 bits, reversed. */
static uint64_t quotient_of_x64(void) {
    uint64_t found = 1; /* x^32 */
    uint32_t rest = 0xedb88320u; /* x^32, without as much of the polynomial */
    for (int place = 1; place <= 32; place++) {
        found |= (uint64_t)(rest & 1) << place;
        rest = rest >> 1 ^ (rest & 1 ? 0xedb88320u : 0);
    }
    return found;
}

FOLDING static __m128i folded(__m128i sum, __m128i by, __m128i next) {
    __m128i low = _mm_clmulepi64_si128(sum, by, 0x00), high = _mm_clmulepi64_si128(sum, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

static uint64_t middle; /* what is 32 bits further on, of what is 32 bits long */
static uint64_t modulus, quotient; /* the polynomial, and what x^64 has of it; bits reversed as well */

FOLDING static __m128i low_half(__m128i of) { return _mm_and_si128(of, _mm_setr_epi32(-1, 0, 0, 0)); }

/* What is left of 64 bits, of which the first are the low ones, by Barrett's way: how often the polynomial goes into
 * them is known of their first half. */
FOLDING static uint32_t left_of_8(__m128i all) {
    __m128i by = _mm_set_epi64x((int64_t)quotient, (int64_t)modulus);
    __m128i times = low_half(_mm_clmulepi64_si128(low_half(all), by, 0x10));
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(all, _mm_clmulepi64_si128(times, by, 0x00)), 1);
}

/* The CRC of 16 bytes, which is what is left of them 32 bits further on: first they are 12 bytes, then 8. */
FOLDING static uint32_t left_of_16(__m128i all) {
    __m128i by = _mm_set_epi64x((int64_t)middle, (int64_t)near[1]);
    all = _mm_xor_si128(_mm_clmulepi64_si128(all, by, 0x00), _mm_srli_si128(all, 8));
    all = _mm_xor_si128(_mm_clmulepi64_si128(low_half(all), by, 0x10), _mm_srli_si128(all, 4));
    return left_of_8(all);
}

/* A sum, and the last 1 to 15 bytes behind it: as many of the sum's first bytes go further on as there are of those, and
 * these come behind its last ones. `end`: of the data, of which there are 16 bytes at least. */
FOLDING static __m128i with_rest(__m128i sum, const uint8_t *end, size_t rest) {
    static const uint8_t places[48] = {
        128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 0,   1,   2,   3,   4,   5,   6,   7,
        8,   9,   10,  11,  12,  13,  14,  15,  128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128,
    };
    __m128i to_end = _mm_loadu_si128((const __m128i *)(places + rest));         /* its first bytes, behind zeros */
    __m128i to_start = _mm_loadu_si128((const __m128i *)(places + 16 + rest));  /* its last bytes, before zeros */
    __m128i last = _mm_loadu_si128((const __m128i *)(end - 16));
    __m128i is_sum = _mm_cmplt_epi8(to_start, _mm_setzero_si128());
    __m128i behind = _mm_or_si128(_mm_shuffle_epi8(sum, to_start), _mm_and_si128(is_sum, last));
    return folded(_mm_shuffle_epi8(sum, to_end), _mm_loadu_si128((const __m128i *)near), behind);
}

FOLDING static uint32_t finished(__m128i sum, const uint8_t *at, size_t size) {
    __m128i by = _mm_loadu_si128((const __m128i *)near);
    for (; size >= 16; size -= 16, at += 16) sum = folded(sum, by, _mm_loadu_si128((const __m128i *)at));
    return left_of_16(size ? with_rest(sum, at + size, size) : sum);
}

/* At least 16 bytes. Of many four sums, each of every fourth 16 bytes, so that multiplications overlap; then they are one. No
 * tables: the kernel's own work would have put them out of the cache. */
FOLDING static uint32_t by_multiplying(uint32_t crc, const uint8_t *data, size_t size) {
    __m128i first = _mm_xor_si128(_mm_loadu_si128((const __m128i *)data), _mm_cvtsi32_si128((int)crc));
    if (size < 64) return finished(first, data + 16, size - 16);
    __m128i by = _mm_loadu_si128((const __m128i *)far), sums[4] = {first};
    for (int k = 1; k < 4; k++) sums[k] = _mm_loadu_si128((const __m128i *)data + k);
    for (size -= 64, data += 64; size >= 64; size -= 64, data += 64)
        for (int k = 0; k < 4; k++) sums[k] = folded(sums[k], by, _mm_loadu_si128((const __m128i *)data + k));
    by = _mm_loadu_si128((const __m128i *)near);
    for (int k = 1; k < 4; k++) sums[k] = folded(sums[k - 1], by, sums[k]);
    return finished(sums[3], data, size);
}

/* Of two numbers of 32 bits: 63 bits, one place too low. */
FOLDING static uint32_t product_by_multiplying(uint32_t one, uint32_t other) {
    __m128i both = _mm_clmulepi64_si128(_mm_cvtsi32_si128((int)one), _mm_cvtsi32_si128((int)other), 0x00);
    return left_of_8(_mm_slli_epi64(both, 1));
}

/* The same with four sums of 64 bytes each, which is four times as fast, for what is long. */
#define WIDE __attribute__((target("pclmul,sse4.1,avx512f,avx512vl,avx512dq,vpclmulqdq")))

enum { WIDE_BYTES = 256 };

static int can_multiply_wide;
static uint64_t farther[2]; /* what is 256 bytes further on */

WIDE static __m512i folded_wide(__m512i sum, __m512i by, __m512i next) {
    __m512i low = _mm512_clmulepi64_epi128(sum, by, 0x00), high = _mm512_clmulepi64_epi128(sum, by, 0x11);
    return _mm512_ternarylogic_epi64(low, high, next, 0x96); /* all three differ or one does: xor */
}

WIDE static __m512i everywhere(const uint64_t *power) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)power));
}

/* At least 256 bytes: as many of them as fill wide sums; the rest is like what is shorter. */
WIDE static uint32_t by_multiplying_wide(uint32_t crc, const uint8_t *data, size_t size) {
    __m512i by = everywhere(farther), sums[4];
    for (int k = 0; k < 4; k++) sums[k] = _mm512_loadu_si512(data + 64 * k);
    sums[0] = _mm512_xor_si512(sums[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
    for (data += WIDE_BYTES, size -= WIDE_BYTES; size >= WIDE_BYTES; data += WIDE_BYTES, size -= WIDE_BYTES) {
        sums[0] = folded_wide(sums[0], by, _mm512_loadu_si512(data));
        sums[1] = folded_wide(sums[1], by, _mm512_loadu_si512(data + 64));
        sums[2] = folded_wide(sums[2], by, _mm512_loadu_si512(data + 128));
        sums[3] = folded_wide(sums[3], by, _mm512_loadu_si512(data + 192));
    }
    by = everywhere(far);
    for (int k = 1; k < 4; k++) sums[k] = folded_wide(sums[k - 1], by, sums[k]);
    for (; size >= 64; data += 64, size -= 64) sums[3] = folded_wide(sums[3], by, _mm512_loadu_si512(data));
    __m128i sum = _mm512_castsi512_si128(sums[3]), step = _mm_loadu_si128((const __m128i *)near);
    sum = folded(sum, step, _mm512_extracti32x4_epi32(sums[3], 1));
    sum = folded(sum, step, _mm512_extracti32x4_epi32(sums[3], 2));
    sum = folded(sum, step, _mm512_extracti32x4_epi32(sums[3], 3));
    return finished(sum, data, size);
}

static void begin_multiplying(void) {
    __builtin_cpu_init();
    can_multiply = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
    can_multiply_wide = can_multiply && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("vpclmulqdq");
    far[0] = power(512 + 32), far[1] = power(512 - 32);
    near[0] = power(128 + 32), near[1] = power(128 - 32);
    farther[0] = power(2048 + 32), farther[1] = power(2048 - 32);
    middle = power(64);
    modulus = (uint64_t)0xedb88320u << 1 | 1;
    quotient = quotient_of_x64();
}
#else
enum { can_multiply = 0, can_multiply_wide = 0, WIDE_BYTES = 256 };
static uint32_t by_multiplying_wide(uint32_t crc, const uint8_t *data, size_t size) { return by_tables(crc, data, size); }
static uint32_t by_multiplying(uint32_t crc, const uint8_t *data, size_t size) { return by_tables(crc, data, size); }
static uint32_t product_by_multiplying(uint32_t one, uint32_t other) { return one & other; }
static void begin_multiplying(void) {}
#endif

void crc32_begin(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t word = byte;
        for (int bit = 0; bit < 8; bit++) word = word >> 1 ^ (word & 1 ? 0xedb88320u : 0);
        TABLES[0][byte] = word;
    }
    for (int k = 1; k < 8; k++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t before = TABLES[k - 1][byte];
            TABLES[k][byte] = before >> 8 ^ TABLES[0][before & 255];
        }
    begin_multiplying();
}

uint32_t crc32_over(uint32_t crc, const uint8_t *data, size_t size) {
    if (size >= WIDE_BYTES && can_multiply_wide) return by_multiplying_wide(crc, data, size);
    return size >= 16 && can_multiply ? by_multiplying(crc, data, size) : by_tables(crc, data, size);
}

uint32_t crc32_of(const uint8_t *data, size_t size) { return ~crc32_over(0xffffffffu, data, size); }

/* -- of two pieces ----------------------------------------------------------------------------------- */

/* The product of two polynomials, modulo the one of this CRC. */
static uint32_t product(uint32_t one, uint32_t other) {
    uint32_t sum = 0;
    if (can_multiply) return product_by_multiplying(one, other);
    for (uint32_t bit = 0x80000000u; bit; bit >>= 1) {
        if (one & bit) sum ^= other;
        other = other >> 1 ^ (other & 1 ? 0xedb88320u : 0);
    }
    return sum;
}

/* x^exponent. */
static uint32_t power_of_x(uint64_t exponent) {
    uint32_t found = 0x80000000u, square = 0x40000000u; /* 1, and x */
    for (; exponent; exponent >>= 1) {
        if (exponent & 1) found = product(found, square);
        square = product(square, square);
    }
    return found;
}

/* Sizes come again. */
enum { SIZES_KNOWN = 64 };
typedef struct {
    size_t bytes;
    uint32_t power; /* 0: none is known */
} known_power;

static size_t place_of(size_t bytes) { return (bytes ^ bytes >> 6 ^ bytes >> 12) % SIZES_KNOWN; }

uint32_t crc32_joined(uint32_t first, uint32_t second, size_t second_size) {
    static known_power known[SIZES_KNOWN];
    known_power *one = &known[place_of(second_size)];
    if (!one->power || one->bytes != second_size)
        *one = (known_power){second_size, power_of_x(8 * (uint64_t)second_size)};
    return product(first, one->power) ^ second;
}

/* Powers of x come round after 2^32 - 1: so there is one for each that takes it back. */
uint32_t crc32_before(uint32_t both, uint32_t second, size_t second_size) {
    static known_power known[SIZES_KNOWN];
    known_power *one = &known[place_of(second_size)];
    const uint64_t round = 0xffffffffu;
    if (!one->power || one->bytes != second_size)
        *one = (known_power){second_size, power_of_x(round - 8 * (uint64_t)second_size % round)};
    return product(both ^ second, one->power);
}
