/* unroll.h - UNROLL before a loop of constant bounds, at most 16: it is written out in full, early enough for arrays
 * indexed in it to become registers. */
#ifndef KVT_UNROLL_H
#define KVT_UNROLL_H

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#endif
