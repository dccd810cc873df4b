/* Taking an image: stop all threads, fork, let them go on; the child writes.
 *
 * The caller holds the interpreter's lock, so that no thread of Python's is half-way into something. Returns 0
 * in the process that goes on, 1 in a process that was restored from the image, a negative errno if there is
 * no image. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "image.h"

#define NICE 10
#define FURTHER "10"
#define ATTEMPTS 8

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static struct image *map_image(void) {
    void *at = mmap((void *)IMAGE_AT, sizeof(struct image), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* A nice value counts within a session; so it gets a session of its own, which steps back (runtime/priority.py).
 * Without rights that may be done once in 100 ms, on the whole host. */
static void step_back(void) {
    struct timespec pause = {0, 60 * 1000 * 1000};
    syscall(SYS_setpriority, PRIO_PROCESS, 0, NICE);
    syscall(SYS_setsid);
    int fd = (int)syscall(SYS_open, "/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return; /* there are none: the nice value counts */
    for (int attempt = 0; attempt < ATTEMPTS && syscall(SYS_write, fd, FURTHER, sizeof FURTHER - 1) < 0; attempt++)
        syscall(SYS_nanosleep, &pause, NULL);
    syscall(SYS_close, fd);
}

/* Where memory runs out, this is what can be done without. */
static void be_first_to_go(void) {
    int fd = (int)syscall(SYS_open, "/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return; /* the kernel chooses without it */
    syscall(SYS_write, fd, "1000", 4);
    syscall(SYS_close, fd);
}

/* The parent's sockets are not the child's: a peer must hear of the parent's end at once. */
static void write_and_end(struct image *image, const char *path, const char *skipped) {
    syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    syscall(SYS_close_range, 0, ~0u, 0);
    be_first_to_go();
    step_back();
    syscall(SYS_exit_group, write_image(image, path, skipped));
}

/* found[0]: nanoseconds for which the threads were stopped; found[1]: the child's process id */
long image_take(const char *path, const char *skipped, int64_t *found) {
    int64_t began = now_ns();
    struct image *image = map_image();
    if (!image)
        return -errno;
    long failed = park_others(image);
    if (failed) {
        munmap(image, sizeof *image);
        return -failed;
    }
    for (int number = 1; number <= 64; number++)
        syscall(SYS_rt_sigaction, number, NULL, image->signal_actions[number], 8);
    image->resume = resume_context;
    save_self(image);
    uint64_t mask = 0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &mask, 8);
    if (save_context(&image->thread[image->thread_count - 1].context)) {
        image = (struct image *)IMAGE_AT;
        enter_again(image);
        syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, 8);
        munmap(image, sizeof *image);
        munmap((void *)STACKS_AT, SCRATCH_STACKS * STACK_BYTES);
        munmap((void *)STUB_AT, STACK_BYTES);
        return 1;
    }
    long child = syscall(SYS_clone, 0, NULL, NULL, NULL, 0); /* no SIGCHLD, no hooks of the C library */
    failed = child < 0 ? errno : 0;
    if (child == 0)
        write_and_end(image, path, skipped);
    release_others(image);
    munmap(image, sizeof *image);
    found[0] = now_ns() - began;
    found[1] = child;
    return -failed;
}

/* 0: still writing; 1: the image is whole; negative: why there is none. */
long image_written(long child) {
    int status;
    long done = syscall(SYS_wait4, child, &status, WNOHANG | __WALL, NULL);
    if (done < 0)
        return -errno;
    if (done == 0)
        return 0;
    if (!WIFEXITED(status))
        return -EINTR;
    return WEXITSTATUS(status) ? -WEXITSTATUS(status) : 1;
}
