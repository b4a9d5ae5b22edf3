/* bits.h - a float as its bits and back: no arithmetic, so no rounding mode and no flushing reaches it. */
#ifndef KVT_BITS_H
#define KVT_BITS_H

#include <stdint.h>
#include <string.h>

static inline uint32_t bits_of_f32(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float bits_to_f32(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline uint64_t bits_of_f64(double f) {
    uint64_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline double bits_to_f64(uint64_t u) {
    double f;
    memcpy(&f, &u, sizeof f);
    return f;
}

#endif
