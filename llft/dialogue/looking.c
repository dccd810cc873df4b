/* Looking before one sleeps pays only where what is waited for comes soon, and sooner than to one that sleeps. The
 * twin of `runtime.spinning`, which says when that is. */

#include "dialogue.h"

enum { TRIES = 8, PAYS_NS = 40000, SLEEPS_AT_LEAST = 64, SLEEPS_AT_MOST = 4096, WEIGHT = 8, LONG_NS = 3 * PAYS_NS, IN_VAIN_NS = 60000 };

static void weigh(int64_t *mean_ns, int64_t took_ns) { *mean_ns += (took_ns - *mean_ns) / WEIGHT; }

bool is_promising(looks_t *looks) {
    if (looks->pays)
        return true;
    if (++looks->sleeps < (looks->between ? looks->between : SLEEPS_AT_LEAST))
        return false;
    looks->sleeps = 0;
    return true;
}

static void sleep_longer(looks_t *looks) {
    int between = looks->between ? 2 * looks->between : 2 * SLEEPS_AT_LEAST; /* 0: it never was */
    looks->between = between > SLEEPS_AT_MOST ? SLEEPS_AT_MOST : between;
    looks->sleeps = 0;
    looks->pays = false;
}

int has_looked(looks_t *looks, int found, int64_t took_ns) {
    if (!looks->pays && !found) {
        sleep_longer(looks);
        return found;
    }
    if (!looks->pays) {
        looks->pays = true;
        looks->tried = 0;
        looks->found_ns = took_ns;
    }
    weigh(&looks->found_ns, found ? took_ns : IN_VAIN_NS);
    looks->tried += looks->tried < TRIES;
    if (looks->tried < TRIES)
        return found;
    if (looks->found_ns <= PAYS_NS && looks->found_ns <= looks->slept_ns)
        looks->between = SLEEPS_AT_LEAST / 2;
    else
        sleep_longer(looks);
    return found;
}

void has_slept(looks_t *looks, int64_t took_ns) { weigh(&looks->slept_ns, took_ns < LONG_NS ? took_ns : LONG_NS); }
