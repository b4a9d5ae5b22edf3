/* rows_body.h - the row kernels in vector words; rows_avx2.c and rows_avx512.c bring the words and include this once.
 * Lanes are independent, so only the sum of norm has an order to keep, and that is the same sixteen partial sums. */

static void norm(const float *x, const float *weight, float eps, int n, float *y) {
    int whole = n & ~15, rest = n & 15;
    vf a = vf_zero();
    for (int i = 0; i < whole; i += 16) a = vf_fma(vf_load(x + i), vf_load(x + i), a);
    vf last = vf_load_first(x + whole, rest);
    a = vf_fma(last, last, a); /* absent elements are 0 and change nothing */
    vf r = vf_set1(rows_norm_factor(vf_sum(a), n, eps));
    for (int i = 0; i < whole; i += 16)
        vf_store(y + i, vf_mul(vf_mul(vf_load(x + i), r), vf_load(weight + i)));
    vf_store_first(y + whole, vf_mul(vf_mul(last, r), vf_load_first(weight + whole, rest)), rest);
}

static void add(float *x, const float *y, size_t n) {
    size_t whole = n & ~(size_t)15;
    int rest = n & 15;
    for (size_t i = 0; i < whole; i += 16) vf_store(x + i, vf_add(vf_load(x + i), vf_load(y + i)));
    vf_store_first(x + whole, vf_add(vf_load_first(x + whole, rest), vf_load_first(y + whole, rest)), rest);
}

static void add_scaled(float *x, const float *y, float s, size_t n) {
    size_t whole = n & ~(size_t)15;
    int rest = n & 15;
    vf by = vf_set1(s);
    for (size_t i = 0; i < whole; i += 16) vf_store(x + i, vf_fma(by, vf_load(y + i), vf_load(x + i)));
    vf last = vf_fma(by, vf_load_first(y + whole, rest), vf_load_first(x + whole, rest));
    vf_store_first(x + whole, last, rest);
}

static void scale(float *x, float s, size_t n) {
    size_t whole = n & ~(size_t)15;
    int rest = n & 15;
    vf by = vf_set1(s);
    for (size_t i = 0; i < whole; i += 16) vf_store(x + i, vf_mul(vf_load(x + i), by));
    vf_store_first(x + whole, vf_mul(vf_load_first(x + whole, rest), by), rest);
}

WORD vf silu_times(vf gate, vf up) {
    vf e = vf_exp2(vf_mul(gate, vf_set1(-1.44269504f)));
    return vf_mul(vf_div(gate, vf_add(vf_set1(1), e)), up);
}

static void silu_mul(float *gate, const float *up, size_t n) {
    size_t whole = n & ~(size_t)15;
    int rest = n & 15;
    for (size_t i = 0; i < whole; i += 16) vf_store(gate + i, silu_times(vf_load(gate + i), vf_load(up + i)));
    vf_store_first(gate + whole, silu_times(vf_load_first(gate + whole, rest), vf_load_first(up + whole, rest)), rest);
}

/* Pairs side by side: eight at a time. */
static void rope_beside(float *x, const float *turns, int dim) {
    for (int i = 0; i < dim; i += 16) {
        int n = dim - i < 16 ? dim - i : 16;
        vf_store_first(x + i, vf_turn_beside(vf_load_first(x + i, n), vf_load_first(turns + i, n)), n);
    }
}

/* Pairs half a head apart: sixteen at a time. */
static void rope_apart(float *x, const float *turns, int half) {
    for (int i = 0; i < half; i += 16, turns += 32) {
        int n = half - i < 16 ? half - i : 16, low = n < 8 ? 2 * n : 16;
        vf a = vf_load_first(x + i, n), b = vf_load_first(x + half + i, n), c, s;
        vf_unzip(vf_load_first(turns, low), vf_load_first(turns + 16, 2 * n - low), &c, &s);
        vf_store_first(x + i, vf_fms(a, c, vf_mul(b, s)), n);
        vf_store_first(x + half + i, vf_fma(b, c, vf_mul(a, s)), n);
    }
}

static void rope(float *x, const float *turns, int dim, int halves) {
    if (halves) rope_apart(x, turns, dim / 2);
    else rope_beside(x, turns, dim);
}

static void narrow(float *x, size_t n) {
    size_t whole = n & ~(size_t)15;
    int rest = n & 15;
    for (size_t i = 0; i < whole; i += 16) vf_store(x + i, vf_narrow_any(vf_load(x + i)));
    vf_store_first(x + whole, vf_narrow_any(vf_load_first(x + whole, rest)), rest);
}

/* code: of a block's largest activation; it tells the width too. Inlined with a constant. */
WORD void quantise(int code, const float *x, int n, void *codes, float *s, float *fs, int32_t *sum, int32_t *half) {
    const size_t block_bytes = code == ROWS_CODE8 ? ROWS_BLOCK : ROWS_BLOCK * sizeof(int16_t);
    uint8_t *q = codes;
    for (int b = 0; b < n / ROWS_BLOCK; b++, x += ROWS_BLOCK, q += block_bytes) {
        vf low = vf_load(x), high = vf_load(x + 16);
        float inverse;
        sum[b] = half[b] = 0;
        if (rows_scale(vf_most(low, high), (float)code, &s[b], &inverse)) {
            vf i = vf_set1(inverse);
            low = vf_mul(low, i);
            high = vf_mul(high, i);
            sum[b] = code == ROWS_CODE8 ? vf_codes8(low, high, q, &half[b]) : vf_codes16(low, high, q, &half[b]);
        } else memset(q, 0, block_bytes);
        fs[b] = s[b] * (float)sum[b];
    }
}

static void quantise8(const float *x, int n, void *q, float *s, float *fs, int32_t *sum, int32_t *half) {
    quantise(ROWS_CODE8, x, n, q, s, fs, sum, half);
}

static void quantise16(const float *x, int n, void *q, float *s, float *fs, int32_t *sum, int32_t *half) {
    quantise(ROWS_CODE16, x, n, q, s, fs, sum, half);
}

static void rows_fill(kernels *k) {
    k->norm = norm;
    k->add = add;
    k->add_scaled = add_scaled;
    k->scale = scale;
    k->silu_mul = silu_mul;
    k->rope = rope;
    k->narrow = narrow;
    k->quantise8 = quantise8;
    k->quantise16 = quantise16;
}
