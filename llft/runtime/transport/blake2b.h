/* Keyed BLAKE2b-128 (RFC 7693), as hashlib's blake2b(digest_size=16, key=..., person=...) has it. */

#ifndef LLFT_BLAKE2B_H
#define LLFT_BLAKE2B_H

#include <stddef.h>
#include <stdint.h>

enum { BLAKE2B_BLOCK = 128, BLAKE2B_DIGEST = 16, BLAKE2B_LONGEST_KEY = 64, BLAKE2B_PERSON = 16 };

typedef struct {
    uint64_t h[8];
} blake2b_key;

/* What is the same for all messages under a key: the state after the key's own block. */
void blake2b_prepare(blake2b_key *prepared, const uint8_t *key, size_t key_size, const uint8_t *person,
                     size_t person_size);

/* Of a message that is not empty. */
void blake2b_mac(const blake2b_key *prepared, const uint8_t *data, size_t size, uint8_t digest[BLAKE2B_DIGEST]);

#endif
