/* move.c - owns the movers: their threads, the jobs from move_add until the last result is taken, and how long gets are
 * known to take. Leaves to the owner of the cache which block moves when, and what a failure means; what a record looks
 * like to the tier room.
 *
 * A slot is in one list at a time: unused, the queue of a tier, the results; or in none while its job runs. Whoever
 * moves it there may use it: the lists hand it, and the bytes of its block, from one thread to the other. */
#include "move.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/sys.h"
#include "cache.h"

/* ------------------------------------------------------------------------------------------------ lists */

static void list_add(mover *m, move_list *list, int slot) {
    m->slot[slot].older = list->last;
    m->slot[slot].newer = MOVE_NONE;
    *(list->last == MOVE_NONE ? &list->first : &m->slot[list->last].newer) = slot;
    list->last = slot;
}

static void list_remove(mover *m, move_list *list, int slot) {
    int older = m->slot[slot].older, newer = m->slot[slot].newer;
    *(older == MOVE_NONE ? &list->first : &m->slot[older].newer) = newer;
    *(newer == MOVE_NONE ? &list->last : &m->slot[newer].older) = older;
}

/* ------------------------------------------------------------------------------------- blocks and bytes */

void move_pieces(const kvt_cache *c, int block, bool hot, kvt_piece *out) {
    for (int i = 0; i < c->n_layers; i++) {
        const layer_shape *l = &c->layers[i];
        if (hot) out[i] = (kvt_piece){hot_keys(c, l, block, 0), l->hot.bytes};
        else out[i] = (kvt_piece){store_block(c, l, block), l->kept.bytes};
    }
}

static size_t payload_bytes(const layout *l, bool hot) {
    return hot && l->sealing ? l->hot_block_bytes : l->bytes_per_block;
}

void move_carve(mover *m, carve *a, const kvt_options *opt, const layout *l) {
    m->n_tiers = opt->n_tiers;
    m->n_moves = opt->n_tiers > 0 ? opt->moves_max : 0;
    m->n_slots = 2 * m->n_moves; /* what was truncated is dropped, however many others are on their way */
    m->clock = opt->clock;
    m->clock_ctx = opt->clock_ctx;
    m->slot = carve_take(a, (size_t)m->n_slots, sizeof *m->slot);
    size_t kept = payload_bytes(l, false), hot = payload_bytes(l, true);
    for (int i = 0; i < m->n_tiers; i++) {
        m->lane[i].tier = opt->tiers[i];
        m->lane[i].pieces = carve_take(a, (size_t)opt->n_layers + 1, sizeof *m->lane[i].pieces);
        m->lane[i].buffer = carve_take(a, RECORD_HEADER + (kept > hot ? kept : hot), 1);
    }
}

/* ------------------------------------------------------------------------------------- results of a job */

static void tell_copied(mover *m, int slot) {
    pthread_mutex_lock(&m->lock);
    m->lane[m->slot[slot].job.tier].copying = false;
    m->slot[slot].copied = true;
    list_add(m, &m->results, slot);
    pthread_cond_signal(&m->result);
    pthread_mutex_unlock(&m->lock);
}

/* Under the lock. It may still be there to tell that its block is copied. */
static void tell_done(mover *m, int slot) {
    move_slot *s = &m->slot[slot];
    s->done = true;
    if (!s->copied) list_add(m, &m->results, slot);
    if (s->job.kind == MOVE_GET) m->n_results_get++;
    pthread_cond_signal(&m->result);
}

static move_list *queue_of(mover *m, const move_job *job) {
    move_lane *lane = &m->lane[job->tier];
    return job->kind == MOVE_GET ? &lane->gets : &lane->queue;
}

/* The next slot to run; MOVE_NONE: there is none. */
static int first_of(const move_lane *lane) {
    return lane->gets.first != MOVE_NONE ? lane->gets.first : lane->queue.first;
}

/* Under the lock. */
static void queue_add(mover *m, int slot) {
    const move_job *job = &m->slot[slot].job;
    list_add(m, queue_of(m, job), slot);
    m->lane[job->tier].n_queued += job->kind != MOVE_GET;
}

static void queue_remove(mover *m, int slot) {
    const move_job *job = &m->slot[slot].job;
    list_remove(m, queue_of(m, job), slot);
    m->lane[job->tier].n_queued -= job->kind != MOVE_GET;
}

/* Under the lock: out of its queue. */
static void cancel(mover *m, int slot) {
    queue_remove(m, slot);
    m->slot[slot].cancelled = true;
    tell_done(m, slot);
}

/* -------------------------------------------------------------------------------------------- a job runs */

static kvt_status put(move_lane *lane, int slot) {
    kvt_cache *c = lane->cache;
    const move_job *job = &c->mover.slot[slot].job;
    char *payload = lane->buffer + RECORD_HEADER, *end = payload;
    move_pieces(c, job->block, job->hot, lane->pieces);
    for (int i = 0; i < c->n_layers; i++) {
        memcpy(end, lane->pieces[i].at, lane->pieces[i].n);
        end += lane->pieces[i].n;
    }
    tell_copied(&c->mover, slot);
    uint64_t hash = record_hash(&(kvt_piece){payload, (size_t)(end - payload)}, 1);
    record_write(&job->what, hash, (uint8_t *)lane->buffer);
    kvt_piece whole = {lane->buffer, (size_t)(end - lane->buffer)};
    return lane->tier->ops.put(lane->tier->ctx, &job->key, &whole, 1);
}

static uint64_t now(const mover *m) {
    return m->inline_ && m->clock ? m->clock(m->clock_ctx) : sys_now_ns();
}

/* A quarter of the way from what was known to what was just seen. */
static void learn(move_lane *lane, uint64_t ns) {
    uint64_t known = atomic_load_explicit(&lane->get_ns, memory_order_relaxed);
    uint64_t next = known == 0 ? ns : known - known / 4 + ns / 4;
    atomic_store_explicit(&lane->get_ns, next > 0 ? next : 1, memory_order_relaxed);
}

/* What fails takes its time too, as a disk that is going does. */
static kvt_status get(move_lane *lane, int slot) {
    kvt_cache *c = lane->cache;
    const move_job *job = &c->mover.slot[slot].job;
    uint64_t start = now(&c->mover);
    lane->pieces[0] = (kvt_piece){lane->buffer, RECORD_HEADER};
    move_pieces(c, job->block, job->hot, lane->pieces + 1);
    kvt_status status = lane->tier->ops.get(lane->tier->ctx, &job->key, lane->pieces, c->n_layers + 1);
    if (status == KVT_OK) status = record_check(lane->pieces, c->n_layers + 1, &job->what);
    if (job->counts_time && status != KVT_MISS) learn(lane, now(&c->mover) - start);
    return status;
}

static kvt_status drop(move_lane *lane, int slot) {
    lane->tier->ops.drop(lane->tier->ctx, &lane->cache->mover.slot[slot].job.key);
    return KVT_OK;
}

/* Under the lock, which is let go of while the job runs. False: there is none. */
static bool run_oldest(move_lane *lane) {
    static kvt_status (*const run[])(move_lane *, int) = {[MOVE_PUT] = put, [MOVE_GET] = get, [MOVE_DROP] = drop};
    mover *m = &lane->cache->mover;
    int slot = first_of(lane);
    if (slot == MOVE_NONE) return false;
    queue_remove(m, slot);
    lane->copying = m->slot[slot].job.kind == MOVE_PUT;
    pthread_mutex_unlock(&m->lock);
    kvt_status status = run[m->slot[slot].job.kind](lane, slot);
    pthread_mutex_lock(&m->lock);
    m->slot[slot].job.status = status;
    tell_done(m, slot);
    return true;
}

static struct timespec time_of(uint64_t ns) {
    return (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}

/* Under the lock. A queue that is half full is behind what is computed, and is caught up with. */
static bool may_rest(const move_lane *lane) {
    const mover *m = &lane->cache->mover;
    return !m->closing && !m->hurry && lane->gets.first == MOVE_NONE && 2 * lane->n_queued < m->n_moves;
}

/* Under the lock, behind a put that began at `start`. */
static void rest(move_lane *lane, uint64_t start) {
    enum { TIMES = 30, MOST_NS = 200000000 };
    uint64_t now_ns = sys_now_ns(), spent = TIMES * (now_ns - start);
    struct timespec until = time_of(now_ns + (spent < MOST_NS ? spent : MOST_NS));
    while (may_rest(lane))
        if (pthread_cond_timedwait(&lane->work, &lane->cache->mover.lock, &until) == ETIMEDOUT) return;
}

/* Under the lock, which is let go of while a job runs and while there is none. */
static void work_once(move_lane *lane) {
    mover *m = &lane->cache->mover;
    int slot = first_of(lane);
    bool is_put = slot != MOVE_NONE && m->slot[slot].job.kind == MOVE_PUT;
    uint64_t start = sys_now_ns();
    if (!run_oldest(lane)) pthread_cond_wait(&lane->work, &m->lock);
    else if (is_put) rest(lane, start);
}

static void *work(void *arg) {
    move_lane *lane = arg;
    mover *m = &lane->cache->mover;
    sys_thread_background();
    pthread_mutex_lock(&m->lock);
    while (first_of(lane) != MOVE_NONE || !m->closing) work_once(lane);
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* ------------------------------------------------------------------------------------------ open and close */

static void lists_open(kvt_cache *c) {
    mover *m = &c->mover;
    m->unused = m->results = (move_list){MOVE_NONE, MOVE_NONE};
    for (int i = 0; i < m->n_slots; i++) list_add(m, &m->unused, i);
    pthread_mutex_init(&m->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&m->result, &monotonic);
    for (int i = 0; i < m->n_tiers; i++) {
        m->lane[i].cache = c;
        m->lane[i].queue = m->lane[i].gets = (move_list){MOVE_NONE, MOVE_NONE};
        pthread_cond_init(&m->lane[i].work, &monotonic);
    }
    pthread_condattr_destroy(&monotonic);
    m->is_open = true;
}

/* Signals are the business of the program's own threads. */
static bool threads_start(mover *m) {
    sigset_t all, callers;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &callers);
    while (m->n_started < m->n_tiers) {
        move_lane *lane = &m->lane[m->n_started];
        if (pthread_create(&lane->thread, NULL, work, lane) != 0) break;
        m->n_started++;
    }
    pthread_sigmask(SIG_SETMASK, &callers, NULL);
    return m->n_started == m->n_tiers;
}

kvt_status move_open(kvt_cache *c, bool inline_) {
    mover *m = &c->mover;
    if (m->n_tiers == 0) return KVT_OK;
    m->inline_ = inline_;
    lists_open(c);
    if (inline_ || threads_start(m)) return KVT_OK;
    return log_fail(&c->log, KVT_E_MEMORY, "threads for %d tiers cannot be had", m->n_tiers);
}

/* Under the lock. */
static void cancel_gets(mover *m, move_lane *lane) {
    while (lane->gets.first != MOVE_NONE) cancel(m, lane->gets.first);
}

void move_close(kvt_cache *c) {
    mover *m = &c->mover;
    if (!m->is_open) return;
    pthread_mutex_lock(&m->lock);
    m->closing = true;
    for (int i = 0; i < m->n_tiers; i++) {
        cancel_gets(m, &m->lane[i]);
        pthread_cond_signal(&m->lane[i].work);
        while (m->inline_ && run_oldest(&m->lane[i])) {}
    }
    pthread_mutex_unlock(&m->lock);
    for (int i = 0; i < m->n_started; i++) pthread_join(m->lane[i].thread, NULL);
    for (int i = 0; i < m->n_tiers; i++) pthread_cond_destroy(&m->lane[i].work);
    pthread_cond_destroy(&m->result);
    pthread_mutex_destroy(&m->lock);
    m->is_open = false;
}

/* --------------------------------------------------------------------------------------- the owner's calls */

bool move_add(kvt_cache *c, const move_job *job) {
    mover *m = &c->mover;
    int slot = m->unused.first;
    assert(m->is_open && job->tier >= 0 && job->tier < m->n_tiers);
    if (slot == MOVE_NONE || (job->kind != MOVE_DROP && move_is_full(c))) return false;
    list_remove(m, &m->unused, slot);
    move_slot *s = &m->slot[slot];
    *s = (move_slot){.job = *job, .number = m->n_added++, .open = true};
    m->n_open++;
    m->n_gets += job->kind == MOVE_GET;
    m->n_drops += job->kind == MOVE_DROP;
    s->job.status = KVT_OK;
    s->job.bytes = 0;
    if (job->kind != MOVE_DROP) {
        size_t bytes = payload_bytes(&c->layout, job->hot);
        assert(job->what.payload_bytes == 0 || job->what.payload_bytes == bytes);
        s->job.what.payload_bytes = bytes;
        s->job.bytes = RECORD_HEADER + bytes;
    }
    move_lane *lane = &m->lane[job->tier];
    pthread_mutex_lock(&m->lock);
    queue_add(m, slot);
    pthread_cond_signal(&lane->work);
    pthread_mutex_unlock(&m->lock);
    return true;
}

/* Under the lock: the next result of the slot, which leaves the list with the last one that there is for now. */
static move_result result_of(mover *m, int slot) {
    move_slot *s = &m->slot[slot];
    move_result result = {s->job, s->copied, s->cancelled};
    if (!s->copied || !s->done) list_remove(m, &m->results, slot);
    if (!s->copied && s->job.kind == MOVE_GET) m->n_results_get--;
    s->copied = false;
    return result;
}

bool move_take(kvt_cache *c, move_result *out) {
    mover *m = &c->mover;
    if (m->n_open == 0) return false;
    pthread_mutex_lock(&m->lock);
    int slot = m->results.first;
    if (slot != MOVE_NONE) *out = result_of(m, slot);
    pthread_mutex_unlock(&m->lock);
    if (slot == MOVE_NONE) return false;
    if (out->copied) return true;
    list_add(m, &m->unused, slot);
    m->slot[slot].open = false;
    m->n_open--;
    m->n_gets -= out->job.kind == MOVE_GET;
    m->n_drops -= out->job.kind == MOVE_DROP;
    return true;
}

/* Under the lock: the newest of all that have not begun. */
static int newest_put(const mover *m) {
    int newest = MOVE_NONE;
    for (int i = 0; i < m->n_tiers; i++) {
        int slot = m->lane[i].queue.last;
        while (slot != MOVE_NONE && m->slot[slot].job.kind != MOVE_PUT) slot = m->slot[slot].older;
        if (slot == MOVE_NONE) continue;
        if (newest == MOVE_NONE || m->slot[slot].number > m->slot[newest].number) newest = slot;
    }
    return newest;
}

int move_cancel_puts(kvt_cache *c, int n) {
    mover *m = &c->mover;
    int n_cancelled = 0;
    if (m->n_open == 0) return 0;
    pthread_mutex_lock(&m->lock);
    for (int slot; n_cancelled < n && (slot = newest_put(m)) != MOVE_NONE; n_cancelled++) cancel(m, slot);
    pthread_mutex_unlock(&m->lock);
    return n_cancelled;
}

/* Under the lock. */
static int queued_get(const mover *m, int block) {
    for (int i = 0; i < m->n_tiers; i++)
        for (int slot = m->lane[i].gets.first; slot != MOVE_NONE; slot = m->slot[slot].newer)
            if (m->slot[slot].job.block == block) return slot;
    return MOVE_NONE;
}

bool move_cancel_get(kvt_cache *c, int block) {
    mover *m = &c->mover;
    if (m->n_gets == 0) return false;
    pthread_mutex_lock(&m->lock);
    int slot = queued_get(m, block);
    if (slot != MOVE_NONE) cancel(m, slot);
    pthread_mutex_unlock(&m->lock);
    return slot != MOVE_NONE;
}

/* Under the lock. */
static bool is_ready(const mover *m, bool any) {
    return any ? m->results.first != MOVE_NONE : m->n_results_get > 0;
}

/* Under the lock: the oldest job of all tiers. */
static bool run_any(mover *m) {
    move_lane *oldest = NULL;
    for (int i = 0; i < m->n_tiers; i++) {
        move_lane *lane = &m->lane[i];
        if (first_of(lane) == MOVE_NONE) continue;
        if (!oldest || m->slot[first_of(lane)].number < m->slot[first_of(oldest)].number) oldest = lane;
    }
    return oldest && run_oldest(oldest);
}

/* Under the lock. False: nothing is to be waited for any more. */
static bool wait_on(mover *m, const struct timespec *until) {
    if (m->inline_) return run_any(m);
    if (!until) return pthread_cond_wait(&m->result, &m->lock) == 0;
    return pthread_cond_timedwait(&m->result, &m->lock, until) != ETIMEDOUT;
}

bool move_wait(kvt_cache *c, int timeout_ms, bool any) {
    mover *m = &c->mover;
    if ((any ? m->n_open : m->n_gets) == 0) return true;
    struct timespec until = time_of(sys_now_ns() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * 1000000u);
    pthread_mutex_lock(&m->lock);
    bool ready = is_ready(m, any);
    m->hurry = any && !ready && timeout_ms != 0;
    for (int i = 0; m->hurry && i < m->n_tiers; i++) pthread_cond_signal(&m->lane[i].work);
    while (!ready && timeout_ms != 0 && wait_on(m, timeout_ms < 0 ? NULL : &until)) ready = is_ready(m, any);
    ready = ready || is_ready(m, any);
    m->hurry = false;
    pthread_mutex_unlock(&m->lock);
    return ready;
}

static bool any_copying(const mover *m) {
    for (int i = 0; i < m->n_tiers; i++)
        if (m->lane[i].copying) return true;
    return false;
}

bool move_wait_copied(kvt_cache *c) {
    mover *m = &c->mover;
    if (m->n_open == 0) return false;
    pthread_mutex_lock(&m->lock);
    bool was = any_copying(m);
    while (any_copying(m)) pthread_cond_wait(&m->result, &m->lock);
    pthread_mutex_unlock(&m->lock);
    return was;
}

bool move_has(const kvt_cache *c, move_kind kind, int tier, const kvt_tier_key *key) {
    const mover *m = &c->mover;
    if (kind == MOVE_DROP && m->n_drops == 0) return false;
    for (int i = 0; i < m->n_slots; i++) {
        const move_job *job = &m->slot[i].job;
        if (!m->slot[i].open || job->kind != kind || job->tier != tier) continue;
        if (memcmp(&job->key, key, sizeof *key) == 0) return true;
    }
    return false;
}

bool move_is_full(const kvt_cache *c) {
    return c->mover.n_open - c->mover.n_drops >= c->mover.n_moves;
}

int move_n_open(const kvt_cache *c) {
    return c->mover.n_open;
}

int move_n_gets(const kvt_cache *c) {
    return c->mover.n_gets;
}

bool move_run_one(kvt_cache *c, int tier) {
    mover *m = &c->mover;
    assert(m->inline_ && m->is_open);
    pthread_mutex_lock(&m->lock);
    bool ran = run_oldest(&m->lane[tier]);
    pthread_mutex_unlock(&m->lock);
    return ran;
}

uint64_t move_get_ns(const kvt_cache *c, int tier) {
    return atomic_load_explicit(&c->mover.lane[tier].get_ns, memory_order_relaxed);
}
