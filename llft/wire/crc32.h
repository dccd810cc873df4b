/* The CRC-32 of zlib: of datagrams without a key, of the journal's frames, and of what programs say and hear.
 * Where the processor multiplies polynomials 16 bytes take one step, else eight bytes do. */

#ifndef LLFT_CRC32_H
#define LLFT_CRC32_H

#include <stddef.h>
#include <stdint.h>

void crc32_begin(void); /* by each extension module, before all else */
uint32_t crc32_of(const uint8_t *data, size_t size);

/* Without the two inversions, so that pieces can be put together. */
uint32_t crc32_over(uint32_t crc, const uint8_t *data, size_t size);

/* Of two pieces one behind the other: what is known of each need not be taken again of both. */
uint32_t crc32_joined(uint32_t first, uint32_t second, size_t second_size);

/* Of the second piece, where that of the first and of both are known. */
static inline uint32_t crc32_behind(uint32_t first, uint32_t both, size_t second_size) {
    return crc32_joined(first, both, second_size);
}

/* Of the first piece, where that of the second and of both are known. */
uint32_t crc32_before(uint32_t both, uint32_t second, size_t second_size);

#endif
