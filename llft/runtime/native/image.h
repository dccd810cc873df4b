/* A process image: what a process's memory and threads were, in a file (docs/CHECKPOINTS.md).
 *
 *     header   struct image, up to its last run
 *     pages    at the offsets that the runs name
 *
 * It is read by the same build of this library only; `magic` changes with the layout. Everything here works on
 * fixed addresses below the libraries and above the heap, which stay free in a process without address
 * randomisation, and calls the kernel directly: the child that writes has one thread of many, and no lock of
 * the C library can be trusted in it. */
#ifndef LLFT_IMAGE_H
#define LLFT_IMAGE_H

#include <stdint.h>
#include <sys/types.h>

#define IMAGE_MAGIC UINT64_C(0x3167616d69746c6c) /* "lltimag1" */
#define PAGE UINT64_C(4096)
#define PATH_BYTES 256
#define THREADS_MAX 1024
#define REGIONS_MAX 8192
#define RUNS_MAX 1000000
/* Of one call of the kernel. Where the kernel is not preempted, who serves clients waits until the call ends. */
#define PIECE_BYTES UINT64_C(131072)

/* Where nothing else is mapped. */
#define IMAGE_AT UINT64_C(0x610000000000)
#define STACKS_AT UINT64_C(0x620000000000)
#define STUB_AT UINT64_C(0x630000000000)
#define RESERVED_END UINT64_C(0x640000000000)
#define STACK_BYTES UINT64_C(65536)
#define SCRATCH_STACKS (THREADS_MAX + 1)

/* Callee-saved registers: enough to go on after a call. */
struct context {
    uint64_t rbx, rbp, r12, r13, r14, r15, rsp, rip;
};

struct parked {
    struct context context;
    uint64_t fs;          /* its thread-local storage */
    uint64_t robust_list; /* as it was registered */
    int32_t tid;
    int32_t is_leader;
    _Atomic int32_t state; /* 0 running, 1 parked, 2 gone on */
};

enum region_kind { ANONYMOUS, PRIVATE_FILE, STACK, HEAP, SPECIAL };

struct region {
    uint64_t start, size, file_offset;
    uint64_t file_size, file_digest;
    int32_t protection, kind, fd;
    char path[PATH_BYTES];
};

struct run {
    uint64_t start, size, offset;
};

struct range {
    uint64_t start, size, to;
};

/* What must be alike where an image is restored, beside the files that are mapped. */
struct traits {
    uint32_t features[12];
    uint64_t vdso_digest;
};

struct image {
    uint64_t magic, size, tid_offset;
    uint64_t thread_count, region_count, run_count;
    struct traits traits;
    void (*resume)(struct context *); /* resume_context, where the image has it */
    uint64_t signal_actions[65][4];
    struct parked thread[THREADS_MAX];
    struct region region[REGIONS_MAX];
    /* Of the restoring process, while it restores. */
    uint64_t unmap_count, move_count;
    struct range unmap[REGIONS_MAX], move[8];
    int32_t fd, keep_fd;
    struct run run[RUNS_MAX];
};

/* image_maps.c */
struct mapping {
    uint64_t start, end, file_offset;
    uint64_t inode;
    int protection, is_shared;
    char path[PATH_BYTES];
};
long read_maps(void); /* a snapshot of /proc/self/maps; negative: an errno */
int next_mapping(struct mapping *found);

/* image_traits.c */
void find_traits(struct traits *found);
int digest_file(const char *path, uint64_t *size, uint64_t *digest);

/* image_park.c */
int park_others(struct image *image);
void release_others(struct image *image);
void save_self(struct image *image);
void enter_again(struct image *image);
int save_context(struct context *context) __attribute__((returns_twice));
void resume_context(struct context *context);

/* image_write.c: in the child. 0, or an errno. `skipped` begins the paths of shared mappings that are left out. */
int write_image(struct image *image, const char *path, const char *skipped);

/* image_stub.c: in the restoring process, once everything is checked. */
void leave_for(struct image *image) __attribute__((noreturn));

#endif
