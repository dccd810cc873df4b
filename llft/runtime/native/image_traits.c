/* What must be alike where an image is restored: the processor's features (the C library has chosen its
 * functions by them), the kernel's vDSO (its addresses are remembered), and the files that are mapped. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "image.h"


static uint64_t digest_bytes(const unsigned char *bytes, uint64_t size) {
    uint64_t digest = UINT64_C(0xcbf29ce484222325), word;
    for (; size >= 8; bytes += 8, size -= 8) {
        memcpy(&word, bytes, 8);
        digest = (digest ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        digest ^= digest >> 29;
    }
    for (; size; bytes++, size--)
        digest = (digest ^ *bytes) * UINT64_C(0x100000001b3);
    return digest;
}

/* Which processor of several one is on is not among them: leaf 1 has it in ebx, which is left out. */
static void find_features(uint32_t *features) {
    uint32_t a, b, c, d;
    memset(features, 0, sizeof((struct traits *)0)->features);
    if (__get_cpuid(1, &a, &b, &c, &d)) {
        features[0] = a;
        features[1] = c;
        features[2] = d;
    }
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        features[3] = b;
        features[4] = c;
        features[5] = d;
    }
    if (__get_cpuid_count(0xd, 0, &a, &b, &c, &d)) {
        features[6] = a; /* what may be saved */
        features[7] = b; /* how large that is */
    }
    if (__get_cpuid_count(0xd, 1, &a, &b, &c, &d))
        features[8] = a;
}

void find_traits(struct traits *found) {
    struct mapping mapping;
    memset(found, 0, sizeof *found);
    find_features(found->features);
    if (read_maps())
        return;
    while (next_mapping(&mapping))
        if (!strcmp(mapping.path, "[vdso]"))
            found->vdso_digest = digest_bytes((unsigned char *)mapping.start, mapping.end - mapping.start);
}

/* Returns 0, or an errno. */
int digest_file(const char *path, uint64_t *size, uint64_t *digest) {
    struct stat found;
    int fd = (int)syscall(SYS_open, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    int failed = fstat(fd, &found) ? errno : 0;
    if (!failed && found.st_size) {
        void *bytes = mmap(NULL, (size_t)found.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes == MAP_FAILED) {
            failed = errno;
        } else {
            *digest = digest_bytes(bytes, (uint64_t)found.st_size);
            munmap(bytes, (size_t)found.st_size);
        }
    }
    *size = (uint64_t)found.st_size;
    syscall(SYS_close, fd);
    return failed;
}
