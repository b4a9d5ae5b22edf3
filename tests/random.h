/* random.h - numbers that look random and are the same on every run: splitmix64 (Steele, Lea and Flood 2014). */
#ifndef TESTS_RANDOM_H
#define TESTS_RANDOM_H

#include <stdint.h>

static inline uint64_t random_bits(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* 0 .. n-1 */
static inline uint32_t random_below(uint64_t *state, uint32_t n) {
    return (uint32_t)((random_bits(state) >> 32) * n >> 32);
}

/* low .. high */
static inline double random_between(uint64_t *state, double low, double high) {
    return low + (high - low) * ((double)(random_bits(state) >> 11) * 0x1p-53);
}

#endif
