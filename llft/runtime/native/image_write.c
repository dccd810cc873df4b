/* The memory of this process into a file: the mappings, and of them the pages that no file has.
 *
 * Runs in a child that shares nothing with its parent but the pages (copy on write), while the parent goes on.
 * Pages that are all zero are left out: fresh memory is zero.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "image.h"

#define PAGES_AT_ONCE 4096
#define PRESENT_OR_SWAPPED(entry) ((entry) >> 62)
#define OF_A_FILE(entry) ((entry) >> 61 & 1)

struct output {
    int fd, pagemap;
    uint64_t offset;
};

static int write_all(int fd, const char *bytes, uint64_t size, uint64_t offset) {
    while (size) {
        uint64_t piece = size < PIECE_BYTES ? size : PIECE_BYTES;
        long wrote = syscall(SYS_pwrite64, fd, bytes, piece, offset);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return wrote ? errno : EIO;
        bytes += wrote;
        offset += (uint64_t)wrote;
        size -= (uint64_t)wrote;
    }
    return 0;
}

static int is_zero(uint64_t page) {
    const uint64_t *word = (const uint64_t *)page;
    for (uint64_t i = 0; i < PAGE / 8; i += 8)
        if (word[i] | word[i + 1] | word[i + 2] | word[i + 3] | word[i + 4] | word[i + 5] | word[i + 6] | word[i + 7])
            return 0;
    return 1;
}

static int write_run(struct image *image, struct output *out, uint64_t start, uint64_t size) {
    if (image->run_count >= RUNS_MAX)
        return E2BIG;
    int failed = write_all(out->fd, (const char *)start, size, out->offset);
    image->run[image->run_count++] = (struct run){start, size, out->offset};
    out->offset += size;
    return failed;
}

static int is_wanted(uint64_t entry, uint64_t page, const struct region *region) {
    if (!PRESENT_OR_SWAPPED(entry) || OF_A_FILE(entry))
        return 0;
    return region->kind == PRIVATE_FILE || !is_zero(page); /* over a file's page, zero is news */
}

static int write_pages(struct image *image, struct output *out, const struct region *region) {
    static uint64_t entry[PAGES_AT_ONCE];
    uint64_t end = region->start + region->size;
    for (uint64_t at = region->start; at < end;) {
        uint64_t count = (end - at) / PAGE;
        if (count > PAGES_AT_ONCE)
            count = PAGES_AT_ONCE;
        if (syscall(SYS_pread64, out->pagemap, entry, count * 8, at / PAGE * 8) != (long)(count * 8))
            return EIO;
        for (uint64_t i = 0; i < count;) {
            uint64_t first = i;
            while (i < count && is_wanted(entry[i], at + i * PAGE, region))
                i++;
            int failed = i > first ? write_run(image, out, at + first * PAGE, (i - first) * PAGE) : 0;
            if (failed)
                return failed;
            i += i == first;
        }
        at += count * PAGE;
    }
    return 0;
}

static int kind_of(const struct mapping *mapping) {
    if (!strncmp(mapping->path, "[v", 2))
        return SPECIAL;
    if (!strcmp(mapping->path, "[stack]"))
        return STACK;
    if (!strcmp(mapping->path, "[heap]"))
        return HEAP;
    return mapping->inode ? PRIVATE_FILE : ANONYMOUS;
}

static int digest_once(struct image *image, struct region *region) {
    for (uint64_t i = 0; &image->region[i] != region; i++)
        if (image->region[i].kind == PRIVATE_FILE && !strcmp(image->region[i].path, region->path)) {
            region->file_size = image->region[i].file_size;
            region->file_digest = image->region[i].file_digest;
            return 0;
        }
    return digest_file(region->path, &region->file_size, &region->file_digest);
}

static int add_region(struct image *image, struct output *out, const struct mapping *mapping) {
    if (image->region_count >= REGIONS_MAX)
        return E2BIG;
    struct region *region = &image->region[image->region_count++];
    region->start = mapping->start;
    region->size = mapping->end - mapping->start;
    region->file_offset = mapping->file_offset;
    region->protection = mapping->protection;
    region->kind = kind_of(mapping);
    region->fd = -1;
    memcpy(region->path, mapping->path, PATH_BYTES);
    int failed = region->kind == PRIVATE_FILE ? digest_once(image, region) : 0;
    if (failed || region->kind == SPECIAL || !(region->protection & PROT_READ))
        return failed;
    return write_pages(image, out, region);
}

static int is_left_out(const struct mapping *mapping, const char *skipped) {
    if (mapping->start >= IMAGE_AT && mapping->start < RESERVED_END)
        return 1;
    if (!strcmp(mapping->path, "[vsyscall]"))
        return 1;
    return mapping->is_shared && *skipped && !strncmp(mapping->path, skipped, strlen(skipped));
}

static int write_regions(struct image *image, struct output *out, const char *skipped) {
    struct mapping mapping;
    int failed = -(int)read_maps();
    while (!failed && next_mapping(&mapping)) {
        if (is_left_out(&mapping, skipped))
            continue;
        /* Shared, but only read (the C library's caches): as good as a mapping of its own. */
        int is_common = mapping.is_shared && (!mapping.inode || mapping.protection & PROT_WRITE);
        failed = is_common ? ENOTSUP : add_region(image, out, &mapping);
    }
    return failed;
}

int write_image(struct image *image, const char *path, const char *skipped) {
    struct output out = {
        .fd = (int)syscall(SYS_open, path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600),
        .pagemap = (int)syscall(SYS_open, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC),
        .offset = 0,
    };
    if (out.fd < 0 || out.pagemap < 0)
        return EACCES;
    /* The header goes behind the pages, for its size is known last; the first bytes say where. */
    out.offset = PAGE;
    find_traits(&image->traits);
    int failed = write_regions(image, &out, skipped);
    image->magic = IMAGE_MAGIC;
    image->size = (uint64_t)((char *)&image->run[image->run_count] - (char *)image);
    uint64_t place[3] = {IMAGE_MAGIC, out.offset, image->size};
    if (!failed)
        failed = write_all(out.fd, (const char *)image, image->size, out.offset);
    if (!failed)
        failed = write_all(out.fd, (const char *)place, sizeof place, 0);
    return failed;
}
