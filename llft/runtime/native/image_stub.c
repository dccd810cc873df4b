/* The last step of restoring, from a copy of itself: everything else of the process is unmapped, the image's
 * memory is put in its place, its threads are made, and each goes on where it was.
 *
 * The code between the marks is copied to a fixed address; it calls nothing but the kernel, uses no data but
 * the image, and runs on a stack of its own. If something fails here there is nobody left to tell:
 * the process ends with one of the statuses below. */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "image.h"

#define IN_STUB __attribute__((section("stub"), noinline, optimize("no-tree-loop-distribute-patterns", "no-stack-protector")))

enum { NO_UNMAP = 60, NO_MAP, NO_PAGES, NO_PROTECTION, NO_MOVE, NO_THREAD };

#define SYSCALL(number, a, b, c, d, e, f)                                                                        \
    ({                                                                                                           \
        long result_;                                                                                            \
        register long r10_ __asm__("r10") = (long)(d);                                                           \
        register long r8_ __asm__("r8") = (long)(e);                                                             \
        register long r9_ __asm__("r9") = (long)(f);                                                             \
        __asm__ volatile("syscall"                                                                               \
                         : "=a"(result_)                                                                         \
                         : "a"((long)(number)), "D"((long)(a)), "S"((long)(b)), "d"((long)(c)), "r"(r10_),       \
                           "r"(r8_), "r"(r9_)                                                                    \
                         : "rcx", "r11", "memory");                                                              \
        result_;                                                                                                 \
    })
#define END_IF(condition, status)                                                                                \
    do {                                                                                                         \
        if (condition)                                                                                           \
            SYSCALL(SYS_exit_group, status, 0, 0, 0, 0, 0);                                                      \
    } while (0)

IN_STUB static void clear(const struct image *image) {
    for (uint64_t i = 0; i < image->unmap_count; i++)
        END_IF(SYSCALL(SYS_munmap, image->unmap[i].start, image->unmap[i].size, 0, 0, 0, 0), NO_UNMAP);
    for (uint64_t i = 0; i < image->move_count; i++) {
        const struct range *move = &image->move[i];
        long to = SYSCALL(SYS_mremap, move->start, move->size, move->size, MREMAP_MAYMOVE | MREMAP_FIXED, move->to, 0);
        END_IF(to != (long)move->to, NO_MOVE);
    }
}

IN_STUB static void map_regions(const struct image *image) {
    for (uint64_t i = 0; i < image->region_count; i++) {
        const struct region *region = &image->region[i];
        if (region->kind == SPECIAL)
            continue;
        long flags = MAP_FIXED | MAP_NORESERVE | MAP_PRIVATE;
        flags |= region->fd < 0 ? MAP_ANONYMOUS : 0;
        flags |= region->kind == STACK ? MAP_GROWSDOWN : 0;
        long offset = region->fd < 0 ? 0 : (long)region->file_offset;
        long at = SYSCALL(SYS_mmap, region->start, region->size, region->protection | PROT_WRITE, flags, region->fd, offset);
        END_IF(at != (long)region->start, NO_MAP);
    }
}

IN_STUB static void fill_pages(const struct image *image) {
    for (uint64_t i = 0; i < image->run_count; i++) {
        const struct run *run = &image->run[i];
        for (uint64_t done = 0; done < run->size;) {
            uint64_t left = run->size - done, piece = left < PIECE_BYTES ? left : PIECE_BYTES;
            long got = SYSCALL(SYS_pread64, image->fd, run->start + done, piece, run->offset + done, 0, 0);
            END_IF(got <= 0, NO_PAGES);
            done += (uint64_t)got;
        }
    }
}

IN_STUB static void protect_regions(const struct image *image) {
    for (uint64_t i = 0; i < image->region_count; i++) {
        const struct region *region = &image->region[i];
        if (region->kind != SPECIAL && !(region->protection & PROT_WRITE))
            END_IF(SYSCALL(SYS_mprotect, region->start, region->size, region->protection, 0, 0, 0), NO_PROTECTION);
    }
    SYSCALL(SYS_close_range, image->keep_fd + 1, ~0u, 0, 0, 0, 0);
}

IN_STUB static void start_thread(const struct image *image, uint64_t number) {
    const struct parked *thread = &image->thread[number];
    uint64_t stack = STACKS_AT + (number + 1) * STACK_BYTES - 64;
    long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |
                 CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
    long tid = (long)(thread->fs + image->tid_offset), made;
    register long r10_ __asm__("r10") = tid;
    register long r8_ __asm__("r8") = (long)thread->fs;
    register long r9_ __asm__("r9") = (long)&thread->context;
    register long r12_ __asm__("r12") = (long)image->resume;
    __asm__ volatile("syscall; test %%rax,%%rax; jnz 1f; mov %%r9,%%rdi; jmp *%%r12; 1:"
                     : "=a"(made)
                     : "a"((long)SYS_clone), "D"(flags), "S"(stack), "d"(tid), "r"(r10_), "r"(r8_), "r"(r9_), "r"(r12_)
                     : "rcx", "r11", "memory");
    END_IF(made < 0, NO_THREAD);
}

__attribute__((section("stub"), noinline, noreturn)) static void become(struct image *image) {
    clear(image);
    map_regions(image);
    fill_pages(image);
    protect_regions(image);
    for (long number = 1; number <= 64; number++)
        SYSCALL(SYS_rt_sigaction, number, image->signal_actions[number], 0, 8, 0, 0);
    struct parked *leader = &image->thread[0];
    for (uint64_t i = 0; i < image->thread_count; i++)
        if (image->thread[i].is_leader)
            leader = &image->thread[i];
        else
            start_thread(image, i);
    SYSCALL(SYS_arch_prctl, ARCH_SET_FS, leader->fs, 0, 0, 0, 0);
    *(int32_t *)(leader->fs + image->tid_offset) = (int32_t)SYSCALL(SYS_getpid, 0, 0, 0, 0, 0, 0);
    image->resume(&leader->context);
    for (;;)
        ;
}

extern char __start_stub[], __stop_stub[];

void leave_for(struct image *image) {
    long all = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    mmap((void *)STACKS_AT, SCRATCH_STACKS * STACK_BYTES, (int)all, (int)flags | MAP_NORESERVE, -1, 0);
    mmap((void *)STUB_AT, STACK_BYTES, (int)all | PROT_EXEC, (int)flags, -1, 0);
    memcpy((void *)STUB_AT, __start_stub, (size_t)(__stop_stub - __start_stub));
    uint64_t entry = STUB_AT + (uint64_t)((char *)become - __start_stub);
    uint64_t stack = STACKS_AT + SCRATCH_STACKS * STACK_BYTES - 256;
    __asm__ volatile("mov %0,%%rsp; xor %%ebp,%%ebp; call *%2" ::"r"(stack), "D"(image), "r"(entry) : "memory");
    __builtin_unreachable();
}
