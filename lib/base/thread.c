/* thread.c - the worker pool: see thread.h for the idea and kvtile_ops.h for the calls.
 *
 * One 64-bit ticket says everything about the run: its generation above, the items nobody has claimed yet below. A
 * thread claims an item by taking one off with compare-and-swap, having read the function before: if the swap succeeds,
 * the ticket did not move in between, so the run was unfinished and the function is its own. A thread that was away
 * through several runs therefore either joins the present one or finds nothing left, and nobody waits for it.
 *
 * One that is taken off its processor in the middle of an item does hold up the run. Where that happens twice (another
 * process wants the same processor), the thread takes no items for a while, or until it has found itself running
 * without a gap: fewer threads that run are faster than more that wait for each other. */
#include "base/thread.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "base/fp.h"
#include "base/mem.h"
#include "base/sys.h"

enum {
    THREADS_MAX = 256,
    SPIN_NS = 400000,  /* between two runs of one token there is less, between two requests more */
    LOOK_PAUSES = 64,  /* between looks at the clock */
    YIELD_PAUSES = 2048 /* a neighbour who wants this core gets it after some 50 microseconds */
};

/* A thread that is taken off its processor is away for milliseconds. */
#define STALL_NS 1000000u         /* to wait for others beyond what items take: one of them is stalled */
#define STALL_AGAIN_NS 100000000u /* two stalls within this time are no accident */
#define TRIAL_NS 10000000u        /* to run without a gap ... */
#define GAP_NS 500000u            /* ... of this size, before taking items again */
#define AWAY_LEAST_NS 50000000u   /* to sleep if that fails, twice as long each time it fails again */
#define AWAY_MOST_NS 800000000u

typedef struct seat {
    _Alignas(64) kvt_workers *team;
    int worker;
    pthread_t thread;
    _Atomic bool working;   /* has items, or is looking for some */
    _Atomic bool suspended; /* takes none: set by the caller, cleared by the thread itself */
    /* The caller's: the thread's processor time, what it was when it was last looked at, when it last held up a run. */
    clockid_t clock;
    uint64_t time_seen, stalled_at;
} seat;

struct kvt_workers {
    /* Written by the caller once per run, and by each claim. */
    _Alignas(64) _Atomic uint64_t ticket; /* generation << 32 | items not claimed */
    _Atomic(kvt_work_fn) fn;
    _Atomic(void *) ctx;
    _Atomic int n_items;
    /* Written once per thread and run. */
    _Alignas(64) _Atomic int n_unfinished;
    /* Sleep and end. */
    _Alignas(64) _Atomic int n_parked;
    _Atomic bool closing;
    unsigned n_calls; /* to wake up; under the lock */
    pthread_mutex_t lock;
    pthread_cond_t call, close;
    int n_threads, n_started;
    size_t bytes;
    seat seats[]; /* [n_threads - 1], worker i + 1 in seat i */
};

static void pause_once(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* One turn of a waiting loop. */
static void wait_turn(unsigned turn) {
    pause_once();
    if (turn % YIELD_PAUSES == 0) sched_yield();
}

/* Claim items and run them until none is left, or the thread is to take none. own: its seat; NULL: the caller. */
static void take_items(kvt_workers *team, const seat *own, int worker) {
    int n_done = 0;
    uint64_t ticket = atomic_load(&team->ticket);
    while ((uint32_t)ticket && !(own && atomic_load_explicit(&own->suspended, memory_order_relaxed))) {
        kvt_work_fn fn = atomic_load_explicit(&team->fn, memory_order_acquire);
        void *ctx = atomic_load_explicit(&team->ctx, memory_order_acquire);
        int n_items = atomic_load_explicit(&team->n_items, memory_order_acquire);
        if (!atomic_compare_exchange_weak(&team->ticket, &ticket, ticket - 1)) continue;
        fn(ctx, n_items - (int)(uint32_t)ticket, worker);
        n_done++;
        ticket = atomic_load(&team->ticket);
    }
    /* The run cannot end before this, so every item above was of one run. */
    if (n_done) atomic_fetch_sub_explicit(&team->n_unfinished, n_done, memory_order_release);
}

static bool idle(kvt_workers *team) {
    return (uint32_t)atomic_load(&team->ticket) == 0 && !atomic_load(&team->closing);
}

/* Watch the ticket for a while. false: the while is over and nothing came. */
static bool spin(kvt_workers *team) {
    uint64_t since = 0, seen = 0;
    for (unsigned turn = 1; idle(team); turn++) {
        wait_turn(turn);
        if (turn % LOOK_PAUSES) continue;
        uint64_t now = sys_now_ns(), ticket = atomic_load(&team->ticket);
        if (since == 0 || ticket != seen) since = now; /* others may be faster, but there is work about */
        seen = ticket;
        if (now - since > SPIN_NS) return false;
    }
    return true;
}

/* Sleep until called. The caller publishes, then looks for sleepers; a sleeper counts itself, then looks for work. */
static void park(kvt_workers *team) {
    pthread_mutex_lock(&team->lock);
    atomic_fetch_add(&team->n_parked, 1);
    unsigned n_calls = team->n_calls;
    while (n_calls == team->n_calls && idle(team)) pthread_cond_wait(&team->call, &team->lock);
    if (n_calls == team->n_calls) atomic_fetch_sub(&team->n_parked, 1); /* a call counts everybody out itself */
    pthread_mutex_unlock(&team->lock);
}

static void call_parked(kvt_workers *team) {
    if (atomic_load(&team->n_parked) == 0) return;
    pthread_mutex_lock(&team->lock);
    atomic_store(&team->n_parked, 0);
    team->n_calls++;
    pthread_cond_broadcast(&team->call);
    pthread_mutex_unlock(&team->lock);
}

/* Sleep until `until`, or the end. */
static void stay_away(kvt_workers *team, uint64_t until) {
    struct timespec t = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
    pthread_mutex_lock(&team->lock);
    while (!atomic_load(&team->closing) && sys_now_ns() < until) pthread_cond_timedwait(&team->close, &team->lock, &t);
    pthread_mutex_unlock(&team->lock);
}

/* Does nobody else want this processor? */
static bool runs_smoothly(kvt_workers *team) {
    uint64_t start = sys_now_ns(), last = start;
    for (unsigned turn = 1; last - start < TRIAL_NS && !atomic_load(&team->closing); turn++) {
        pause_once();
        if (turn % LOOK_PAUSES) continue;
        uint64_t now = sys_now_ns();
        if (now - last > GAP_NS) return false;
        last = now;
    }
    return true;
}

/* Until it does, but no longer than some 1.6 s: then it is taken back untested. */
static void sit_out(seat *s) {
    for (uint64_t away = AWAY_LEAST_NS; away <= AWAY_MOST_NS && !runs_smoothly(s->team); away *= 2)
        stay_away(s->team, sys_now_ns() + away);
    atomic_store_explicit(&s->suspended, false, memory_order_relaxed);
}

static void *work(void *arg) {
    seat *s = arg;
    fp_enter();
    while (!atomic_load(&s->team->closing)) {
        atomic_store_explicit(&s->working, true, memory_order_relaxed);
        take_items(s->team, s, s->worker);
        atomic_store_explicit(&s->working, false, memory_order_relaxed);
        if (atomic_load_explicit(&s->suspended, memory_order_relaxed)) sit_out(s);
        else if (!spin(s->team)) park(s->team);
    }
    return NULL;
}

/* Signals are the business of the program's own threads. */
static bool start(kvt_workers *team) {
    sigset_t all, callers;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &callers);
    bool ok = true;
    for (int i = 0; i < team->n_threads - 1 && ok; i++) {
        seat *s = &team->seats[i];
        *s = (seat){.team = team, .worker = i + 1};
        ok = pthread_create(&s->thread, NULL, work, s) == 0;
        if (ok) pthread_getcpuclockid(s->thread, &s->clock);
        if (ok) team->n_started++;
    }
    pthread_sigmask(SIG_SETMASK, &callers, NULL);
    return ok;
}

kvt_status kvt_workers_open(kvt_workers **out, int n_threads) {
    if (!out) return KVT_E_ARGUMENT;
    *out = NULL;
    if (n_threads < 0 || n_threads > THREADS_MAX) return KVT_E_ARGUMENT;
    if (n_threads == 0) n_threads = sys_processors() < THREADS_MAX ? sys_processors() : THREADS_MAX;
    size_t bytes = sizeof(kvt_workers) + (size_t)(n_threads - 1) * sizeof(seat);
    kvt_workers *team = mem_take(NULL, bytes);
    if (!team) return KVT_E_MEMORY;
    team->n_threads = n_threads;
    team->bytes = bytes;
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->call, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&team->close, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (!start(team)) {
        kvt_workers_close(team);
        return KVT_E_MEMORY;
    }
    *out = team;
    return KVT_OK;
}

void kvt_workers_close(kvt_workers *team) {
    if (!team) return;
    atomic_store(&team->closing, true);
    call_parked(team);
    pthread_mutex_lock(&team->lock);
    pthread_cond_broadcast(&team->close);
    pthread_mutex_unlock(&team->lock);
    for (int i = 0; i < team->n_started; i++) pthread_join(team->seats[i].thread, NULL);
    pthread_cond_destroy(&team->call);
    pthread_cond_destroy(&team->close);
    pthread_mutex_destroy(&team->lock);
    mem_give(NULL, team, team->bytes);
}

int kvt_workers_count(const kvt_workers *team) {
    return team->n_threads;
}

static void publish(kvt_workers *team, int n_items, kvt_work_fn fn, void *ctx) {
    assert(atomic_load(&team->n_unfinished) == 0); /* one caller at a time, none from inside a run */
    atomic_store_explicit(&team->n_unfinished, n_items, memory_order_relaxed);
    atomic_store_explicit(&team->fn, fn, memory_order_release);
    atomic_store_explicit(&team->ctx, ctx, memory_order_release);
    atomic_store_explicit(&team->n_items, n_items, memory_order_release);
    uint64_t generation = (atomic_load(&team->ticket) >> 32) + 1;
    atomic_store(&team->ticket, generation << 32 | (uint32_t)n_items);
}

static uint64_t time_of(const seat *s) {
    struct timespec t = {0};
    clock_gettime(s->clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void look_at_clocks(kvt_workers *team) {
    for (int i = 0; i < team->n_started; i++) team->seats[i].time_seen = time_of(&team->seats[i]);
}

/* Those who hold items and have hardly run in the last `elapsed` ns hold up the run. */
static void suspend_stalled(kvt_workers *team, uint64_t now, uint64_t elapsed) {
    for (int i = 0; i < team->n_started; i++) {
        seat *s = &team->seats[i];
        if (!atomic_load_explicit(&s->working, memory_order_relaxed)) continue;
        if (time_of(s) - s->time_seen > elapsed / 2) continue;
        bool again = s->stalled_at > 0 && now - s->stalled_at < STALL_AGAIN_NS;
        s->stalled_at = now;
        if (again) atomic_store_explicit(&s->suspended, true, memory_order_relaxed);
    }
}

/* Until every item is done. Others may have begun one when the caller, since `start`, had done its last: four times as
 * long as the caller took for all of its own should do. Beyond that, whoever has not run since is looked for, once. */
static void wait_for_others(kvt_workers *team, uint64_t start) {
    uint64_t since = 0, last = 0, looked = 0, patience = 0;
    for (unsigned turn = 1; atomic_load_explicit(&team->n_unfinished, memory_order_acquire); turn++) {
        wait_turn(turn);
        if (turn % LOOK_PAUSES) continue;
        uint64_t now = sys_now_ns();
        if (since == 0) {
            since = last = now;
            patience = 4 * (now - start);
        }
        if (now - last > GAP_NS) since += now - last; /* it was the caller itself who was away */
        last = now;
        if (looked == 0 && now - since > patience) {
            look_at_clocks(team);
            looked = since = now;
            patience = STALL_NS;
        } else if (looked > 0 && now - since > patience) {
            suspend_stalled(team, now, now - looked);
            patience = UINT64_MAX;
        }
    }
}

void thread_run(kvt_workers *team, int n_items, kvt_work_fn fn, void *ctx) {
    uint64_t fp = fp_enter();
    if (!team || team->n_threads == 1 || n_items <= 1) {
        for (int i = 0; i < n_items; i++) fn(ctx, i, 0);
    } else {
        uint64_t start = sys_now_ns();
        publish(team, n_items, fn, ctx);
        call_parked(team);
        take_items(team, NULL, 0);
        wait_for_others(team, start);
    }
    fp_leave(fp);
}

uint32_t thread_runs(const kvt_workers *team) {
    return (uint32_t)(atomic_load(&team->ticket) >> 32); /* each run has a generation of its own */
}

void kvt_workers_run(kvt_workers *team, int n_items, kvt_work_fn fn, void *ctx) {
    thread_run(team, n_items, fn, ctx);
}
