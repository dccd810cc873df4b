/* What a GMAC is made of, in two ways: by instructions (`gmac_x86.c`), and without (`gmac_portable.c`).
 *
 * Polynomials are those of POLYVAL (RFC 8452, appendix A), which are GHASH's with the bits of a block turned round: a
 * block's bytes are read backwards, a product is divided by x^128, and the hash key is multiplied by x before. */

#ifndef LLFT_GMAC_PARTS_H
#define LLFT_GMAC_PARTS_H

#include "gmac.h"

/* GHASH of data, filled up with zeros, and a last block of two numbers. */
void portable_hash(const gmac_key *key, const uint8_t *data, size_t size, uint64_t first, uint64_t second,
                   uint8_t hash[GMAC_TAG]);
void portable_encipher(const uint8_t round_keys[GMAC_ROUND_KEYS], uint8_t block[GMAC_TAG]);

void portable_expand(uint8_t round_keys[GMAC_ROUND_KEYS], const uint8_t key[GMAC_TAG]);

/* All powers of the hash key. */
void portable_powers(uint64_t powers[GMAC_POWERS][2], const uint8_t hash_key[GMAC_TAG]);

void fast_hash(const gmac_key *key, const uint8_t *data, size_t size, uint64_t first, uint64_t second,
               uint8_t hash[GMAC_TAG]);
void fast_encipher(const uint8_t round_keys[GMAC_ROUND_KEYS], uint8_t block[GMAC_TAG]);

#endif
