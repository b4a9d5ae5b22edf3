/* folder.c - see folder.h. */
#include "folder.h"

#include <dirent.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES_OPEN = 16 };

static bool make_below(const char *below, char path[FOLDER_PATH_MAX]) {
    snprintf(path, FOLDER_PATH_MAX, "%s/kvtile-test-" "XX" "XX" "XX", below);
    return mkdtemp(path) != NULL;
}

void folder_new(char path[FOLDER_PATH_MAX]) {
    const char *below = getenv("TMPDIR");
    if (!make_below(below && *below ? below : "/tmp", path)) abort();
}

void folder_new_in_memory(char path[FOLDER_PATH_MAX]) {
    if (!make_below("/dev/shm", path)) folder_new(path);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at) {
    (void)st, (void)kind, (void)at;
    return remove(path);
}

void folder_remove(const char *path) { nftw(path, remove_one, FILES_OPEN, FTW_DEPTH | FTW_PHYS); }

static uint64_t sum;
static int found;
static const char *wanted;

static int add_one(const char *path, const struct stat *st, int kind, struct FTW *at) {
    (void)at;
    if (kind != FTW_NS) sum += (uint64_t)st->st_blocks * 512;
    found += wanted && strstr(path, wanted) != NULL;
    return 0;
}

uint64_t folder_bytes(const char *path) {
    sum = 0;
    wanted = NULL;
    nftw(path, add_one, FILES_OPEN, FTW_PHYS);
    return sum;
}

int folder_count(const char *path, const char *part) {
    found = 0;
    wanted = part;
    nftw(path, add_one, FILES_OPEN, FTW_PHYS);
    return found;
}

int folder_descriptors(void) {
    DIR *list = opendir("/proc/self/fd");
    int n = 0;
    while (list && readdir(list)) n++;
    if (list) closedir(list);
    return n;
}
