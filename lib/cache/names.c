/* names.c - owns the words for the numbers of kvtile.h. kvt_cpu is with the kernels. */
#include <string.h>

#include "format/format.h"
#include "kernel/kernel.h"
#include "kvtile.h"

const char *kvt_version(void) {
    return KVT_BUILD_VERSION;
}

const char *kvt_status_text(kvt_status status) {
    static const struct {
        kvt_status status;
        const char *text;
    } texts[] = {
        {KVT_OK, "done"},
        {KVT_FULL, "the cache is full: free or truncate a sequence, then try again"},
        {KVT_MISS, "there is no such record, or not yet"},
        {KVT_E_ARGUMENT, "an argument is out of its range"},
        {KVT_E_MEMORY, "the memory cannot be had"},
        {KVT_E_STATE, "this call is not allowed now"},
        {KVT_E_SEQUENCE, "there is no such sequence"},
        {KVT_E_LIMIT, "this is longer than the limits the cache was opened with"},
        {KVT_E_CORRUPT, "records contradict each other, or are damaged"},
        {KVT_E_UNSUPPORTED, "this format, kind or size is not offered"},
        {KVT_E_IO, "a tier could not be read or written"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].status == status) return texts[i].text;
    return "this status is unknown";
}

const char *kvt_format_name(kvt_format format) {
    const kv_format *f = kv_format_of((int)format);
    return f ? f->name : NULL;
}

kvt_status kvt_format_parse(kvt_format *out, const char *name) {
    if (!out || !name) return KVT_E_ARGUMENT;
    int format = kv_format_find(name);
    if (format < 0) return KVT_E_UNSUPPORTED;
    *out = (kvt_format)format;
    return KVT_OK;
}

const char *kvt_cache_kind_name(kvt_cache_kind kind) {
    static const char *const names[] = {[KVT_PAGED] = "paged", [KVT_CONTIGUOUS] = "contiguous", [KVT_NONE] = "none"};
    return kind >= KVT_PAGED && kind <= KVT_NONE ? names[kind] : NULL;
}

const char *kvt_miss_name(kvt_miss reason) {
    static const char *const names[KVT_N_MISSES] = {
        [KVT_MISS_NONE] = "none",
        [KVT_MISS_COLD] = "cold",
        [KVT_MISS_DIFFERS] = "differs",
        [KVT_MISS_EVICTED] = "evicted",
        [KVT_MISS_SHORT] = "shorter_than_block",
        [KVT_MISS_OTHER_FORMAT] = "other_format",
        [KVT_MISS_OTHER_MODEL] = "other_model",
        [KVT_MISS_TIER_SLOW] = "tier_slow",
        [KVT_MISS_TIER_BAD] = "tier_bad",
        [KVT_MISS_WINDOW] = "window",
        [KVT_MISS_DISABLED] = "disabled",
    };
    return reason >= KVT_MISS_NONE && reason < KVT_N_MISSES ? names[reason] : NULL;
}
