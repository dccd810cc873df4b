/* To what a dialogue listens.
 *
 * The driver's epoll set has all descriptors. For each datagram the kernel tells every set that has its socket, and
 * that is done by whoever sends: a group's messages are said to each of its members. So while threads wait in a
 * dialogue the socket that hears the group is *apart*: it is in no set, and is asked for beside the set, by those
 * that wait for both.
 *
 * Laws:
 *
 * 1. A dialogue that is over leaves the set as it was lent.
 * 2. Whoever waits for all descriptors waits for the socket that is apart as well; so while the pacemaker sleeps in
 *    the set, which knows nothing of that, it is not apart.
 */

#include "dialogue.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <time.h>

enum { MS_IN_S = 1000, NS_IN_MS = 1000000, SET = 0, APART = 1 };

static bool is_apart;
static int set_fd, apart_fd;

void listen_apart(void) {
    if (is_apart || dialogue.is_watched)
        return;
    set_fd = dialogue.epoll_fd;
    apart_fd = dialogue.hearing_fd;
    is_apart = epoll_ctl(set_fd, EPOLL_CTL_DEL, apart_fd, NULL) == 0;
}

void listen_together(void) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = apart_fd};
    if (is_apart && epoll_ctl(set_fd, EPOLL_CTL_ADD, apart_fd, &event) < 0 && errno != EBADF)
        Py_FatalError("the socket that hears the group is lost to its epoll set");
    is_apart = false;
}

/* Descriptors that have something; -1 with errno. */
int look_at_descriptors(struct epoll_event *events, int most, int timeout_ms) {
    if (!is_apart)
        return epoll_wait(dialogue.epoll_fd, events, most, timeout_ms);
    struct pollfd both[] = {[SET] = {.fd = set_fd, .events = POLLIN}, [APART] = {.fd = apart_fd, .events = POLLIN}};
    struct timespec left = {timeout_ms / MS_IN_S, (long)(timeout_ms % MS_IN_S) * NS_IN_MS};
    int found = ppoll(both, 2, &left, NULL);
    if (found <= 0)
        return found;
    int count = both[SET].revents ? epoll_wait(set_fd, events, most - 1, 0) : 0;
    if (count >= 0 && both[APART].revents)
        events[count++] = (struct epoll_event){.events = EPOLLIN, .data.fd = apart_fd};
    return count;
}
