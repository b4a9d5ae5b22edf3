# kvtile: `make run` and `make test` are all a newcomer needs; `make help` lists the rest.
#
# MODE chooses what is built, each in its own folder: release (default), asan, tsan, fuzz.
#   make MODE=asan CC=clang
# Compiler flags follow the file name: NAME_avx2.c and NAME_avx512.c get their instruction set, nothing else does.

MODE   ?= release
PREFIX ?= /usr/local
CC     ?= cc
CLANG  ?= clang
PYTHON ?= python3
MODEL  ?=

VERSION := 0.1.0
SOVERSION := 0
OUT := build/$(MODE)

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

ISA_avx2 := -mavx2 -mfma -mf16c -mbmi2
ISA_avx512 := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx2 -mfma -mf16c -mbmi2 -mprefer-vector-width=512
isa = $(ISA_$(lastword $(subst _, ,$(basename $(notdir $(1))))))

PKGS := libpcre2-8 jansson
PKG_CFLAGS = $(shell pkg-config --cflags $(PKGS))
PKG_LIBS   = $(shell pkg-config --libs $(PKGS))

# ------------------------------------------------------------------------------------------------ sources
LIB_SRC := $(sort $(wildcard lib/*/*.c))
APP_SRC := $(sort $(wildcard app/*/*.c))
TEST_SRC := $(sort $(wildcard tests/test_*.c tests/check_*.c))
FUZZ_SRC := $(sort $(wildcard tests/fuzz_*.c))
TEST_LIB_SRC := $(filter-out $(TEST_SRC) $(FUZZ_SRC),$(sort $(wildcard tests/*.c)))

LIB_OBJ := $(LIB_SRC:%.c=$(OUT)/%.o)
APP_OBJ := $(APP_SRC:%.c=$(OUT)/%.o)
APP_PARTS := $(filter-out $(OUT)/app/cli/main.o,$(APP_OBJ))
TEST_LIB_OBJ := $(TEST_LIB_SRC:%.c=$(OUT)/%.o)
TESTS := $(TEST_SRC:tests/%.c=$(OUT)/tests/%)
FUZZERS := $(FUZZ_SRC:tests/%.c=$(OUT)/tests/%)

# ------------------------------------------------------------------------------------------------ targets
.PHONY: all lib program tests deps model run test test-asan test-tsan test-quick fuzz tidy valgrind bench peers install uninstall clean help
.DEFAULT_GOAL := all
.SECONDARY:

all: lib program ## the library and the program, ./kvtile
lib: $(OUT)/libkvtile.a $(OUT)/libkvtile.so.$(SOVERSION) $(OUT)/kvtile.pc
program: $(OUT)/kvtile
ifeq ($(MODE),release)
program: kvtile
kvtile: $(OUT)/kvtile
	cp $< $@
endif

$(OUT)/lib/%.o: lib/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(BASE) $(MODE_FLAGS) $(call isa,$<) -c $< -o $@
$(OUT)/app/%.o: app/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(BASE) $(MODE_FLAGS) -Iapp $(PKG_CFLAGS) -c $< -o $@
$(OUT)/tests/%.o: tests/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(BASE) $(MODE_FLAGS) -Iapp -Itests $(PKG_CFLAGS) -c $< -o $@

$(OUT)/libkvtile.a: $(LIB_OBJ)
	rm -f $@
	$(AR) rcs $@ $^
$(OUT)/libkvtile.so.$(SOVERSION): $(LIB_OBJ)
	$(CC) $(CFLAGS) $(MODE_FLAGS) $(LDFLAGS) -shared -Wl,-soname,libkvtile.so.$(SOVERSION) $(if $(filter release,$(MODE)),-Wl$(comma)-z$(comma)defs) -o $@ $^ -pthread
$(OUT)/kvtile.pc: packaging/kvtile.pc.in
	@mkdir -p $(@D)
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' $< > $@
$(OUT)/kvtile: $(APP_OBJ) $(OUT)/libkvtile.a
	$(CC) $(CFLAGS) $(MODE_FLAGS) $(LDFLAGS) -o $@ $^ $(PKG_LIBS) -pthread
comma := ,

# Each test is one program: its own file, what tests share, the parts of the program, the library.
$(OUT)/tests/test_%: $(OUT)/tests/test_%.o $(TEST_LIB_OBJ) $(APP_PARTS) $(OUT)/libkvtile.a
	$(CC) $(CFLAGS) $(MODE_FLAGS) $(LDFLAGS) -o $@ $^ $(PKG_LIBS) -lcmocka -lm -pthread
$(OUT)/tests/check_%: $(OUT)/tests/check_%.o $(TEST_LIB_OBJ) $(APP_PARTS) $(OUT)/libkvtile.a
	$(CC) $(CFLAGS) $(MODE_FLAGS) $(LDFLAGS) -o $@ $^ $(PKG_LIBS) -lcmocka -lm -pthread
$(OUT)/tests/fuzz_%: $(OUT)/tests/fuzz_%.o $(APP_PARTS) $(OUT)/libkvtile.a
	$(CC) $(CFLAGS) $(MODE_FLAGS) -fsanitize=fuzzer $(LDFLAGS) -o $@ $^ $(PKG_LIBS) -lm -pthread

tests: $(TESTS)
clean:
	rm -rf build kvtile

-include $(LIB_OBJ:.o=.d) $(APP_OBJ:.o=.d) $(TEST_SRC:%.c=$(OUT)/%.d) $(TEST_LIB_OBJ:.o=.d)
