/* The CRC-32 of zlib, eight bytes at a time. */

#ifndef LLFT_CRC32_H
#define LLFT_CRC32_H

#include <stddef.h>
#include <stdint.h>

void crc32_begin(void); /* once, before all else */
uint32_t crc32_of(const uint8_t *data, size_t size);

#endif
