/* The mappings of this process, without the C library's allocator: one after the other, from a text that the
 * kernel wrote. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "image.h"

#define TEXT_BYTES (1 << 20)

static char text[TEXT_BYTES];
static char *position;

long read_maps(void) {
    int fd = (int)syscall(SYS_open, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    long length = 0, got;
    while ((got = syscall(SYS_read, fd, text + length, TEXT_BYTES - 1 - length)) > 0)
        length += got;
    long failed = got < 0 ? -errno : length == TEXT_BYTES - 1 ? -E2BIG : 0;
    syscall(SYS_close, fd);
    text[length] = 0;
    position = text;
    return failed;
}

static uint64_t number(char **at, int base) {
    uint64_t found = 0;
    for (;; (*at)++) {
        int digit = **at >= '0' && **at <= '9' ? **at - '0' : **at >= 'a' && **at <= 'f' ? **at - 'a' + 10 : 99;
        if (digit >= base)
            return found;
        found = found * (unsigned)base + (unsigned)digit;
    }
}

static void skip_word(char **at) {
    while (**at && **at != ' ' && **at != '\n')
        (*at)++;
    while (**at == ' ')
        (*at)++;
}

/* 0: there is no other one. A line is: start-end rwxp offset device inode path */
int next_mapping(struct mapping *found) {
    if (!position || !*position)
        return 0;
    char *at = position;
    found->start = number(&at, 16);
    at++;
    found->end = number(&at, 16);
    at++;
    found->protection =
        (at[0] == 'r' ? PROT_READ : 0) | (at[1] == 'w' ? PROT_WRITE : 0) | (at[2] == 'x' ? PROT_EXEC : 0);
    found->is_shared = at[3] == 's';
    skip_word(&at);
    found->file_offset = number(&at, 16);
    skip_word(&at);
    skip_word(&at); /* the device */
    found->inode = number(&at, 10);
    while (*at == ' ')
        at++;
    char *end = strchr(at, '\n');
    size_t length = (size_t)(end - at);
    if (length >= PATH_BYTES)
        length = PATH_BYTES - 1; /* it cannot be opened under this name, which is found out */
    memcpy(found->path, at, length);
    found->path[length] = 0;
    position = end + 1;
    return 1;
}
