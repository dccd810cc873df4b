/* AES-128 and GHASH by AES-NI and PCLMULQDQ, and what is long by VPCLMULQDQ, four blocks at once. See gmac_parts.h.
 *
 * A product of 256 bits is brought back to 128 once for many blocks: each is multiplied by the power of the
 * hash key that is its own, and the products are added first. */

#include "gmac_parts.h"

#include <string.h>

#if defined __x86_64__
#include <immintrin.h>

#define FAST __attribute__((target("aes,pclmul,sse4.1")))
#define WIDE __attribute__((target("aes,pclmul,sse4.1,avx512f,avx512vl,avx512bw,avx512dq,vpclmulqdq")))

enum {
    BLOCK = GMAC_TAG,
    TOGETHER = 8,
    LANES = 4,
    WIDE_BLOCK = LANES * BLOCK,
    WIDE_TOGETHER = GMAC_POWERS / LANES,
    WIDE_FROM = 256,
};

int gmac_best(void) {
    static int known = -1;
    if (known < 0) {
        __builtin_cpu_init();
        int is_fast = __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul") &&
                      __builtin_cpu_supports("sse4.1");
        int is_wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("vpclmulqdq");
        known = !is_fast ? GMAC_PORTABLE : is_wide ? GMAC_WIDE : GMAC_FAST;
    }
    return known;
}

FAST void fast_encipher(const uint8_t round_keys[GMAC_ROUND_KEYS], uint8_t block[GMAC_TAG]) {
    const __m128i *key = (const __m128i *)round_keys;
    __m128i state = _mm_xor_si128(_mm_loadu_si128((__m128i *)block), _mm_loadu_si128(key));
    for (int round = 1; round < 10; round++) state = _mm_aesenc_si128(state, _mm_loadu_si128(key + round));
    _mm_storeu_si128((__m128i *)block, _mm_aesenclast_si128(state, _mm_loadu_si128(key + 10)));
}

/* -- a block at a time ----------------------------------------------------------------------------------- */

typedef struct {
    __m128i low, middle, high;
} products;

FAST static inline __m128i backwards(__m128i block) {
    return _mm_shuffle_epi8(block, _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}

FAST static inline void add_product(products *sum, __m128i block, __m128i power) {
    sum->low = _mm_xor_si128(sum->low, _mm_clmulepi64_si128(block, power, 0x00));
    sum->high = _mm_xor_si128(sum->high, _mm_clmulepi64_si128(block, power, 0x11));
    sum->middle = _mm_xor_si128(sum->middle, _mm_clmulepi64_si128(block, power, 0x01));
    sum->middle = _mm_xor_si128(sum->middle, _mm_clmulepi64_si128(block, power, 0x10));
}

/* Modulo the polynomial, and divided by x^128. */
FAST static inline __m128i reduced(const products *sum) {
    const __m128i modulus = _mm_set_epi64x((long long)0xc200000000000000u, 1);
    __m128i low = _mm_xor_si128(sum->low, _mm_slli_si128(sum->middle, 8));
    __m128i high = _mm_xor_si128(sum->high, _mm_srli_si128(sum->middle, 8));
    for (int half = 0; half < 2; half++)
        low = _mm_xor_si128(_mm_shuffle_epi32(low, 0x4e), _mm_clmulepi64_si128(low, modulus, 0x10));
    return _mm_xor_si128(high, low);
}

/* What is known of the blocks before, and `count` more of them. */
FAST static inline __m128i absorbed(const gmac_key *key, __m128i before, const __m128i *blocks, int count) {
    const __m128i *power = (const __m128i *)key->powers + (GMAC_POWERS - count);
    products sum = {0};
#pragma GCC unroll 8
    for (int i = 0; i < count; i++) {
        __m128i block = backwards(_mm_loadu_si128(blocks + i));
        add_product(&sum, i ? block : _mm_xor_si128(block, before), _mm_loadu_si128(power + i));
    }
    return reduced(&sum);
}

/* -- four blocks at a time ------------------------------------------------------------------------------- */

typedef struct {
    __m512i low, middle, high;
} wide_products;

WIDE static inline __m512i wide_backwards(const uint8_t *blocks) {
    __m512i turn = _mm512_broadcast_i32x4(_mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    return _mm512_shuffle_epi8(_mm512_loadu_si512(blocks), turn);
}

WIDE static inline __m512i any_differs(__m512i one, __m512i other, __m512i third) {
    return _mm512_ternarylogic_epi64(one, other, third, 0x96);
}

WIDE static inline void add_wide_product(wide_products *sum, __m512i blocks, __m512i power) {
    sum->low = _mm512_xor_si512(sum->low, _mm512_clmulepi64_epi128(blocks, power, 0x00));
    sum->high = _mm512_xor_si512(sum->high, _mm512_clmulepi64_epi128(blocks, power, 0x11));
    sum->middle = any_differs(sum->middle, _mm512_clmulepi64_epi128(blocks, power, 0x01),
                              _mm512_clmulepi64_epi128(blocks, power, 0x10));
}

WIDE static inline __m512i wide_reduced(const wide_products *sum) {
    const __m512i modulus = _mm512_broadcast_i32x4(_mm_set_epi64x((long long)0xc200000000000000u, 1));
    __m512i low = _mm512_xor_si512(sum->low, _mm512_bslli_epi128(sum->middle, 8));
    __m512i high = _mm512_xor_si512(sum->high, _mm512_bsrli_epi128(sum->middle, 8));
    for (int half = 0; half < 2; half++)
        low = _mm512_xor_si512(_mm512_shuffle_epi32(low, (_MM_PERM_ENUM)0x4e),
                               _mm512_clmulepi64_epi128(low, modulus, 0x10));
    return _mm512_xor_si512(high, low);
}

/* Each lane adds up every fourth block; so the powers of the last ones of a lane differ from lane to lane, and those of
 * all before are the first lane's. At least WIDE_BLOCK bytes; what is left of them is not looked at. */
WIDE static __m128i absorbed_wide(const gmac_key *key, const uint8_t *data, size_t size) {
    __m512i before = _mm512_setzero_si512();
    for (size_t count; size >= WIDE_BLOCK; size -= count * WIDE_BLOCK) {
        count = size / WIDE_BLOCK < WIDE_TOGETHER ? size / WIDE_BLOCK : WIDE_TOGETHER;
        int is_last = size < (count + 1) * WIDE_BLOCK;
        const uint64_t(*power)[2] = key->powers + (GMAC_POWERS - LANES * count);
        wide_products sum = {0};
        for (size_t i = 0; i < count; i++, data += WIDE_BLOCK, power += LANES) {
            __m512i by = is_last ? _mm512_loadu_si512(power)
                                 : _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)power));
            add_wide_product(&sum, i ? wide_backwards(data) : _mm512_xor_si512(wide_backwards(data), before), by);
        }
        before = wide_reduced(&sum);
    }
    __m256i halves = _mm256_xor_si256(_mm512_castsi512_si256(before), _mm512_extracti64x4_epi64(before, 1));
    return _mm_xor_si128(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
}

FAST void fast_hash(const gmac_key *key, const uint8_t *data, size_t size, uint64_t first, uint64_t second,
                    uint8_t hash[GMAC_TAG]) {
    uint8_t rest[(TOGETHER + 1) * BLOCK];
    __m128i sum = _mm_setzero_si128();
    if (size >= WIDE_FROM && key->by == GMAC_WIDE) {
        sum = absorbed_wide(key, data, size);
        data += size / WIDE_BLOCK * WIDE_BLOCK;
        size %= WIDE_BLOCK;
    }
    for (; size >= TOGETHER * BLOCK; size -= TOGETHER * BLOCK, data += TOGETHER * BLOCK)
        sum = absorbed(key, sum, (const __m128i *)data, TOGETHER);
    int count = (int)((size + BLOCK - 1) / BLOCK);
    memset(rest + (count ? count - 1 : 0) * BLOCK, 0, BLOCK);
    memcpy(rest, data, size);
    __m128i last = _mm_set_epi64x((long long)first, (long long)second);
    _mm_storeu_si128((__m128i *)rest + count, backwards(last));
    _mm_storeu_si128((__m128i *)hash, backwards(absorbed(key, sum, (const __m128i *)rest, count + 1)));
}
#else
int gmac_best(void) { return GMAC_PORTABLE; }
void fast_encipher(const uint8_t round_keys[GMAC_ROUND_KEYS], uint8_t block[GMAC_TAG]) {}
void fast_hash(const gmac_key *key, const uint8_t *data, size_t size, uint64_t first, uint64_t second,
               uint8_t hash[GMAC_TAG]) {}
#endif
