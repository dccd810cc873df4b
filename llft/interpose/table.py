"""Every function of the C modules that touch the world, classified (D-17).

    ordered    the primary's result is everybody's
    virtual    answered inside the program, alike at all replicas
    passed     the genuine function: deterministic, or the replica's own business; the reason says which
    refused    cannot be replicated; the reason is the remedy

Constants, exceptions and whatever cannot be called are passed. A function that nobody classified is
refused, with an error that names it. Python code above these modules follows by itself.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

Treatment = Literal["ordered", "virtual", "passed", "refused"]
UNCLASSIFIED = "nobody has classified it: ask for it, or do without"


class Class(NamedTuple):
    treatment: Treatment
    reason: str


_Rows = tuple[tuple[Treatment, str, str], ...]
"""(treatment, reason, names)."""

_FILES = "the replica's own files"
_PURE = "computes only"
_NO_PROCESSES = "start one replicated program only; run others beside it and talk to them by TCP"
_NO_SIGNALS = "use signal handlers, threads or asyncio"

ROWS: dict[str, _Rows] = {
    "_thread": (
        (
            "virtual",
            "threads are numbered, one runs at a time",
            "start_new_thread start_new _count _set_sentinel",
        ),
        ("virtual", "state in Python, handed on in order", "allocate_lock allocate LockType RLock"),
        ("virtual", "a thread's number", "get_ident get_native_id"),
        ("virtual", "a signal to oneself", "interrupt_main"),
        ("passed", "per thread by its nature", "_local"),
        ("passed", _PURE, "exit exit_thread stack_size _excepthook _ExceptHookArgs"),
        ("refused", "use threading.Thread", "start_joinable_thread _make_thread_handle _ThreadHandle"),
        ("passed", _PURE, "daemon_threads_allowed _is_main_interpreter _get_main_thread_ident lock set_name"),
    ),
    "time": (
        (
            "ordered",
            "the group's clock (D-18)",
            "time time_ns monotonic monotonic_ns perf_counter perf_counter_ns",
        ),
        ("ordered", "the group's clock (D-18)", "process_time process_time_ns thread_time thread_time_ns"),
        ("ordered", "the group's clock (D-18)", "clock_gettime clock_gettime_ns"),
        ("ordered", "of now, if no time is given", "localtime gmtime ctime asctime strftime"),
        ("ordered", "waits on real time; its end is ordered", "sleep"),
        ("passed", _PURE, "mktime strptime struct_time get_clock_info clock_getres tzset"),
        ("refused", "set the host's clock from outside", "clock_settime clock_settime_ns"),
        ("refused", "use time.thread_time", "pthread_getcpuclockid"),
    ),
    "_socket": (
        ("ordered", "the core's connections", "socket SocketType"),
        ("virtual", "buffers inside the program", "socketpair"),
        ("virtual", "numbers are alike", "dup close"),
        ("virtual", "a variable", "getdefaulttimeout setdefaulttimeout"),
        (
            "ordered",
            "the primary looks it up",
            "getaddrinfo gethostbyname gethostbyname_ex gethostbyaddr getnameinfo",
        ),
        ("ordered", "the primary looks it up", "getservbyname getservbyport getprotobyname"),
        ("ordered", "the primary's interfaces", "if_nameindex if_nametoindex if_indextoname"),
        ("ordered", "the primary's at birth", "gethostname"),
        (
            "passed",
            _PURE,
            "htonl htons ntohl ntohs inet_aton inet_ntoa inet_pton inet_ntop CMSG_LEN CMSG_SPACE",
        ),
        ("refused", "name the host from outside", "sethostname"),
    ),
    "select": (("ordered", "readiness is the core's", "select poll epoll"),),
    "posix": (
        ("virtual", "buffers inside the program", "pipe pipe2"),
        ("virtual", "ours for virtual descriptors", "read write readv writev close closerange dup dup2"),
        ("virtual", "ours for virtual descriptors", "set_blocking get_blocking sendfile"),
        ("ordered", "bytes alike everywhere", "urandom getrandom"),
        ("ordered", "the primary's at birth", "getpid getppid uname cpu_count sched_getaffinity"),
        ("ordered", "the primary's", "times getloadavg get_terminal_size getlogin"),
        ("virtual", "in the order of names", "listdir scandir"),
        ("virtual", "a signal to oneself", "kill"),
        (
            "passed",
            _PURE,
            "WCOREDUMP WEXITSTATUS WIFCONTINUED WIFEXITED WIFSIGNALED WIFSTOPPED WSTOPSIG WTERMSIG",
        ),
        (
            "passed",
            _PURE,
            "fspath strerror major minor makedev waitstatus_to_exitcode _path_normpath device_encoding",
        ),
        (
            "passed",
            _PURE,
            "DirEntry stat_result statvfs_result terminal_size times_result uname_result waitid_result",
        ),
        ("passed", _PURE, "sched_param register_at_fork putenv unsetenv umask confstr sysconf ctermid"),
        (
            "passed",
            _PURE,
            "_path_splitroot _path_splitroot_ex _path_isdir _path_isfile _path_islink _path_exists",
        ),
        ("passed", _PURE, "_path_lexists _inputhook _is_inputhook_installed _path_isdevdrive"),
        ("virtual", "its connections are closed, and what it said last is delivered", "_exit"),
        ("passed", "all replicas end alike", "abort"),
        (
            "passed",
            _FILES,
            "access chdir chmod chown chroot copy_file_range fchdir fchmod fchown fdatasync fpathconf",
        ),
        (
            "passed",
            _FILES,
            "fstat fstatvfs fsync ftruncate getcwd getcwdb getxattr isatty lchown link listxattr lockf",
        ),
        (
            "passed",
            _FILES,
            "lseek lstat memfd_create mkdir open pathconf posix_fadvise posix_fallocate pread preadv",
        ),
        (
            "passed",
            _FILES,
            "pwrite pwritev readlink remove removexattr rename replace rmdir setxattr stat statvfs",
        ),
        ("passed", _FILES, "symlink sync truncate ttyname unlink utime get_inheritable set_inheritable"),
        (
            "passed",
            "the supervisor starts all replicas alike",
            "getegid geteuid getgid getgrouplist getgroups getuid",
        ),
        ("passed", "the supervisor starts all replicas alike", "getpriority getresgid getresuid"),
        (
            "passed",
            "the replica's own rights",
            "initgroups setegid seteuid setgid setgroups setregid setresgid",
        ),
        ("passed", "the replica's own rights", "setresuid setreuid setuid nice setpriority"),
        (
            "passed",
            "the replica's own priority",
            "sched_get_priority_max sched_get_priority_min sched_setaffinity",
        ),
        ("passed", "the replica's own priority", "sched_getparam sched_getscheduler sched_rr_get_interval"),
        ("passed", "the replica's own priority", "sched_setparam sched_setscheduler sched_yield"),
        (
            "refused",
            _NO_PROCESSES,
            "fork forkpty posix_spawn posix_spawnp system execv execve wait wait3 wait4",
        ),
        (
            "refused",
            _NO_PROCESSES,
            "waitid waitpid killpg pidfd_open getpgid getpgrp getsid setpgid setpgrp setsid",
        ),
        ("refused", _NO_PROCESSES, "unshare setns posix_openpt grantpt unlockpt ptsname"),
        ("refused", "use os.pipe", "mkfifo mknod splice eventfd eventfd_read eventfd_write"),
        (
            "refused",
            "use threading.Timer",
            "timerfd_create timerfd_gettime timerfd_gettime_ns timerfd_settime",
        ),
        ("refused", "use threading.Timer", "timerfd_settime_ns"),
        ("refused", "a replica has no terminal", "openpty login_tty tcgetpgrp tcsetpgrp"),
    ),
    "_datetime": (
        ("ordered", "now and utcnow, inside the type", "datetime"),
        ("passed", "today() asks time.time", "date"),
        ("passed", _PURE, "time timedelta timezone tzinfo"),
    ),
    "_signal": (
        ("virtual", "handlers for the program's own signals", "signal getsignal set_wakeup_fd raise_signal"),
        ("virtual", "a thread that sleeps", "alarm setitimer getitimer"),
        ("virtual", "a signal to oneself", "pthread_kill"),
        ("virtual", "none comes from outside", "pthread_sigmask sigpending siginterrupt"),
        ("passed", _PURE, "default_int_handler strsignal valid_signals struct_siginfo"),
        ("refused", _NO_SIGNALS, "pause sigwait sigwaitinfo sigtimedwait pidfd_send_signal"),
    ),
    "_random": (("ordered", "seeds itself with ordered bytes", "Random"),),
    "_uuid": (("virtual", "uuid1 is made of ordered time and a random node", "generate_time_safe"),),
    "_queue": (("virtual", "the one in pure Python, on interposed locks", "SimpleQueue"),),
    "gc": (
        ("virtual", "collections at counted points", "enable disable isenabled collect"),
        (
            "virtual",
            "what depends on the runtime is not shown",
            "get_count get_stats get_threshold set_threshold",
        ),
        (
            "passed",
            "for people who look inside",
            "get_objects get_referents get_referrers is_finalized is_tracked",
        ),
        ("passed", "for people who look inside", "get_debug set_debug freeze unfreeze get_freeze_count"),
    ),
    "fcntl": (
        ("virtual", "ours for virtual descriptors", "fcntl ioctl"),
        ("passed", _FILES, "flock lockf"),
    ),
    "resource": (
        ("ordered", "the primary's", "getrusage"),
        (
            "passed",
            "the supervisor starts all replicas alike",
            "getrlimit setrlimit prlimit getpagesize struct_rusage",
        ),
    ),
    "_posixsubprocess": (("refused", _NO_PROCESSES, "fork_exec"),),
    "_multiprocessing": (("refused", "use threads; they are replicated", "SemLock sem_unlink"),),
    "_posixshmem": (("refused", _NO_PROCESSES, "shm_open shm_unlink"),),
}


def classes(module: str) -> dict[str, Class]:
    """What is said of a module's names."""
    return {
        name: Class(treatment, reason) for treatment, reason, names in ROWS[module] for name in names.split()
    }


def needs_class(value: Any) -> bool:
    """Functions and types; not constants, and not exceptions."""
    return callable(value) and not (isinstance(value, type) and issubclass(value, BaseException))


def unclassified(module: str, contents: dict[str, Any]) -> list[str]:
    known = classes(module)
    return [
        name
        for name, value in contents.items()
        if not (name.startswith("__") and name.endswith("__")) and needs_class(value) and name not in known
    ]
