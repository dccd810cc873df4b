/* Restoring an image into a fresh process of the same binary: checks, then preparations, then image_stub.
 *
 * Nothing is changed before all is checked; a negative errno says why not. Descriptors but 0, 1, 2 and
 * `keep_fd` are closed: whoever goes on makes its own anew. The process must have one thread. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "image.h"

static int read_all(int fd, char *bytes, uint64_t size, uint64_t offset) {
    while (size) {
        long got = pread(fd, bytes, size, (off_t)offset);
        if (got <= 0)
            return got ? errno : EIO;
        bytes += got;
        offset += (uint64_t)got;
        size -= (uint64_t)got;
    }
    return 0;
}

static int load_header(int fd, struct image **found) {
    uint64_t place[3];
    int failed = read_all(fd, (char *)place, sizeof place, 0);
    if (failed)
        return failed;
    if (place[0] != IMAGE_MAGIC || place[2] > sizeof(struct image) || place[2] < offsetof(struct image, run))
        return EBADMSG;
    void *at = mmap((void *)IMAGE_AT, sizeof(struct image), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return errno;
    *found = at;
    failed = read_all(fd, at, place[2], place[1]);
    return failed ? failed : (*found)->magic == IMAGE_MAGIC && (*found)->size == place[2] ? 0 : EBADMSG;
}

/* The processor, the kernel and every file. */
static int check_alike(const struct image *image) {
    struct traits here;
    uint64_t size = 0, digest = 0;
    find_traits(&here);
    if (memcmp(&here, &image->traits, sizeof here))
        return EXDEV;
    for (uint64_t i = 0; i < image->region_count; i++) {
        const struct region *region = &image->region[i];
        if (region->kind != PRIVATE_FILE || (i && !strcmp(region->path, image->region[i - 1].path)))
            continue;
        int failed = digest_file(region->path, &size, &digest);
        if (failed || size != region->file_size || digest != region->file_digest)
            return failed ? failed : ESTALE;
    }
    return 0;
}

/* The heap ends where it ended; the kernel lets it grow from there. */
static int place_heap(const struct image *image) {
    for (uint64_t i = 0; i < image->region_count; i++) {
        const struct region *region = &image->region[i];
        uint64_t end = region->start + region->size;
        if (region->kind == HEAP && (uint64_t)syscall(SYS_brk, end) != end)
            return EADDRNOTAVAIL; /* addresses are randomised, or it is another binary */
    }
    return 0;
}

static int open_files(struct image *image, int above) {
    int fd = -1;
    for (uint64_t i = 0; i < image->region_count; i++) {
        struct region *region = &image->region[i];
        if (region->kind != PRIVATE_FILE)
            continue;
        if (!i || strcmp(region->path, image->region[i - 1].path)) {
            int low = open(region->path, O_RDONLY | O_CLOEXEC);
            fd = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, above + 1);
            if (low >= 0)
                close(low);
            if (fd < 0)
                return errno;
        }
        region->fd = fd;
    }
    return 0;
}

/* What is mapped here goes; what the kernel put here moves to where the image expects it. */
static int plan_unmapping(struct image *image) {
    struct mapping mapping;
    image->unmap_count = image->move_count = 0;
    int failed = -(int)read_maps();
    while (!failed && next_mapping(&mapping)) {
        uint64_t size = mapping.end - mapping.start, to = 0;
        if ((mapping.start >= IMAGE_AT && mapping.start < RESERVED_END) || !strcmp(mapping.path, "[vsyscall]"))
            continue;
        if (strncmp(mapping.path, "[v", 2)) {
            image->unmap[image->unmap_count++] = (struct range){mapping.start, size, 0};
            continue;
        }
        for (uint64_t i = 0; i < image->region_count; i++)
            if (image->region[i].kind == SPECIAL && !strcmp(image->region[i].path, mapping.path))
                to = image->region[i].start;
        if (!to || (to != mapping.start && image->move_count == 8))
            return EXDEV;
        if (to != mapping.start)
            image->move[image->move_count++] = (struct range){mapping.start, size, to};
    }
    return failed;
}

static void forget_thread(void) {
    syscall(SYS_set_robust_list, NULL, 24);
    syscall(SYS_set_tid_address, NULL);
    if (__rseq_size)
        syscall(SYS_rseq, (char *)__builtin_thread_pointer() + __rseq_offset, 32, 1, 0x53053053);
}

/* Does not return if it succeeds. */
long image_restore(const char *path, int keep_fd) {
    struct image *image = NULL;
    int low = open(path, O_RDONLY | O_CLOEXEC);
    if (low < 0)
        return -errno;
    int fd = fcntl(low, F_DUPFD_CLOEXEC, keep_fd + 1);
    close(low);
    int failed = fd < 0 ? errno : load_header(fd, &image);
    if (!failed)
        failed = check_alike(image);
    if (!failed)
        failed = place_heap(image);
    if (!failed)
        failed = open_files(image, keep_fd);
    if (failed)
        return -failed;
    image->fd = fd;
    image->keep_fd = keep_fd;
    syscall(SYS_close_range, 3, keep_fd - 1, 0);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    failed = plan_unmapping(image);
    if (failed)
        return -failed;
    forget_thread();
    leave_for(image);
}
