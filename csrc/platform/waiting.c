/* csrc/platform/waiting.c: implements the slots of waiting.h and the watcher thread. */
#include "waiting.h"

#include "compat.h"

#include <stdio.h>
#include <time.h>
#ifdef _WIN32
#include <io.h>
#define write _write
#else
#include <pthread.h>
#include <unistd.h>
#endif

enum { SLOTS = 32, LOOKS = 4, IDLE_LOOKS = 8, MARKED = 1, MOST = 1024 };
enum { RESULT_OF = sizeof("the result of ") - 1 };    /* length of the prefix of results' names */
static const struct timespec pause_ = {0, 250000000}; /* between two checks */

enum { NOBODY, AWAKE, OVER };

static struct {
    uintptr_t names; /* atomic: PyObject *, plus MARKED while the watcher reads it */
    size_t turns;    /* atomic: counts the waits in this slot */
} slots[SLOTS];
static int watcher; /* atomic: whether the watcher runs, or has stopped for good */

/* ---- the message ----------------------------------------------------------------------------- */

/* Appends a str, from character `from` on, as ASCII. */
static void put_name(char *line, size_t *length, PyObject *name, Py_ssize_t from)
{
    const void *data = PyUnicode_DATA(name);
    for (Py_ssize_t i = from; i < PyUnicode_GET_LENGTH(name) && i < MOST / 4; i++) {
        Py_UCS4 one = PyUnicode_READ(PyUnicode_KIND(name), data, i);
        line[(*length)++] = one >= ' ' && one < 127 ? (char)one : '?';
    }
}

/* Appends one of the texts in say(). Together with two names, the texts are shorter than MOST, so
 * nothing is truncated. */
static void put(char *line, size_t *length, const char *text)
{
    *length += (size_t)snprintf(line + *length, MOST - *length, "%s", text);
}

static void say(PyObject *names)
{
    char line[MOST];
    size_t length = 0;
    if (PyTuple_Check(names) && PyTuple_GET_SIZE(names) == 4) {
        names = PyTuple_GET_ITEM(names, 2);
    }
    Py_ssize_t known = PyTuple_Check(names) ? PyTuple_GET_SIZE(names) : 1;
    int is_argument = known == 3;
    int is_told =
        is_argument || (known == 2 && PyUnicode_GET_LENGTH(PyTuple_GET_ITEM(names, 1)) > RESULT_OF);
    put(line, &length, "nativecall: the Python function '");
    put_name(line, &length, known > 1 ? PyTuple_GET_ITEM(names, 0) : names, 0);
    put(line, &length, is_argument ? "', an argument of '" : is_told ? "', " : "'");
    if (is_told) {
        put_name(line, &length, PyTuple_GET_ITEM(names, 1), is_argument ? 0 : RESULT_OF);
        put(line, &length, is_argument ? "'," : ",");
    }
    put(line, &length,
        " was called in another thread and has waited for the GIL for a second; if a C function "
        "waits for its own threads, call it with gil=\"release\"\n");
    (void)!write(2, line, (unsigned)length);
}

/* ---- the watcher ----------------------------------------------------------------------------- */

/* Prints the message for a waiting thread, unless the thread has just left its slot. Returns 1 if
 * the thread was still waiting; the watch is then over. */
static int tell_of(size_t slot, uintptr_t names)
{
    if (!__atomic_compare_exchange_n(&slots[slot].names, &names, names | MARKED, 0,
                                     __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        return 0;
    }
    if (!nc_is_finalizing()) {
        say((PyObject *)names);
    }
    __atomic_store_n(&slots[slot].names, names, __ATOMIC_RELEASE);
    __atomic_store_n(&watcher, OVER, __ATOMIC_SEQ_CST);
    return 1;
}

static int is_any_taken(void)
{
    for (size_t i = 0; i < SLOTS; i++) {
        if (__atomic_load_n(&slots[i].names, __ATOMIC_SEQ_CST) != 0) {
            return 1;
        }
    }
    return 0;
}

/* Returns whether the watcher may end. Called when no thread has waited for a while. The next
 * thread that waits starts a new watcher. */
static int ends(void)
{
    int nobody = NOBODY;
    __atomic_store_n(&watcher, NOBODY, __ATOMIC_SEQ_CST);
    /* Check again: a thread that has taken a slot since the last check may have read AWAKE, and so
     * started no watcher. */
    return !is_any_taken() || !__atomic_compare_exchange_n(&watcher, &nobody, AWAKE, 0,
                                                           __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static void watch(void *Py_UNUSED(nothing))
{
    size_t turns[SLOTS] = {0};
    int looks[SLOTS] = {0};
    int idle = 0;
    while (idle < IDLE_LOOKS || !ends()) {
        (void)nanosleep(&pause_, NULL);
        idle = is_any_taken() ? 0 : idle + 1;
        for (size_t i = 0; i < SLOTS; i++) {
            uintptr_t names = __atomic_load_n(&slots[i].names, __ATOMIC_ACQUIRE);
            size_t turn = __atomic_load_n(&slots[i].turns, __ATOMIC_RELAXED);
            looks[i] = names != 0 && turn == turns[i] ? looks[i] + 1 : 0;
            turns[i] = turn;
            if (looks[i] == LOOKS && tell_of(i, names)) {
                return;
            }
        }
    }
}

#ifndef _WIN32
static void forget_in_child(void)
{
    for (size_t i = 0; i < SLOTS; i++) {
        __atomic_store_n(&slots[i].names, 0, __ATOMIC_RELAXED);
    }
    if (__atomic_load_n(&watcher, __ATOMIC_RELAXED) != OVER) {
        __atomic_store_n(&watcher, NOBODY, __ATOMIC_RELAXED);
    }
}
#endif

static void start_watch(void)
{
    int nobody = NOBODY;
    if (NC_LIKELY(__atomic_load_n(&watcher, __ATOMIC_SEQ_CST) != NOBODY) ||
        !__atomic_compare_exchange_n(&watcher, &nobody, AWAKE, 0, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST)) {
        return;
    }
#ifndef _WIN32
    static int has_hook;
    if (!has_hook) {
        has_hook = pthread_atfork(NULL, NULL, forget_in_child) == 0;
    }
#endif
    if (PyThread_start_new_thread(watch, NULL) == PYTHREAD_INVALID_THREAD_ID) {
        __atomic_store_n(&watcher, OVER, __ATOMIC_SEQ_CST);
    }
}

/* ---- waiting threads ------------------------------------------------------------------------- */

int nc_waiting_begin(PyObject *names)
{
    if (__atomic_load_n(&watcher, __ATOMIC_RELAXED) == OVER) {
        return -1;
    }
    /* Each thread has its own stack, so most threads begin the search at different slots. */
    size_t first = (uintptr_t)&names >> 16;
    for (size_t i = 0; i < SLOTS; i++) {
        size_t slot = (first + i) % SLOTS;
        uintptr_t free_ = 0;
        if (__atomic_compare_exchange_n(&slots[slot].names, &free_, (uintptr_t)names, 0,
                                        __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
            __atomic_store_n(&slots[slot].turns,
                             __atomic_load_n(&slots[slot].turns, __ATOMIC_RELAXED) + 1,
                             __ATOMIC_RELAXED);
            start_watch();
            return (int)slot;
        }
    }
    return -1;
}

void nc_waiting_end(int slot)
{
    if (slot < 0) {
        return;
    }
    uintptr_t names = __atomic_load_n(&slots[slot].names, __ATOMIC_RELAXED) & ~(uintptr_t)MARKED;
    uintptr_t expected = names;
    while (!__atomic_compare_exchange_n(&slots[slot].names, &expected, 0, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
        expected = names; /* the watcher is reading it */
    }
}
