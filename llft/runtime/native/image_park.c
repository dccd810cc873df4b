/* All threads but the caller, stopped where they are, with all that is needed to go on from there.
 *
 * Each is sent a signal and stays in its handler: the signal's frame on its own stack has its registers, its
 * vector state and its mask. Threads named llft-... are the runtime's native ones; they are no part of
 * an image, and go on.
 *
 * Laws:
 *  - park_others returns 0 with all others in the handler, or an errno with none kept there.
 *  - A signal that arrives after its round is over keeps nobody.
 *  - What a stopped thread was waiting in is restarted by the kernel (SA_RESTART), or returns EINTR, which the
 *    interpreter retries.
 */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "image.h"

#define PARK_SIGNAL (SIGRTMAX - 3)
#define PATIENCE_NS INT64_C(500000000)
#define USUAL_NS INT64_C(15000000) /* whoever takes longer is looked at */
#define STEP_NS 20000
#define ROUNDS 5
#define THREAD_BYTES 0x900 /* of the C library's description of a thread */
#define OURS "llft-"

static struct image *current; /* NULL: nobody is to stay */
static _Atomic int32_t arrived, kept;
static uint64_t tid_offset;

__attribute__((naked, noinline, returns_twice)) int save_context(struct context *context __attribute__((unused))) {
    __asm__ volatile("mov %rbx,(%rdi); mov %rbp,8(%rdi); mov %r12,16(%rdi); mov %r13,24(%rdi);"
                     "mov %r14,32(%rdi); mov %r15,40(%rdi); lea 8(%rsp),%rax; mov %rax,48(%rdi);"
                     "mov (%rsp),%rax; mov %rax,56(%rdi); xor %eax,%eax; ret");
}

__attribute__((naked, noinline)) void resume_context(struct context *context __attribute__((unused))) {
    __asm__ volatile("mov (%rdi),%rbx; mov 8(%rdi),%rbp; mov 16(%rdi),%r12; mov 24(%rdi),%r13;"
                     "mov 32(%rdi),%r14; mov 40(%rdi),%r15; mov 48(%rdi),%rsp; mov $1,%eax; jmp *56(%rdi)");
}

static uint64_t own_fs(void) {
    uint64_t fs = 0;
    syscall(SYS_arch_prctl, ARCH_GET_FS, &fs);
    return fs;
}

static void describe_self(struct parked *self) {
    size_t length;
    void *list = NULL;
    self->fs = own_fs();
    self->tid = (int32_t)syscall(SYS_gettid);
    self->is_leader = self->tid == (int32_t)syscall(SYS_getpid);
    syscall(SYS_get_robust_list, 0, &list, &length);
    self->robust_list = (uint64_t)list;
}

/* In a thread that was made anew: what the kernel had been told of the former one. Its thread id is in
 * place. */
static void register_again(uint64_t robust_list) {
    uint64_t fs = own_fs();
    syscall(SYS_set_tid_address, fs + tid_offset);
    syscall(SYS_set_robust_list, robust_list, 24);
    if (__rseq_size) {
        struct rseq *area = (struct rseq *)(fs + (uint64_t)__rseq_offset);
        area->rseq_cs = 0;
        syscall(SYS_rseq, area, 32, 0, 0x53053053);
    }
}

static void wait_while(_Atomic int32_t *word, int32_t value) {
    while (*word == value)
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void park(int signal_number) {
    (void)signal_number;
    int before = errno;
    struct image *image = __atomic_load_n(&current, __ATOMIC_SEQ_CST);
    int32_t place = image ? arrived++ : 0;
    if (image && place < THREADS_MAX - 1) {
        struct parked *self = &image->thread[place];
        describe_self(self);
        if (save_context(&self->context) == 0) {
            self->state = 1;
            wait_while(&kept, 1);
        } else {
            register_again(self->robust_list);
        }
        self->state = 2;
    }
    errno = before;
}

/* The offset of the thread id in the C library's description of a thread; 0: it is nowhere, or twice. */
static uint64_t find_tid_offset(void) {
    uint64_t fs = own_fs(), found = 0;
    int32_t tid = (int32_t)syscall(SYS_gettid);
    for (uint64_t offset = 0x200; offset < THREAD_BYTES; offset += 4)
        if (*(volatile int32_t *)(fs + offset) == tid) {
            if (found)
                return 0;
            found = offset;
        }
    return found;
}

static int is_ours(int tid) {
    char path[64], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", tid);
    int fd = (int)syscall(SYS_open, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 1; /* it has ended */
    long got = syscall(SYS_read, fd, name, sizeof name - 1);
    syscall(SYS_close, fd);
    return got > 0 && !strncmp(name, OURS, sizeof OURS - 1);
}

static int is_parked(const struct image *image, int tid) {
    for (int i = 0; i < arrived && i < THREADS_MAX - 1; i++)
        if (image->thread[i].tid == tid)
            return 1;
    return 0;
}

/* Visits whoever is not parked. Returns for how many that is true, or a negative errno. */
static int count_others(const struct image *image, int (*visit)(int tid)) {
    char entries[1 << 14];
    int self = (int)syscall(SYS_gettid), count = 0;
    int directory = (int)syscall(SYS_open, "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return -errno;
    long got;
    while ((got = syscall(SYS_getdents64, directory, entries, sizeof entries)) > 0)
        for (long at = 0; at < got; at += *(unsigned short *)(entries + at + 16)) {
            int tid = atoi(entries + at + 19);
            if (tid > 0 && tid != self && !is_parked(image, tid) && !is_ours(tid) && visit(tid))
                count++;
        }
    syscall(SYS_close, directory);
    return count;
}

static int send_signal(int tid) { return !syscall(SYS_tgkill, syscall(SYS_getpid), tid, PARK_SIGNAL); }

static int has_signal(const char *text, const char *set) {
    const char *found = strstr(text, set);
    return found && strtoull(found + strlen(set), NULL, 16) >> (PARK_SIGNAL - 1) & 1;
}

/* Whether it blocks the signal, which waits for it: who is in the handler blocks it as well. */
static int is_deaf(int tid) {
    char path[64], text[1 << 13];
    snprintf(path, sizeof path, "/proc/self/task/%d/status", tid);
    int fd = (int)syscall(SYS_open, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0; /* it has ended */
    long got = syscall(SYS_read, fd, text, sizeof text - 1);
    syscall(SYS_close, fd);
    text[got > 0 ? got : 0] = 0;
    return has_signal(text, "SigPnd:\t") && has_signal(text, "SigBlk:\t");
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* The program stands still meanwhile: who blocks the signal is not waited for. */
static int await(struct image *image, int32_t wanted) {
    int64_t until = now_ns() + PATIENCE_NS, look = now_ns() + USUAL_NS;
    for (int32_t place = 0; place < wanted;) {
        if (place < arrived && image->thread[place].state == 1) {
            place++;
            continue;
        }
        if (now_ns() > look) {
            if (count_others(image, is_deaf) > 0 || now_ns() > until)
                return ETIMEDOUT;
            look = now_ns() + USUAL_NS;
        }
        struct timespec step = {0, STEP_NS};
        syscall(SYS_nanosleep, &step, NULL);
    }
    return 0;
}

static int check_threads(const struct image *image) {
    for (uint64_t i = 0; i < image->thread_count; i++)
        if (*(int32_t *)(image->thread[i].fs + tid_offset) != image->thread[i].tid)
            return ENOTSUP; /* another C library */
    return 0;
}

int park_others(struct image *image) {
    struct sigaction action = {.sa_handler = park, .sa_flags = SA_RESTART};
    tid_offset = image->tid_offset = find_tid_offset();
    if (!tid_offset)
        return ENOTSUP;
    sigfillset(&action.sa_mask);
    struct sigaction former;
    if (sigaction(PARK_SIGNAL, NULL, &former))
        return errno;
    if (former.sa_handler != SIG_DFL && former.sa_handler != park)
        return EBUSY; /* it is the program's */
    if (sigaction(PARK_SIGNAL, &action, NULL))
        return errno;
    arrived = 0;
    kept = 1;
    __atomic_store_n(&current, image, __ATOMIC_SEQ_CST);
    int failed = 0, wanted = 0, more = 1;
    for (int round = 0; more > 0 && round < ROUNDS && !failed; round++) {
        more = count_others(image, send_signal);
        failed = more < 0 ? -more : 0;
        wanted += more > 0 ? more : 0;
        if (!failed)
            failed = wanted >= THREADS_MAX - 1 ? E2BIG : await(image, wanted);
    }
    if (!failed && more)
        failed = EAGAIN; /* threads are made as fast as they are stopped */
    image->thread_count = (uint64_t)wanted;
    if (!failed)
        failed = check_threads(image);
    if (failed)
        release_others(image);
    return failed;
}

/* The caller is the last of the threads. */
void save_self(struct image *image) { describe_self(&image->thread[image->thread_count++]); }

void release_others(struct image *image) {
    __atomic_store_n(&current, NULL, __ATOMIC_SEQ_CST);
    kept = 0;
    syscall(SYS_futex, &kept, FUTEX_WAKE_PRIVATE, THREADS_MAX, NULL, NULL, 0);
    for (int i = 0; i < arrived && i < THREADS_MAX - 1; i++)
        while (image->thread[i].state != 2) /* it is about to go on, and reads the image */
            sched_yield();
}

/* The caller, in a restored process: the others go on by themselves. */
void enter_again(struct image *image) {
    __atomic_store_n(&current, NULL, __ATOMIC_SEQ_CST);
    kept = 0;
    register_again(image->thread[image->thread_count - 1].robust_list);
    for (uint64_t i = 0; i + 1 < image->thread_count; i++)
        while (image->thread[i].state != 2)
            sched_yield();
}
