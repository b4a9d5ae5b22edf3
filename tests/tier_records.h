/* tier_records.h - records for tests of tiers: bytes that follow from a number, under keys that do. */
#ifndef TESTS_TIER_RECORDS_H
#define TESTS_TIER_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "kvtile.h"

kvt_tier_key records_key(uint64_t number);
/* n bytes of this number and version, under its key. */
kvt_status records_put(kvt_tier *tier, uint64_t number, uint32_t version, size_t n);
/* KVT_OK only if they are there, whole and of one version, which *version gets (may be NULL). Aborts where the tier
 * says KVT_OK and they are not. */
kvt_status records_get(kvt_tier *tier, uint64_t number, size_t n, uint32_t *version);
int records_has(kvt_tier *tier, uint64_t number);
void records_drop(kvt_tier *tier, uint64_t number);
uint64_t records_bytes(kvt_tier *tier); /* of all, as the tier counts them */
uint64_t records_count(kvt_tier *tier);

#endif
