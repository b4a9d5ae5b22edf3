/* commands.c - the table of commands. A command of two words is a member of a family, whose own row comes before its
 * members'. */
#include "bench.h"
#include "cli.h"
#include "store.h"

const command *const commands[] = {
    &command_run,
    &command_chat,
    &command_inspect,
    &command_plan,
    &command_simulate,
    &command_perplexity,
    &command_store,
    &command_store_ls,
    &command_store_verify,
    &command_store_trim,
    &command_store_rm,
    &command_bench,
    &command_bench_reuse,
    &command_bench_memory,
    &command_bench_decode,
    &command_bench_prefill,
    &command_bench_attend,
    &command_bench_share,
    &command_bench_step,
    &command_bench_modes,
    &command_bench_formats,
    &command_bench_tier,
    &command_help,
    &command_manual,
    &command_completion,
};
const int n_commands = sizeof commands / sizeof commands[0];
