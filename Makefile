# kvtile: `make run` and `make test` are all a newcomer needs; `make help` lists the rest.
#
# MODE chooses what is built, each in its own folder: release (default), asan, tsan, fuzz.
#   make MODE=asan CC=gcc
# Compiler flags follow the file name: NAME_avx2.c and NAME_avx512.c get their instruction set, nothing else does.

MODE   ?= release
PREFIX ?= /usr/local
CC     ?= cc
CLANG  ?= clang
GCC    ?= gcc
PYTHON ?= python3
MODEL  ?=
JOBS   ?= $(shell nproc)

VERSION := 0.1.0
DATE := 2026-11-29
SOVERSION := 0
OUT := build/$(MODE)

# V=1 shows the commands; without it a line each.
comma := ,
ifeq ($(V),)
say = @printf '  %-5s %s\n' $(1) $@;
endif

# ------------------------------------------------------------------------------------------------- flags
CFLAGS ?= -O2 -g
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wno-missing-field-initializers
BASE := -std=c11 $(WARN) -Iinclude -Ilib -D_GNU_SOURCE -DKVT_BUILD_VERSION='"$(VERSION)"' \
        -ffp-contract=off -fno-math-errno -fvisibility=hidden -fPIC -pthread -MMD -MP
ifneq ($(WERROR),)
BASE += -Werror
endif

MODE_release :=
MODE_asan := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -DKVT_POISON
MODE_tsan := -O1 -g -fsanitize=thread -DKVT_POISON
MODE_fuzz := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
MODE_FLAGS := $(MODE_$(MODE))
# The fuzzed parsers know no kernels, and clang takes minutes for a kernel whose every access is instrumented.
ifeq ($(MODE),fuzz)
$(OUT)/lib/kernel/%.o: MODE_FLAGS := -O1 -g
endif

ISA_avx2 := -mavx2 -mfma -mf16c -mbmi2
ISA_avx512 := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx2 -mfma -mf16c -mbmi2 -mprefer-vector-width=512
ISA_avx512bf16 := $(ISA_avx512) -mavx512bf16
isa = $(ISA_$(lastword $(subst _, ,$(basename $(notdir $(1))))))

LIB_PKGS := libsodium libxxhash
LIB_LIBS = $(shell pkg-config --libs $(LIB_PKGS))
PKGS := libpcre2-8 libutf8proc jansson cairo zlib libedit $(LIB_PKGS)
PKG_CFLAGS = $(shell pkg-config --cflags $(PKGS))
PKG_LIBS   = $(shell pkg-config --libs $(PKGS))

# ------------------------------------------------------------------------------------------------ sources
# x86-64 has its own files; everywhere else the scalar ones work alone.
X86 := $(findstring x86_64,$(shell $(CC) -dumpmachine))
LIB_SRC := $(filter-out $(if $(X86),,%_avx2.c %_avx512.c %_avx512bf16.c),$(sort $(wildcard lib/*/*.c)))
APP_SRC := $(sort $(wildcard app/*/*.c))
TEST_SRC := $(sort $(wildcard tests/test_*.c tests/check_*.c))
FUZZ_SRC := $(sort $(wildcard tests/fuzz_*.c))
MAKER_SRC := $(sort $(wildcard tests/make_*.c))
TEST_LIB_SRC := $(filter-out $(TEST_SRC) $(FUZZ_SRC) $(MAKER_SRC),$(sort $(wildcard tests/*.c)))

LIB_OBJ := $(LIB_SRC:%.c=$(OUT)/%.o)
APP_OBJ := $(APP_SRC:%.c=$(OUT)/%.o)
APP_PARTS := $(filter-out $(OUT)/app/cli/main.o,$(APP_OBJ))
TEST_LIB_OBJ := $(TEST_LIB_SRC:%.c=$(OUT)/%.o)
TESTS := $(TEST_SRC:tests/%.c=$(OUT)/tests/%)
MAKERS := $(MAKER_SRC:tests/%.c=$(OUT)/tests/%)
FUZZERS := $(FUZZ_SRC:tests/%.c=$(OUT)/tests/%)
FUZZ_LIB_OBJ := $(OUT)/tests/gguf_writer.o $(OUT)/tests/spoken.o

# ------------------------------------------------------------------------------------------------ targets
.PHONY: all lib program examples tests deps deps-test model run test test-quick sim test-asan tests-asan test-tsan tests-tsan \
        fuzz fuzz-all valgrind bench-layout tidy man install uninstall clean help
SHELL := /bin/bash
.DEFAULT_GOAL := all
.SECONDARY:

all: lib program ## the library and the program, ./kvtile
lib: $(OUT)/libkvtile.a $(OUT)/libkvtile.so.$(SOVERSION)
program: $(OUT)/kvtile
ifeq ($(MODE),release)
program: kvtile
kvtile: $(OUT)/kvtile
	@cp -f $< $@
endif

$(OUT)/lib/%.o: lib/%.c
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CFLAGS) $(BASE) $(MODE_FLAGS) $(call isa,$<) -c $< -o $@
$(OUT)/app/%.o: app/%.c
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CFLAGS) $(BASE) $(MODE_FLAGS) -Iapp $(PKG_CFLAGS) -c $< -o $@
$(OUT)/app/command/manual.o: BASE += -DKVT_BUILD_DATE='"$(DATE)"'
$(OUT)/tests/%.o: tests/%.c
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CFLAGS) $(BASE) $(MODE_FLAGS) -Iapp -Itests $(PKG_CFLAGS) -c $< -o $@

$(OUT)/libkvtile.a: $(LIB_OBJ)
	@rm -f $@
	$(call say,AR)$(AR) rcs $@ $^
$(OUT)/libkvtile.so.$(SOVERSION): $(LIB_OBJ)
	$(call say,LINK)$(CC) $(CFLAGS) $(MODE_FLAGS) $(LDFLAGS) -shared -Wl,-soname,libkvtile.so.$(SOVERSION) $(if $(filter release,$(MODE)),-Wl$(comma)-z$(comma)defs) -o $@ $^ $(LIB_LIBS) -pthread
$(OUT)/kvtile: $(APP_OBJ) $(OUT)/libkvtile.a
	$(call say,LINK)$(CC) $(CFLAGS) $(MODE_FLAGS) $(LDFLAGS) -o $@ $^ $(PKG_LIBS) -pthread

# Each test is one program: its own file, what tests share, the parts of the program, the library.
$(OUT)/tests/test_%: $(OUT)/tests/test_%.o $(TEST_LIB_OBJ) $(APP_PARTS) $(OUT)/libkvtile.a
	$(call say,LINK)$(CC) $(CFLAGS) $(MODE_FLAGS) $(LDFLAGS) -o $@ $^ $(PKG_LIBS) -lcmocka -lm -pthread
$(OUT)/tests/check_%: $(OUT)/tests/check_%.o $(TEST_LIB_OBJ) $(APP_PARTS) $(OUT)/libkvtile.a
	$(call say,LINK)$(CC) $(CFLAGS) $(MODE_FLAGS) $(LDFLAGS) -o $@ $^ $(PKG_LIBS) -lcmocka -lm -pthread
# What shell tests begin with is made by programs that know the library alone.
$(OUT)/tests/make_%: $(OUT)/tests/make_%.o $(OUT)/libkvtile.a
	$(call say,LINK)$(CC) $(CFLAGS) $(MODE_FLAGS) $(LDFLAGS) -o $@ $^ $(LIB_LIBS) -pthread
$(OUT)/tests/fuzz_%: $(OUT)/tests/fuzz_%.o $(FUZZ_LIB_OBJ) $(APP_PARTS) $(OUT)/libkvtile.a
	$(call say,LINK)$(CC) $(CFLAGS) $(MODE_FLAGS) -fsanitize=fuzzer $(LDFLAGS) -o $@ $^ $(PKG_LIBS) -lm -pthread

# Examples are built the way a user would: the installed headers and the library, nothing else.
$(OUT)/examples/%: examples/%.c $(OUT)/libkvtile.a
	@mkdir -p $(@D)
	$(call say,LINK)$(CC) $(CFLAGS) -std=c11 $(WARN) -Iinclude $(MODE_FLAGS) -o $@ $< $(OUT)/libkvtile.a $(LIB_LIBS) -pthread
examples: $(patsubst %.c,$(OUT)/%,$(wildcard examples/*.c)) ## the example programs

deps: ## install what building and running needs (Debian packages)
	@sh scripts/deps.sh
deps-test:
	@sh scripts/deps.sh test
model: ## fetch the default model once (98 MB)
	@sh scripts/model.sh >/dev/null

# What a newcomer sees first: a real model through the paged cache, and what the cache did.
PROMPT ?= Why does a language model keep the keys and values of the tokens it has already read?
run: deps ## install what is missing, build, fetch the model, generate a text
	@$(MAKE) --no-print-directory -j$(JOBS) $(if $(MODEL),,model) program
	./kvtile run $(if $(MODEL),-m '$(MODEL)') --chat -p '$(PROMPT)' -n 160

test: deps-test ## the same set-up, then every test
	@$(MAKE) --no-print-directory model
	@$(MAKE) --no-print-directory -k -j$(JOBS) WERROR=1 all examples tests
	tests/run.sh tests/tidy.sh tests/install.sh $(sort $(wildcard tests/test_*.sh)) $(TESTS)
test-quick: all tests ## no set-up, no programs over ten seconds
	tests/run.sh tests/tidy.sh $(filter-out %/test_vectors %/test_engine %/test_shared,$(TESTS))

sim: $(OUT)/tests/test_reuse_sim ## SIM_OPS (1,000,000) random operations on a cache that shares, over tiers that fail
	SIM_OPS=$${SIM_OPS:-1000000} $<

# The sanitizers run on the tiny models where the real one would take minutes: KVTILE_QUICK leaves the real one out. With GCC:
# clang takes minutes for each kernel with all its accesses instrumented.
test-asan: deps-test ## every test under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(MAKE) --no-print-directory -j$(JOBS) MODE=asan CC=$(GCC) tests-asan
tests-asan: program tests examples
	KVTILE_QUICK=1 ASAN_OPTIONS=detect_stack_use_after_return=1 tests/run.sh $(TESTS) $(OUT)/examples/embed
	KVTILE=$(OUT)/kvtile MUTATIONS=300 tests/run.sh tests/test_badinput.sh
	KVTILE=$(OUT)/kvtile KVTILE_MODELS=/nowhere tests/run.sh tests/test_chat_cli.sh tests/test_perplexity.sh
	KVTILE=$(OUT)/kvtile MAKE_STORE=$(OUT)/tests/make_store tests/run.sh tests/test_store.sh
test-tsan: deps-test ## the threaded tests under ThreadSanitizer
	@$(MAKE) --no-print-directory -j$(JOBS) MODE=tsan CC=$(GCC) tests-tsan
THREADED := test_thread test_parallel test_attend test_nonfinite test_engine test_engine_reuse test_engine_tiers test_seq test_shared test_family test_generate test_tier \
            test_move test_move_faults
tests-tsan: $(THREADED:%=$(OUT)/tests/%)
	KVTILE_QUICK=1 TSAN_OPTIONS=halt_on_error=1 tests/run.sh $^

FUZZ_SECONDS ?= 60
fuzz: deps-test ## each parser under libFuzzer, FUZZ_SECONDS (60) each
	@$(MAKE) --no-print-directory -j$(JOBS) MODE=fuzz CC=$(CLANG) fuzz-all
fuzz-all: $(FUZZERS)
	@for f in $(FUZZERS); do \
	    seeds=tests/seeds/$$(basename $$f); corpus=build/corpus/$$(basename $$f); mkdir -p $$corpus; \
	    echo "$$f, $(FUZZ_SECONDS) s"; \
	    $$f -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 -verbosity=0 $$corpus $$([ -d $$seeds ] && echo $$seeds) 2>&1 | tail -n 12 | \
	        grep -E 'number_of_executed_units|ERROR|SUMMARY|Test unit' ; [ $${PIPESTATUS[0]} = 0 ] || exit 1; \
	done; echo "$(words $(FUZZERS)) passed, 0 failed"
valgrind: deps-test $(OUT)/examples/embed ## the example under valgrind
	KVTILE_CPU=avx2 valgrind --quiet --error-exitcode=1 --leak-check=full $(OUT)/examples/embed >/dev/null

# Attention over tiles beside attention over rows, bench/layout/README.md; LAYOUT='-o c -t' passes options.
LAYOUT ?=
LAYOUT_OBJ := $(patsubst %.c,$(OUT)/%.o,$(sort $(wildcard bench/layout/*.c)))
$(OUT)/bench/layout/%_avx512.o: MODE_FLAGS += -mavx512bf16
$(OUT)/bench/%.o: bench/%.c
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CFLAGS) $(BASE) $(MODE_FLAGS) $(call isa,$<) -c $< -o $@
$(OUT)/bench/layout/rowmajor: $(LAYOUT_OBJ) $(OUT)/libkvtile.a
	$(call say,LINK)$(CC) $(CFLAGS) $(MODE_FLAGS) $(LDFLAGS) -o $@ $^ $(LIB_LIBS) -pthread
bench-layout: $(OUT)/bench/layout/rowmajor ## tiles beside row-major keys and values (x86-64)
	$< $(LAYOUT)
-include $(LAYOUT_OBJ:.o=.d)

tidy: ## guard the doors of the house
	tests/tidy.sh

# The program writes its own manual pages and completions. Where CC builds for another machine, HOST_KVTILE is one that runs here.
HOST_KVTILE ?= $(OUT)/kvtile
SHARE := $(OUT)/share
MAN1 := share/man/man1
BASH_COMPLETION := share/bash-completion/completions/kvtile
ZSH_COMPLETION := share/zsh/site-functions/_kvtile
FISH_COMPLETION := share/fish/vendor_completions.d/kvtile.fish
man: $(SHARE)/written ## the manual pages, and completions for shells, below build/release/share
$(SHARE)/written: $(OUT)/kvtile
	@rm -rf $(SHARE)
	@install -d $(OUT)/$(MAN1) $(dir $(OUT)/$(BASH_COMPLETION) $(OUT)/$(ZSH_COMPLETION) $(OUT)/$(FISH_COMPLETION))
	$(call say,MAN)$(HOST_KVTILE) manual --write $(OUT)/$(MAN1)
	@$(HOST_KVTILE) completion bash >$(OUT)/$(BASH_COMPLETION)
	@$(HOST_KVTILE) completion zsh >$(OUT)/$(ZSH_COMPLETION)
	@$(HOST_KVTILE) completion fish >$(OUT)/$(FISH_COMPLETION)
	@touch $@

DESTDIR ?=
install: all man ## PREFIX (/usr/local) and DESTDIR as usual
	install -d $(addprefix $(DESTDIR)$(PREFIX)/,bin include lib/pkgconfig $(MAN1) \
	    $(dir $(BASH_COMPLETION) $(ZSH_COMPLETION) $(FISH_COMPLETION)))
	install -m 755 $(OUT)/kvtile $(DESTDIR)$(PREFIX)/bin/kvtile
	install -m 644 include/kvtile.h include/kvtile_ops.h $(DESTDIR)$(PREFIX)/include/
	install -m 644 $(OUT)/libkvtile.a $(DESTDIR)$(PREFIX)/lib/
	install -m 755 $(OUT)/libkvtile.so.$(SOVERSION) $(DESTDIR)$(PREFIX)/lib/
	ln -sf libkvtile.so.$(SOVERSION) $(DESTDIR)$(PREFIX)/lib/libkvtile.so
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' packaging/kvtile.pc.in >$(DESTDIR)$(PREFIX)/lib/pkgconfig/kvtile.pc
	install -m 644 $(OUT)/$(MAN1)/*.1 $(DESTDIR)$(PREFIX)/$(MAN1)/
	for file in $(BASH_COMPLETION) $(ZSH_COMPLETION) $(FISH_COMPLETION); do \
	    install -m 644 $(OUT)/$$file $(DESTDIR)$(PREFIX)/$$file || exit 1; done
uninstall: ## remove what install laid down
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/,bin/kvtile include/kvtile.h include/kvtile_ops.h lib/libkvtile.a \
	    lib/libkvtile.so.$(SOVERSION) lib/libkvtile.so lib/pkgconfig/kvtile.pc $(MAN1)/kvtile.1 $(BASH_COMPLETION) $(ZSH_COMPLETION) $(FISH_COMPLETION))
	rm -f $(DESTDIR)$(PREFIX)/$(MAN1)/kvtile-*.1

tests: $(TESTS) $(MAKERS)
clean: ## remove everything built
	rm -rf build kvtile
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

-include $(LIB_OBJ:.o=.d) $(APP_OBJ:.o=.d) $(TEST_SRC:%.c=$(OUT)/%.d) $(MAKER_SRC:%.c=$(OUT)/%.d) $(TEST_LIB_OBJ:.o=.d)
