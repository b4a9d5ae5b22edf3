/* float8_body.h - tiles of float8 codes as tiles of bf16, in the words of one instruction set. Included once by each of
 * its files, behind words_int_*.h and the words of its own:
 *
 *     mi_upper(x, second)       of each four bytes two, the first or the second ones, as upper bytes of 16 bits
 *     mi_bf16(x, e5m2)          codes that are such upper bytes as bf16; what is less than the least normal number is 0
 *
 * A line of codes is [16][4 dims or tokens], one of bf16 [16][2]: a line gives two. Of keys they lie behind each
 * other, of values a line of every group of dims lies between. */

WORD void widen(const int e5m2, const int keys, const uint8_t *tile, int dim, uint8_t *to) {
    const int groups = dim / TILE, n = keys ? 1 : groups; /* lines that stay behind each other */
    for (int line = 0; line < 4 * groups; line += n) {
        for (int i = 0; i < n; i++, tile += 64) {
            uint8_t *first = to + (2 * line + i) * 64;
            for (int part = 0; part < WORDS; part++) {
                const mi x = mi_load(tile + part * 4 * LANES);
                mi_store(first + part * 4 * LANES, mi_bf16(mi_upper(x, 0), e5m2));
                mi_store(first + n * 64 + part * 4 * LANES, mi_bf16(mi_upper(x, 1), e5m2));
            }
        }
    }
}

static void widen_k_e4m3(const void *tile, int dim, void *bf16) { widen(0, 1, tile, dim, bf16); }
static void widen_k_e5m2(const void *tile, int dim, void *bf16) { widen(1, 1, tile, dim, bf16); }
static void widen_v_e4m3(const void *tile, int dim, void *bf16) { widen(0, 0, tile, dim, bf16); }
static void widen_v_e5m2(const void *tile, int dim, void *bf16) { widen(1, 0, tile, dim, bf16); }

static void float8_fill(kernels *k) {
    k->widen_k[KV_E4M3] = widen_k_e4m3;
    k->widen_k[KV_E5M2] = widen_k_e5m2;
    k->widen_v[KV_E4M3] = widen_v_e4m3;
    k->widen_v[KV_E5M2] = widen_v_e5m2;
}
