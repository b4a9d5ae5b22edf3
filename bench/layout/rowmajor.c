/* rowmajor.c - attention over tiles beside attention over rows: the evidence behind the layout of a block.
 *
 * Owns the walk that both sides share, the clock and the report. Leaves memory to blocks.c and the kernels over rows to
 * rows_*.c; those over tiles and the softmax of both are the library's. README.md tells what is compared and what came
 * out. Contenders take turns within a round, and only figures of one run are compared. */
#include <getopt.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fp.h"
#include "base/mem.h"
#include "blocks.h"

enum {
    UNITS_MAX = 8, /* heads of a decode, or sets of 16 rows of a prefill */
    AHEADS_MAX = 8,
    THREADS_MAX = 2,
    ROUNDS_MAX = 101
};

/* ------------------------------------------------------------------------------------------------ contenders */

typedef struct contender {
    const char *name, *cpu;
    bool tiles;         /* what it reads */
    const rival *rival; /* NULL: the library's kernels */
    enum { AS_IT_LIES, TURN_KEYS, TURN_ALL } turn; /* rows to tiles: keys at each call, or a segment for all its rows */
    const kernels *k;   /* NULL: this machine cannot */
} contender;

static contender contenders[] = {
    {"tiles", "avx512", true, NULL, AS_IT_LIES, NULL},
    {"rows", "avx512", false, &rival_rows_avx512, AS_IT_LIES, NULL},
    {"rows, keys turned", "avx512", false, &rival_rows_avx512, TURN_KEYS, NULL},
    {"rows, all turned", "avx512", false, &rival_rows_avx512, TURN_ALL, NULL},
    {"tiles, vdpbf16ps", "avx512", true, &rival_tiles_bf16_avx512, AS_IT_LIES, NULL},
    {"rows, vdpbf16ps", "avx512", false, &rival_rows_bf16_avx512, AS_IT_LIES, NULL},
    {"tiles", "avx2", true, NULL, AS_IT_LIES, NULL},
    {"rows", "avx2", false, &rival_rows_avx2, AS_IT_LIES, NULL},
    {"rows, keys turned", "avx2", false, &rival_rows_avx2, TURN_KEYS, NULL},
    {"rows, all turned", "avx2", false, &rival_rows_avx2, TURN_ALL, NULL},
};
enum { N_CONTENDERS = sizeof contenders / sizeof *contenders };

static void contenders_find(void) {
    for (int i = 0; i < N_CONTENDERS; i++) {
        contender *c = &contenders[i];
        const bool pairs = c->rival == &rival_tiles_bf16_avx512 || c->rival == &rival_rows_bf16_avx512;
        c->k = pairs && !__builtin_cpu_supports("avx512bf16") ? NULL : kernels_of(c->cpu);
    }
}

static bool queries_paired(const contender *c) { return !c->rival || c->turn != AS_IT_LIES; }
static bool values_tiled(const contender *c) { return !c->rival || c->turn == TURN_ALL; }

/* ------------------------------------------------------------------------------------------------------ walk */

/* The query rows that meet one head's keys, and what they have summed. */
typedef struct unit {
    _Alignas(64) float q[DIM_MAX / 2 * ATTN_ROWS * 4];
    _Alignas(64) float o[ATTN_ROWS * DIM_MAX], O[ATTN_ROWS * DIM_MAX], l[ATTN_ROWS][TILE];
    float m[ATTN_ROWS], M[ATTN_ROWS], L[ATTN_ROWS];
    float *s; /* its rows among the scores */
} unit;

typedef enum phase { WHOLE, KEYS, VALUES } phase;

typedef struct worker {
    phase phase;
    const shape *shape;
    const contender *c;
    const uint8_t *arena;
    const void *const *stream; /* of its first segment */
    int first, n_segments, at_once;
    int ahead; /* pieces from where it reads to where it prefetches */
    pthread_barrier_t *start;
    double began, ended, busy; /* by the clock; by the processor's time */
    uint64_t seen;
    unit unit[UNITS_MAX];
    /* Rows of several heads lie side by side. */
    _Alignas(64) float s[UNITS_MAX][STEP_TILES][ATTN_ROWS * TILE];
    _Alignas(64) uint8_t turned_keys[2][TILE * DIM_MAX * 2];
    uint8_t *turned; /* [2 * SEGMENT_TILES] tiles of a segment */
} worker;

static double seconds_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void worker_begin(worker *w) {
    if (w->start) pthread_barrier_wait(w->start);
    w->began = seconds_of(CLOCK_MONOTONIC);
    w->busy = -seconds_of(CLOCK_THREAD_CPUTIME_ID);
}

static void worker_end(worker *w) {
    w->busy += seconds_of(CLOCK_THREAD_CPUTIME_ID);
    w->ended = seconds_of(CLOCK_MONOTONIC);
}

/* Query row x, of bf16 values, for row r of a unit. */
static void query_put(const contender *c, unit *u, const float *x, int r, int dim) {
    if (!queries_paired(c)) {
        c->rival->put_q(x, dim, r, u->q);
        return;
    }
    for (int d = 0; d < dim; d++) u->q[(d / 2 * ATTN_ROWS + r) * 2 + d % 2] = x[d];
}

/* Queries made, nothing summed yet. */
static void worker_prepare(worker *w) {
    const shape *s = w->shape;
    const int side_by_side = ATTN_ROWS / s->n_rows;
    for (int i = 0; i < s->n_heads * s->sets; i++) {
        unit *u = &w->unit[i];
        u->s = &w->s[i / side_by_side][0][i % side_by_side * s->n_rows * TILE];
        for (int r = 0; r < s->n_rows; r++) {
            float x[DIM_MAX];
            for (int d = 0; d < s->dim; d++) {
                const float value = 4 * noise((uint32_t)(((i * ATTN_ROWS + r) * DIM_MAX + d) ^ 0x5a5a5a5a));
                x[d] = bf16_to_f32(f32_to_bf16(value));
            }
            query_put(w->c, u, x, r, s->dim);
            u->M[r] = -INFINITY;
            u->L[r] = 0;
        }
        memset(u->O, 0, sizeof u->O);
    }
}

static void pair_qk(worker *w, unit *u, const void *const *at, const void *const *ahead, int pair) {
    const contender *c = w->c;
    const void *const turned[2] = {w->turned_keys[0], w->turned_keys[1]};
    attn_qk_args a = {.k_tile = at,
                      .n_pairs = 1,
                      .dim = w->shape->dim,
                      .n_rows = w->shape->n_rows,
                      .q = u->q,
                      .s = u->s + pair * 2 * ATTN_ROWS * TILE,
                      .ahead = {ahead, piece_bytes(w->shape)}};
    if (c->turn == TURN_KEYS) {
        for (int i = 0; i < 2; i++) c->rival->turn_k(at[i], a.dim, w->turned_keys[i]);
        a.k_tile = turned;
    }
    (queries_paired(c) ? c->k->attn_qk[ELEMENT_BF16] : c->rival->qk)(&a);
}

static void pair_pv(worker *w, unit *u, const void *const *at, const void *const *ahead, int pair) {
    const contender *c = w->c;
    const attn_pv_args a = {.v_tile = at,
                            .n_pairs = 1,
                            .dim = w->shape->dim,
                            .n_rows = w->shape->n_rows,
                            .p = u->s + pair * 2 * ATTN_ROWS * TILE,
                            .o = u->o,
                            .ahead = {ahead, piece_bytes(w->shape)}};
    (values_tiled(c) ? c->k->attn_pv[ELEMENT_BF16] : c->rival->pv)(&a);
}

static void step_softmax(worker *w, unit *u) {
    const shape *s = w->shape;
    for (int r = 0; r < s->n_rows; r++) {
        w->c->k->attn_softmax(&(attn_row){.s = u->s + r * TILE,
                                          .n_visible = ATTN_STEP,
                                          .n_pairs = STEP_PAIRS,
                                          .narrow = 1,
                                          .c = 1.44269504f / sqrtf((float)s->dim),
                                          .m = u->m + r,
                                          .l = u->l[r],
                                          .o = u->o + r * s->dim,
                                          .dim = s->dim});
    }
}

static void segment_merge(worker *w, unit *u) {
    for (int r = 0; r < w->shape->n_rows; r++) {
        float l = 0;
        for (int i = 0; i < TILE; i++) l += u->l[r][i];
        float *O = u->O + r * DIM_MAX;
        w->c->k->attn_merge(w->shape->dim, u->M + r, u->L + r, O, u->m[r], l, u->o + r * w->shape->dim);
    }
}

/* One segment for n units, each with a head of its own, side by side in the stream. */
static void segment_walk(worker *w, unit *units, int n, const void *const *at, int ahead) {
    for (int i = 0; i < n; i++) {
        for (int r = 0; r < w->shape->n_rows; r++) units[i].m[r] = -INFINITY;
        memset(units[i].l, 0, sizeof units[i].l);
        memset(units[i].o, 0, sizeof units[i].o);
    }
    for (int step = 0; step < ATTN_SEGMENT / ATTN_STEP; step++) {
        for (int pair = 0; pair < STEP_PAIRS; pair++) {
            for (int i = 0; i < n; i++, at += 2) {
                if (w->phase != VALUES) pair_qk(w, units + i, at, at + ahead, pair);
            }
        }
        for (int i = 0; i < n; i++) {
            if (w->phase == WHOLE) step_softmax(w, units + i);
        }
        for (int pair = 0; pair < STEP_PAIRS; pair++) {
            for (int i = 0; i < n; i++, at += 2) {
                if (w->phase != KEYS) pair_pv(w, units + i, at, at + ahead, pair);
            }
        }
    }
    for (int i = 0; i < n; i++) segment_merge(w, units + i);
}

/* A segment of one head into tiles; tile: where they are from now on. */
static void segment_turn(worker *w, const void *const *at, const void **tile) {
    const size_t bytes = piece_bytes(w->shape);
    for (int i = 0; i < 2 * SEGMENT_TILES; i++) {
        const uint8_t *ahead = at[i + w->ahead];
        for (size_t b = 0; b < bytes; b += 64) __builtin_prefetch(ahead + b, 0, 2);
        tile[i] = w->turned + (size_t)i * bytes;
        const bool values = i / STEP_TILES % 2;
        (values ? w->c->rival->turn_v : w->c->rival->turn_k)(at[i], w->shape->dim, w->turned + (size_t)i * bytes);
    }
}

static void *worker_run(void *ctx) {
    worker *w = ctx;
    const shape *s = w->shape;
    const size_t n_stream = (size_t)(2 * SEGMENT_TILES * w->at_once);
    const void *tile[2 * SEGMENT_TILES];
    fp_enter();
    worker_begin(w);
    const void *const *at = w->stream;
    for (int segment = 0; segment < w->n_segments; segment++) {
        for (int head = 0; head < s->n_heads; head += w->at_once, at += n_stream) {
            if (w->c->turn == TURN_ALL) segment_turn(w, at, tile);
            for (int set = 0; set < s->sets; set++) {
                if (w->c->turn == TURN_ALL) segment_walk(w, w->unit + head * s->sets + set, 1, tile, 0);
                else segment_walk(w, w->unit + head * s->sets + set, w->at_once, at, w->ahead);
            }
        }
    }
    worker_end(w);
    return NULL;
}

/* A plain read of the same bytes, line by line. */
static void *worker_read(void *ctx) {
    worker *w = ctx;
    const size_t bytes = block_bytes(w->shape) * (size_t)(ATTN_SEGMENT / BLOCK);
    const uint8_t *arena = w->arena;
    uint64_t seen = 0;
    worker_begin(w);
    for (size_t i = bytes * (size_t)w->first; i < bytes * (size_t)(w->first + w->n_segments); i += 64) seen += arena[i];
    worker_end(w);
    w->seen = seen;
    return NULL;
}

/* Seconds from the earliest start to the latest end; or the processor's time of the thread that took most. */
static double team_run(worker **team, int n, void *(*fn)(void *), bool busy) {
    pthread_barrier_t start;
    pthread_t thread[THREADS_MAX];
    pthread_barrier_init(&start, NULL, (unsigned)n);
    for (int i = 0; i < n; i++) team[i]->start = n > 1 ? &start : NULL;
    for (int i = 1; i < n; i++) pthread_create(&thread[i], NULL, fn, team[i]);
    fn(team[0]);
    double began = team[0]->began, ended = team[0]->ended, most = team[0]->busy;
    for (int i = 1; i < n; i++) {
        pthread_join(thread[i], NULL);
        if (team[i]->began < began) began = team[i]->began;
        if (team[i]->ended > ended) ended = team[i]->ended;
        if (team[i]->busy > most) most = team[i]->busy;
    }
    pthread_barrier_destroy(&start);
    return busy ? most : ended - began;
}

/* ---------------------------------------------------------------------------------------------------- report */

typedef struct scenario {
    const char *name;
    shape shape;
    int n_threads;
    size_t resident; /* bytes that are read again and again; 0: all there are */
    bool together;   /* in a block the keys of all heads, then their values, and all heads in one walk */
    bool prefill;
    phase phase;
} scenario;

typedef struct options {
    const char *parts; /* d: decode from memory, c: from the cache, p: prefill */
    int dim;           /* 0: both */
    int n_rounds, n_ahead, ahead[AHEADS_MAX];
    bool busy;
} options;

/* What a scenario has measured. */
typedef struct figures {
    double read[ROUNDS_MAX], seconds[N_CONTENDERS][ROUNDS_MAX];
    float out[N_CONTENDERS][THREADS_MAX * UNITS_MAX * ATTN_ROWS * DIM_MAX];
} figures;

/* A sequence in every order of bytes: [tiles][together]. */
typedef struct sequence {
    uint8_t *arena[2][2];
    int *table, *table_resident;
} sequence;

static worker workers[THREADS_MAX];

static double sequence_bytes(const shape *s) { return (double)block_bytes(s) * (s->n_tokens / BLOCK); }

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The value a share of the way up among x[i] / y[i], or x[i] where y is NULL. */
static double quantile(const double *x, const double *y, int n, double share) {
    double sorted[ROUNDS_MAX];
    for (int i = 0; i < n; i++) sorted[i] = y ? x[i] / y[i] : x[i];
    qsort(sorted, (size_t)n, sizeof *sorted, by_size);
    return sorted[(int)(share * (n - 1) + 0.5)];
}

/* The team over the sequence, segments in equal shares; c NULL: to read the arena. */
static void team_set(const scenario *s, const contender *c, int ahead, const void *from, worker **team) {
    const int n_segments = s->shape.n_tokens / ATTN_SEGMENT;
    for (int i = 0; i < s->n_threads; i++) {
        worker *w = team[i] = &workers[i];
        w->shape = &s->shape;
        w->phase = s->phase;
        w->c = c;
        w->ahead = ahead;
        w->at_once = s->together ? s->shape.n_heads : 1;
        w->first = n_segments * i / s->n_threads;
        w->n_segments = n_segments * (i + 1) / s->n_threads - w->first;
        w->arena = from;
        w->stream = (const void *const *)from + (size_t)w->first * (size_t)(2 * SEGMENT_TILES * s->shape.n_heads);
        if (c) worker_prepare(w);
    }
}

/* What the team has computed, in the order of dims, one row after the other. */
static void result_get(const scenario *s, const contender *c, float *out) {
    const shape *sh = &s->shape;
    for (int i = 0; i < s->n_threads; i++) {
        for (int row = 0; row < sh->n_heads * sh->sets * sh->n_rows; row++, out += sh->dim) {
            const unit *u = &workers[i].unit[row / sh->n_rows];
            const int r = row % sh->n_rows;
            if (values_tiled(c)) memcpy(out, u->O + r * DIM_MAX, (size_t)sh->dim * sizeof *out);
            else c->rival->get_o(u->O + r * DIM_MAX, sh->dim, out);
            for (int d = 0; d < sh->dim; d++) out[d] /= u->L[r];
        }
    }
}

/* Largest difference as a share of the largest value; NaN where there is one. */
static double difference(const float *x, const float *y, size_t n) {
    double most = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = fabs((double)x[i] - (double)y[i]);
        if (!(d <= most)) most = d;
        if (fabs((double)y[i]) > size) size = fabs((double)y[i]);
    }
    return most / size;
}

/* Decode turns nothing for later, and what turning keys costs it shows where memory does not hide it. */
static bool takes_part(const scenario *s, const contender *c) {
    if (!c->k || (c->turn == TURN_ALL && !s->prefill)) return false;
    return c->turn != TURN_KEYS || s->prefill || s->resident;
}

static void report(const scenario *s, const figures *f, int n_rounds) {
    const shape *sh = &s->shape;
    const double flop = 4.0 * sh->n_heads * sh->sets * sh->n_rows * sh->dim * sh->n_tokens;
    const double work = (s->prefill ? flop : sequence_bytes(sh)) * (s->phase == WHOLE ? 1e-9 : 0.5e-9);
    const size_t n_out = (size_t)(s->n_threads * sh->n_heads * sh->sets * sh->n_rows * sh->dim);
    printf("\n%s: %d x %d rows of %d dims, %d thread%s, keys of all heads %s; plain read %.1f GB/s\n", s->name,
           sh->n_heads, sh->sets * sh->n_rows, sh->dim, s->n_threads, s->n_threads > 1 ? "s" : "",
           s->together ? "together" : "apart", sequence_bytes(sh) * 1e-9 / quantile(f->read, NULL, n_rounds, 0.5));
    printf("  %-26s %7s %15s %7s %21s %9s\n", "", s->prefill ? "GFLOP/s" : "GB/s", "quartiles", "of read",
           "time / tiles'", "error");
    for (int i = 0, tiles = 0, first = -1; i < N_CONTENDERS; i++) {
        const contender *c = &contenders[i];
        if (!takes_part(s, c)) continue;
        if (!c->rival) tiles = i;
        if (first < 0) first = i;
        const double *t = f->seconds[i], *beside = f->seconds[tiles];
        printf("  %-7s %-18s %7.1f %7.1f-%-7.1f", c->cpu, c->name, work / quantile(t, NULL, n_rounds, 0.5),
               work / quantile(t, NULL, n_rounds, 0.75), work / quantile(t, NULL, n_rounds, 0.25));
        if (s->prefill || s->resident) printf(" %7s", "");
        else printf(" %6.1f%%", 100 * quantile(f->read, t, n_rounds, 0.5));
        printf(" %8.2f (%.2f-%.2f)", quantile(t, beside, n_rounds, 0.5), quantile(t, beside, n_rounds, 0.25),
               quantile(t, beside, n_rounds, 0.75));
        if (s->phase == WHOLE) printf(" %9.1e", difference(f->out[i], f->out[first], n_out));
        printf("\n");
    }
}

static void scenario_run(const scenario *s, const sequence *q, int ahead, const options *o) {
    static figures f;
    worker *team[THREADS_MAX];
    const void **stream[2];
    for (int i = 0; i < 2; i++) {
        const int *table = s->resident ? q->table_resident : q->table;
        stream[i] = stream_make(&s->shape, q->arena[i][s->together], table, s->together);
    }
    for (int round = 0; round < o->n_rounds; round++) {
        team_set(s, NULL, 0, q->arena[1][s->together], team);
        f.read[round] = team_run(team, s->n_threads, worker_read, o->busy);
        for (int i = 0; i < N_CONTENDERS; i++) {
            const contender *c = &contenders[i];
            if (!takes_part(s, c)) continue;
            team_set(s, c, ahead, stream[c->tiles], team);
            f.seconds[i][round] = team_run(team, s->n_threads, worker_run, o->busy);
            if (s->phase == WHOLE) result_get(s, c, f.out[i]);
        }
    }
    report(s, &f, o->n_rounds);
    for (int i = 0; i < 2; i++) free(stream[i]);
}

/* All scenarios of decode over one shape. */
static void decode_run(const shape *s, const options *o) {
    const size_t resident = 448 << 10; /* half of a second-level cache */
    sequence q = {.table = table_make(s, 0), .table_resident = table_make(s, resident)};
    for (int i = 0; i < 4; i++) q.arena[i / 2][i % 2] = arena_make(s, i / 2, i % 2);
    for (int i = 0; strchr(o->parts, 'd') && i < 4 * o->n_ahead; i++) {
        const scenario decode = {"decode from memory", *s, 1 + i / o->n_ahead % 2, 0, i / o->n_ahead / 2, false, WHOLE};
        printf("\nprefetching %d pieces of 16 tokens ahead", o->ahead[i % o->n_ahead]);
        scenario_run(&decode, &q, o->ahead[i % o->n_ahead], o);
    }
    if (strchr(o->parts, 'c')) {
        scenario_run(&(scenario){"decode from the cache", *s, 1, resident, true, false, WHOLE}, &q, o->ahead[0], o);
        scenario_run(&(scenario){"scores alone", *s, 1, resident, true, false, KEYS}, &q, o->ahead[0], o);
        scenario_run(&(scenario){"values alone", *s, 1, resident, true, false, VALUES}, &q, o->ahead[0], o);
    }
    for (int i = 0; i < 4; i++) mem_give(NULL, q.arena[i / 2][i % 2], (size_t)sequence_bytes(s));
    free(q.table);
    free(q.table_resident);
}

static void prefill_run(const shape *s, const options *o) {
    sequence q = {.table = table_make(s, 0)};
    for (int i = 0; i < 2; i++) q.arena[i][0] = arena_make(s, i, false);
    scenario_run(&(scenario){"prefill", *s, 1, 0, false, true, WHOLE}, &q, o->ahead[0], o);
    scenario_run(&(scenario){"scores alone", *s, 1, 0, false, true, KEYS}, &q, o->ahead[0], o);
    scenario_run(&(scenario){"values alone", *s, 1, 0, false, true, VALUES}, &q, o->ahead[0], o);
    for (int i = 0; i < 2; i++) mem_give(NULL, q.arena[i][0], (size_t)sequence_bytes(s));
    free(q.table);
}

static int options_read(options *o, int argc, char **argv) {
    for (int opt; (opt = getopt(argc, argv, "r:a:o:d:t")) != -1;) {
        switch (opt) {
        case 'r': o->n_rounds = atoi(optarg); break;
        case 'o': o->parts = optarg; break;
        case 'd': o->dim = atoi(optarg); break;
        case 't': o->busy = true; break;
        case 'a':
            o->n_ahead = 0;
            for (char *a = strtok(optarg, ","); a && o->n_ahead < AHEADS_MAX; a = strtok(NULL, ",")) {
                const int ahead = atoi(a);
                if (ahead < 0 || ahead > AHEAD_MAX) return -1;
                o->ahead[o->n_ahead++] = ahead;
            }
            break;
        default: return -1;
        }
    }
    return o->n_rounds < 1 || o->n_rounds > ROUNDS_MAX || o->n_ahead < 1 ? -1 : 0;
}

int main(int argc, char **argv) {
    options o = {.parts = "dcp", .n_rounds = 9, .n_ahead = 1, .ahead = {4}};
    if (options_read(&o, argc, argv) != 0) {
        fprintf(stderr, "usage: %s [-o dcp] [-d 64|128] [-r rounds] [-a pieces,...] [-t]\n"
                "  -o  decode from memory (d), from the cache (c), prefill (p)\n"
                "  -a  prefetch so many pieces of 16 tokens ahead\n"
                "  -t  processor time: other work on the machine counts less\n", argv[0]);
        return 2;
    }
    contenders_find();
    for (int i = 0; i < THREADS_MAX; i++) {
        workers[i].turned = mem_take(NULL, 2 * SEGMENT_TILES * TILE * DIM_MAX * 2);
        if (!workers[i].turned) return 1;
    }
    const shape decode[] = {{3, 3, 64, 262144, 1}, {8, 4, 128, 49152, 1}};
    const shape prefill[] = {{1, ATTN_ROWS, 64, 16384, 8}, {1, ATTN_ROWS, 128, 16384, 8}};
    for (int i = 0; i < 2; i++) {
        if (o.dim != 0 && o.dim != decode[i].dim) continue;
        if (strpbrk(o.parts, "dc")) decode_run(&decode[i], &o);
        if (strchr(o.parts, 'p')) prefill_run(&prefill[i], &o);
    }
    return 0;
}
