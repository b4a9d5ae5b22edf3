/* seal_body.h - sealing and rotating in vector words; seal_avx2.c and seal_avx512.c bring the words and include this
 * once. Lanes are the 16 tokens of a tile: keys lie so, values are turned before and their codes after. */

/* One tile on its way: its elements, then their codes, a step of format.h per line. */
typedef struct tile_work {
    float x[ATTN_DIM_MAX * TILE]; /* [dim][16 tokens] */
    uint8_t line[ATTN_DIM_MAX / 4][64];
    float most[TILE];  /* largest size of each token's elements */
    float scale[TILE];
    uint8_t finite[TILE];
} tile_work;

/* ------------------------------------------------------------------------------------------ elements */

/* Keys in f32 less the centroid. */
static void take_less(const float *tile, const float *centroid, int dim, float *x) {
    for (int d = 0; d < dim; d++) {
        vf_store(x + d * TILE, vf_sub(vf_load(tile + d * TILE), vf_set1(centroid[d])));
    }
}

/* Keys in bf16. */
static void take_bf16(const uint8_t *tile, int dim, float *x) {
    for (int d = 0; d < dim; d += 2) {
        vf even, odd;
        vf_load_bf16(tile + d * TILE * 2, &even, &odd);
        vf_store(x + d * TILE, even);
        vf_store(x + (d + 1) * TILE, odd);
    }
}

/* Lanes that hold something infinite or NaN: their token as zeros if it was so in `from`, otherwise a difference
 * overflowed. */
static void repair(tile_work *w, const float *from, int dim) {
    for (int t = 0; t < TILE; t++) {
        if (seal_is_finite(w->most[t])) continue;
        for (int d = 0; d < dim; d++) w->finite[t] &= seal_is_finite(from[d * TILE + t]);
        w->most[t] = 0;
        for (int d = 0; d < dim; d++) {
            float *x = &w->x[d * TILE + t];
            *x = w->finite[t] ? seal_within(*x, bits_to_f32(SEAL_F32_MOST)) : 0;
            if (fabsf(*x) > w->most[t]) w->most[t] = fabsf(*x);
        }
    }
}

/* Sizes of finite numbers are in the order of their bits, with what is not finite on top. */
static void take_most(tile_work *w, const float *from, int dim) {
    vi most = vi_zero();
    for (int d = 0; d < dim; d++) most = vi_most(most, vf_load(w->x + d * TILE));
    vi_store(w->most, most);
    memset(w->finite, 1, sizeof w->finite);
    if (vi_any_from(most, SEAL_INFINITE)) repair(w, from, dim);
}

static void take_centroid(const seal_args *a, uint16_t *to, float *centroid) {
    const vf part = vf_set1(1 / (float)(a->n_tiles * TILE));
    for (int d = 0; d < a->dim; d++) {
        vf sum = vf_zero();
        for (int i = 0; i < a->n_tiles; i++) {
            sum = vf_add(sum, vf_mul(vf_load((const float *)a->tile[i] + d * TILE), part));
        }
        float mean = vf_sum(sum);
        if (fabsf(mean) <= bits_to_f32(SEAL_BF16_MOST)) to[d] = (uint16_t)(bits_of_f32(scalar_narrow(mean)) >> 16);
        else to[d] = seal_mean(a, d);
        centroid[d] = bits_to_f32((uint32_t)to[d] << 16);
    }
}

/* --------------------------------------------------------------------------------------------- codes */

/* The bytes of four dims side by side. */
WORD vi beside(const vi c[4]) {
    return vi_or(vi_or(c[0], vi_left(c[1], 8)), vi_or(vi_left(c[2], 16), vi_left(c[3], 24)));
}

static void encode_whole(tile_work *w, int dim) {
    float inverse[TILE];
    for (int t = 0; t < TILE; t++) {
        w->scale[t] = seal_scale_up(w->most[t], 127);
        inverse[t] = 1 / w->scale[t];
    }
    const vf by = vf_load(inverse);
    const float *x = w->x;
    for (int i = 0; i < dim / 4; i++, x += 4 * TILE) {
        vi code[4];
        UNROLL for (int c = 0; c < 4; c++) {
            code[c] = vi_and(vi_nearest(vf_mul(vf_load(x + c * TILE), by)), vi_set1(0xff));
        }
        vi_store(w->line[i], beside(code));
    }
}

/* As in seal_scalar.c. */
WORD vi float8_of(vf x, const int fraction, const int bias) {
    const int cut = 23 - fraction, least = (128 - bias) << 23;
    vi bits = vf_bits(x), size = vi_and(bits, vi_set1(0x7fffffff)), odd = vi_and(vi_right(size, cut), vi_set1(1));
    vi number = vi_right(vi_add(size, vi_add(odd, vi_set1((1 << (cut - 1)) - 1))), cut);
    number = vi_add(number, vi_set1(-((127 - bias) << fraction)));
    vi small = vi_if_above(size, least - (1 << 23), vi_set1(1 << fraction), vi_zero());
    return vi_or(vi_if_above(size, least - 1, number, small), vi_and(vi_right(bits, 24), vi_set1(0x80)));
}

WORD void encode_float8(const float most, const int fraction, const int bias, tile_work *w, int dim) {
    float inverse[TILE];
    for (int t = 0; t < TILE; t++) {
        w->scale[t] = seal_scale_up(w->most[t], most);
        inverse[t] = 1 / w->scale[t];
    }
    const vf by = vf_load(inverse);
    const float *x = w->x;
    for (int i = 0; i < dim / 4; i++, x += 4 * TILE) {
        vi code[4];
        UNROLL for (int c = 0; c < 4; c++) code[c] = float8_of(vf_mul(vf_load(x + c * TILE), by), fraction, bias);
        vi_store(w->line[i], beside(code));
    }
}

/* uy and yy of one unit. */
WORD void try_unit(const int bits, const sizer *s, const float *x, int dim, vf unit, vf *uy, vf *yy) {
    vf u[4], y[4];
    UNROLL for (int c = 0; c < 4; c++) u[c] = y[c] = vf_zero();
    for (int d = 0; d < dim; d += 4, x += 4 * TILE) {
        UNROLL for (int c = 0; c < 4; c++) {
            vf size = vf_abs(vf_load(x + c * TILE)), level;
            sizes_of(s, bits, vf_mul(size, unit), &level);
            u[c] = vf_fma(size, level, u[c]);
            y[c] = vf_fma(level, level, y[c]);
        }
    }
    *uy = vf_add(vf_add(u[0], u[1]), vf_add(u[2], u[3]));
    *yy = vf_add(vf_add(y[0], y[1]), vf_add(y[2], y[3]));
}

WORD void level_codes(const int bits, const sizer *s, vf unit, tile_work *w, int dim) {
    const float *x = w->x;
    for (int i = 0; i < dim / 4; i++, x += 4 * TILE) {
        vi code[4];
        UNROLL for (int c = 0; c < 4; c++) {
            vf u = vf_load(x + c * TILE), level;
            vi size = sizes_of(s, bits, vf_mul(vf_abs(u), unit), &level);
            vi place = vi_add(size, vi_set1(1 << bits >> 1)), side = vi_and(vi_sign(u), vi_set1((1 << bits) - 1));
            code[c] = vi_xor(place, side);
        }
        vi_store(w->line[i], beside(code));
    }
}

/* x becomes u. */
WORD void encode_levels(const int bits, const kv_format *f, tile_work *w, int dim) {
    const seal_levels l = seal_levels_of(f);
    const sizer s = sizer_of(&l);
    float unit[TILE], inverse[TILE];
    for (int t = 0; t < TILE; t++) {
        unit[t] = seal_unit(w->most[t]);
        inverse[t] = 1 / (w->most[t] * unit[t]);
    }
    const vf by = vf_load(unit);
    for (int d = 0; d < dim; d++) vf_store(w->x + d * TILE, vf_mul(vf_load(w->x + d * TILE), by));
    vf best = vf_set1(-1), best_scale = vf_zero(), best_unit = vf_zero();
    for (int j = 0; j < SEAL_TRIES; j++) {
        vf try = vf_mul(vf_set1(seal_try[bits][j]), vf_load(inverse)), uy, yy;
        try_unit(bits, &s, w->x, dim, try, &uy, &yy);
        vf scale = vf_div(uy, yy), gain = vf_mul(uy, scale);
        best_unit = vf_if_above(gain, best, try, best_unit);
        best_scale = vf_if_above(gain, best, scale, best_scale);
        best = vf_if_above(gain, best, gain, best);
    }
    level_codes(bits, &s, best_unit, w, dim);
    vf_store(w->scale, best_scale);
    for (int t = 0; t < TILE; t++) w->scale[t] = seal_scale_near(seal_unit_back(w->most[t]) * w->scale[t]);
}

/* ------------------------------------------------------------------------------------------- records */

/* The bits `at` .. at + n - 1 of the codes of `steps` lines, side by side. */
WORD vi gather(uint8_t (*line)[64], const int steps, const int at, const int n) {
    vi all = vi_zero();
    UNROLL for (int j = 0; j < steps; j++) {
        vi bits = vi_and(vi_right(vi_load(line[j]), at), vi_set1(((1 << n) - 1) * 0x01010101));
        all = vi_or(all, vi_left(bits, j * n));
    }
    return all;
}

/* Bits `at` .. at + n - 1 of lines of whole codes to a plane of a tile; returns its end. */
WORD uint8_t *put_plane(const int n, const int at, const int keys, uint8_t (*line)[64], int dim, uint8_t *to) {
    const int steps = dim / 4, by = 8 / n;
    if (n == 1) { /* the last line perhaps in part */
        for (int i = 0; i < steps; i += 8, to += 64) {
            vi_store(to, steps - i < 8 ? gather(line + i, 4, at, 1) : gather(line + i, 8, at, 1));
        }
        return to;
    }
    /* Of values, lines of fewer steps than a group has go by quads first. */
    const int of_group = keys ? 1 : 4 / by, groups = steps / by / of_group;
    for (int i = 0; i < steps / by; i++) {
        int place = i % of_group * groups + i / of_group;
        vi_store(to + place * 64, n == 8 ? vi_load(line[i]) : gather(line + i * by, by, at, n));
    }
    return to + steps / by * 64;
}

WORD void put_lines(const int bits, const int keys, uint8_t (*line)[64], int dim, uint8_t *tile) {
    int at = 0;
    UNROLL for (int n = 8; n > 0; n /= 2) {
        if (bits & n) tile = put_plane(n, at, keys, line, dim, tile), at += n;
    }
}

WORD void seal_tile(const int format, const int bits, const int keys, const kv_format *f, const void *tile, int dim,
                    const float *centroid, tile_work *w, uint8_t *to) {
    const int codes = f->kind == KV_CODES;
    if (keys && codes) take_less(tile, centroid, dim, w->x);
    else if (keys) take_bf16(tile, dim, w->x);
    else turn_values(tile, dim, w->x);
    take_most(w, keys && codes ? tile : w->x, dim);
    switch (format) {
    case KV_E4M3: encode_float8(SEAL_E4M3_MOST, 3, 7, w, dim); break;
    case KV_E5M2: encode_float8(SEAL_E5M2_MOST, 2, 15, w, dim); break;
    default:
        if (bits == 8) encode_whole(w, dim);
        else encode_levels(bits, f, w, dim);
    }
    if (!keys) turn_codes(w->line, dim);
    put_lines(bits, keys, w->line, dim, to);
}

WORD void seal(const int format, const int bits, const int keys, const seal_args *a) {
    const kv_format *f = kv_format_of(format);
    const size_t scales_at = kv_scales_at(f, a->dim, a->n_tiles), bytes = kv_record_bytes(f, a->dim, a->n_tiles, keys);
    uint16_t *scale = (uint16_t *)(a->record + scales_at);
    float centroid[ATTN_DIM_MAX];
    tile_work w;
    memset(a->record + scales_at, 0, bytes - scales_at);
    if (keys && f->kind == KV_CODES) {
        take_centroid(a, (uint16_t *)(a->record + kv_centroid_at(f, a->dim, a->n_tiles)), centroid);
    }
    for (int i = 0; i < a->n_tiles; i++) {
        uint8_t *to = a->record + (size_t)i * kv_tile_bytes(f, a->dim);
        seal_tile(format, bits, keys, f, a->tile[i], a->dim, centroid, &w, to);
        for (int t = 0; t < TILE; t++, scale++) {
            *scale = w.finite[t] ? (uint16_t)(bits_of_f32(w.scale[t]) >> 16) : SEAL_NONE;
        }
    }
}

SEAL_EACH(SEAL_FUNCTIONS)

/* ------------------------------------------------------------------------------------------ rotation */

/* n runs of 16 in registers: as one run of 16 n. */
WORD void rotate_block(float *x, const int n) {
    vf v[8];
    UNROLL for (int i = 0; i < n; i++) v[i] = vf_rotate16(vf_load(x + i * 16));
    UNROLL for (int h = 1; h < n; h *= 2) {
        UNROLL for (int i = 0; i < n; i++) {
            if (i & h) continue;
            vf a = v[i], b = v[i + h];
            v[i] = vf_add(a, b);
            v[i + h] = vf_sub(a, b);
        }
    }
    UNROLL for (int i = 0; i < n; i++) vf_store(x + i * 16, v[i]);
}

static void rotate(float *x, int dim) {
    const int run = dim & -dim, block = run < 128 ? run : 128;
    for (int i = 0; i < dim; i += block) {
        switch (block) {
        case 16: rotate_block(x + i, 1); break;
        case 32: rotate_block(x + i, 2); break;
        case 64: rotate_block(x + i, 4); break;
        default: rotate_block(x + i, 8);
        }
    }
    for (int h = block; h < run; h *= 2) {
        for (int i = 0; i < dim; i += 16) {
            if (i & h) continue;
            vf a = vf_load(x + i), b = vf_load(x + i + h);
            vf_store(x + i, vf_add(a, b));
            vf_store(x + i + h, vf_sub(a, b));
        }
    }
}

static void seal_fill(kernels *k) {
    SEAL_EACH(SEAL_ROW)
    k->rotate = rotate;
}
