# Mutirão. `make demo` shows it, `make test` tests it, `make help` lists the rest.
# One non-recursive Makefile: a new file in src/<module>/ or tests/<module>/ is found by itself.
SHELL := /bin/bash
.DEFAULT_GOAL := all
V ?= 0
Q := $(if $(filter 1,$(V)),,@)
BUILD ?= build
PREFIX ?= /usr/local
CFLAGS ?= -O2 -g
CC ?= cc
OMPI_CC := $(CC)
PKG := jansson libpcre2-8 libutf8proc hwloc libprotobuf-c
ARCH := $(shell uname -m)

# -ffp-contract=off and no -ffast-math: DESIGN section 1. tools/lint checks these flags.
STD := -std=c11 -D_GNU_SOURCE -ffp-contract=off -fno-math-errno -pthread
WARN := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla
INC := -Iinclude -I$(BUILD)/gen
ALL_CFLAGS = $(STD) $(WARN) $(INC) $(PKG_CFLAGS) $(CFLAGS)
PKG_CFLAGS := $(shell pkg-config --cflags $(PKG) 2>/dev/null)
PKG_LIBS := $(shell pkg-config --libs $(PKG) 2>/dev/null)
# MPI's include directory as a system one: its headers are not ours to warn about.
MPI_CFLAGS := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags-only-I ompi-c 2>/dev/null || mpicc -showme:compile 2>/dev/null))
MPI_LIBS := $(shell pkg-config --libs ompi-c 2>/dev/null || mpicc -showme:link 2>/dev/null)
BLAS_LIBS := $(shell pkg-config --libs openblas 2>/dev/null)
BLAS_CFLAGS := $(shell pkg-config --cflags openblas 2>/dev/null)
CYAML_LIBS := -lcyaml

# Instruction sets by directory. Least CPU: x86-64-v3 or aarch64; cmd and launcher check it before anything runs.
ifeq ($(ARCH),x86_64)
ISA_ref := -mavx2 -mfma -mf16c -mbmi2
ISA_avx2 := -mavx2 -mfma -mf16c -mbmi2
ISA_avx512 := -mavx2 -mfma -mf16c -mbmi2 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512
KERNEL_DIRS := ref avx2 avx512
# Sanitizers make the kernels' templates take minutes to compile: plain functions then (src/kernel/avx2/avx2.h).
ifneq (,$(findstring fsanitize,$(CFLAGS)))
ISA_avx2 += -DMT_KERNEL_COMPACT
ISA_avx512 += -DMT_KERNEL_COMPACT
endif
else
KERNEL_DIRS := ref neon
ISA_neondot := -march=armv8.2-a+dotprod
ifneq (,$(findstring fsanitize,$(CFLAGS)))
ISA_neon += -DMT_KERNEL_COMPACT
endif
endif

MODULES := base opt json tensor cpu comm wire shard format kernel journal reduce token chat sample kv constrain model engine
LIB_SRC := $(foreach m,$(MODULES),$(wildcard src/$(m)/*.c)) $(foreach d,$(KERNEL_DIRS),$(wildcard src/kernel/$(d)/*.c))
CMD_SRC := $(wildcard src/cmd/*.c)
LAUNCHER_SRC := $(wildcard src/launcher/*.c)
PROTO := $(wildcard src/wire/*.proto)
PROTO_C := $(PROTO:src/wire/%.proto=$(BUILD)/gen/%.pb-c.c)
PROTO_H := $(PROTO_C:.c=.h)
obj = $(patsubst src/%.c,$(BUILD)/obj/%.o,$(1))
LIB_OBJ := $(call obj,$(LIB_SRC)) $(PROTO_C:$(BUILD)/gen/%.c=$(BUILD)/obj/gen/%.o)
CMD_OBJ := $(call obj,$(CMD_SRC))
LAUNCHER_OBJ := $(call obj,$(LAUNCHER_SRC))
LIB := $(BUILD)/lib/libmutirao.a
TEST_SRC := $(wildcard tests/*/test_*.c)
TEST_BIN := $(TEST_SRC:%.c=$(BUILD)/%)
# Programs that test scripts use.
TOOL_BIN := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/*/tool_*.c))
FUZZ_SRC := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_BIN := $(FUZZ_SRC:tests/fuzz/%.c=$(BUILD)/fuzz/%)
# Programs that benchmarks use; not installed.
BENCH_BIN := $(patsubst bench/%.c,$(BUILD)/bench/%,$(wildcard bench/*.c))
LIBS = $(PKG_LIBS) $(MPI_LIBS) -lm
TEST_LIBS = -lcunit $(LIBS) $(BLAS_LIBS)
PROGRAMS := $(if $(CMD_SRC),$(BUILD)/bin/mutirao-rank) $(if $(LAUNCHER_SRC),$(BUILD)/bin/mutirao)

.PHONY: all
all: $(LIB) $(PROGRAMS) $(BENCH_BIN)

$(BUILD)/obj/comm/%.o: EXTRA = $(MPI_CFLAGS)
$(BUILD)/obj/kernel/ref/%.o: EXTRA = $(ISA_ref)
$(BUILD)/obj/kernel/pack.o $(BUILD)/obj/format/slice.o: EXTRA = $(ISA_ref)
$(BUILD)/obj/kernel/avx2/%.o: EXTRA = $(ISA_avx2)
$(BUILD)/obj/kernel/avx2/gemm_vnni.o: EXTRA = $(ISA_avx2) -mavxvnni
$(BUILD)/obj/kernel/avx512/%.o: EXTRA = $(ISA_avx512)
$(BUILD)/obj/kernel/avx512/gemm_vnni.o: EXTRA = $(ISA_avx512) -mavx512vnni
$(BUILD)/obj/kernel/neon/%.o: EXTRA = $(ISA_neon)
$(BUILD)/obj/kernel/neon/%_dot.o: EXTRA = $(ISA_neon) $(ISA_neondot)
$(BUILD)/obj/kernel/openblas.o: EXTRA = $(BLAS_CFLAGS)
$(BUILD)/obj/gen/%.o: WARN :=

$(BUILD)/obj/%.o: src/%.c | $(PROTO_H)
	@mkdir -p $(@D)
	@[ $(V) = 1 ] || echo "  CC    $<"
	$(Q)$(CC) $(ALL_CFLAGS) $(EXTRA) -MMD -MP -c $< -o $@
$(BUILD)/obj/gen/%.o: $(BUILD)/gen/%.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@
$(BUILD)/gen/%.pb-c.c $(BUILD)/gen/%.pb-c.h &: src/wire/%.proto
	@mkdir -p $(@D)
	$(Q)protoc-c --c_out=$(BUILD)/gen -Isrc/wire $<
.SECONDARY: $(PROTO_C) $(PROTO_H) # or make takes them for intermediate files and removes them
$(LIB): $(LIB_OBJ)
	@mkdir -p $(@D)
	$(Q)rm -f $@ && ar rcs $@ $^
$(BUILD)/bin/mutirao-rank: $(CMD_OBJ) $(LIB)
	@mkdir -p $(@D)
	@[ $(V) = 1 ] || echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) -pthread $(LDFLAGS) -o $@ $(CMD_OBJ) $(LIB) $(LIBS)
$(BUILD)/bin/mutirao: $(LAUNCHER_OBJ) $(LIB)
	@mkdir -p $(@D)
	@[ $(V) = 1 ] || echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) -pthread $(LDFLAGS) -o $@ $(LAUNCHER_OBJ) $(LIB) -ljansson -lprotobuf-c $(CYAML_LIBS)

$(BUILD)/tests/%: tests/%.c $(LIB) tests/mt_test.h $(TEST_DEPS)
	@mkdir -p $(@D)
	@[ $(V) = 1 ] || echo "  TEST  $<"
	$(Q)$(CC) $(ALL_CFLAGS) $(MPI_CFLAGS) $(BLAS_CFLAGS) -Itests $(LDFLAGS) -MMD -MP -o $@ $< $(LIB) $(TEST_LIBS)

$(BUILD)/bench/%: bench/%.c $(LIB)
	@mkdir -p $(@D)
	@[ $(V) = 1 ] || echo "  BENCH $<"
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -MMD -MP -o $@ $< $(LIB) $(LIBS)

# make bench measures what exact sums cost: the programs with plain f32 sums instead. Of the library's objects two are others.
PLAIN := $(BUILD)/plain-sums
PLAIN_OBJ := $(PLAIN)/forward.o $(PLAIN)/plan.o $(PLAIN)/plain_sums.o
$(PLAIN_OBJ): EXTRA = -DMT_PLAIN_SUMS -Isrc/model
$(PLAIN)/%.o: src/model/%.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(EXTRA) -MMD -MP -c $< -o $@
$(PLAIN)/%.o: bench/exactness/%.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(EXTRA) -MMD -MP -c $< -o $@
$(PLAIN)/mutirao-rank: $(CMD_OBJ) $(PLAIN_OBJ) $(LIB)
	@[ $(V) = 1 ] || echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) -pthread $(LDFLAGS) -o $@ $^ $(LIBS)
$(PLAIN)/mutirao: $(BUILD)/bin/mutirao $(PLAIN)/mutirao-rank
	$(Q)cp $< $@ # it starts the ranks' program beside it

# The AVX-512 kernels over an emulation (libsimde-dev), so that they are tested on any x86-64.
$(BUILD)/tests/kernel/test_simde_%: ALL_CFLAGS += $(ISA_avx2) -DMT_KERNEL_COMPACT -Isrc/kernel/avx512 -Isrc/kernel/avx2 -Itests/kernel -Wno-unused-function -Wno-psabi

# The kernels and their tests once more for aarch64, in a tree of its own, run by qemu (tests/run). tests/kernel/aarch64
# stands in for CUnit and OpenBLAS, which the cross compiler does not have. Part of the tests where it and qemu are there,
# and no sanitizers are asked for (AARCH64_CFLAGS may ask for them).
AARCH64_CC ?= aarch64-linux-gnu-gcc
AARCH64_CFLAGS ?= -O2 -g
AARCH64_DIR := $(BUILD)/aarch64
AARCH64_TESTS := $(patsubst %,$(AARCH64_DIR)/tests/kernel/test_%,isa gemm row attend pack limits)
AARCH64_DEPS := gcc-aarch64-linux-gnu:$(AARCH64_CC) qemu-user:qemu-aarch64 \
  libc6-dev-arm64-cross:/usr/aarch64-linux-gnu/include/stdio.h
ifeq ($(ARCH),x86_64)
CROSS_DEPS := $(AARCH64_DEPS)
ifeq (,$(findstring fsanitize,$(CFLAGS)))
CROSS_TESTS := $(shell $(AARCH64_CC) -E -include stdio.h -xc /dev/null >/dev/null 2>&1 && \
  command -v qemu-aarch64 >/dev/null && echo aarch64-tests)
endif
endif

.PHONY: aarch64-tests
aarch64-tests:
	+$(Q)$(MAKE) --no-print-directory $(if $(filter 1,$(V)),,-s) ARCH=aarch64 BUILD=$(AARCH64_DIR) CC=$(AARCH64_CC) \
	  CFLAGS="$(AARCH64_CFLAGS)" LDFLAGS= MODULES="base tensor kernel" PROTO= PKG_CFLAGS= MPI_CFLAGS= \
	  BLAS_CFLAGS=-Itests/kernel/aarch64 \
	  TEST_LIBS="-L$(AARCH64_DIR) -l:libopenblas.so.0 -Wl,-rpath,$(abspath $(AARCH64_DIR)) -lm" \
	  TEST_DEPS=$(AARCH64_DIR)/libopenblas.so.0 $(AARCH64_TESTS)
$(BUILD)/libopenblas.so.0: tests/kernel/aarch64/openblas.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -shared -fPIC -Wl,-soname,$(@F) $(BLAS_CFLAGS) -o $@ $<

.PHONY: tests
tests: $(TEST_BIN) $(TOOL_BIN) $(CROSS_TESTS) $(PLAIN)/mutirao

# Fuzzers: the library once more in a tree of its own, by clang, with sanitizers and coverage. A finding ends the run.
FUZZ_CC ?= clang
FUZZ_CFLAGS ?= -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all
.PHONY: fuzzers fuzz-lib
fuzzers: $(FUZZ_BIN)
fuzz-lib:
	+$(Q)$(MAKE) --no-print-directory BUILD=$(BUILD)/fuzz CC=$(FUZZ_CC) \
	  CFLAGS="$(FUZZ_CFLAGS) -fsanitize=fuzzer-no-link" $(BUILD)/fuzz/lib/libmutirao.a
$(FUZZ_BIN): $(BUILD)/fuzz/%: tests/fuzz/%.c fuzz-lib
	@mkdir -p $(@D)
	@[ $(V) = 1 ] || echo "  FUZZ  $<"
	$(Q)$(FUZZ_CC) $(STD) $(WARN) -Wno-missing-prototypes $(INC) $(PKG_CFLAGS) $(FUZZ_CFLAGS) -fsanitize=fuzzer \
	  -o $@ $< $(BUILD)/fuzz/lib/libmutirao.a -Wl,--as-needed $(LIBS)

# What people and CI call. Packages come first, and make starts anew after them: it asked pkg-config before.
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
AGAIN = +$(Q)$(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(JOBS))

.PHONY: deps
deps: ## install the Debian packages that are missing (asks first; tools/packages.txt lists them)
	$(Q)tools/deps

.PHONY: demo
demo: deps ## install, build, and generate text on 2 ranks with the model in the repository
	$(AGAIN) all
	$(Q)BUILD=$(BUILD) tools/demo.sh

.PHONY: model-smollm2
model-smollm2: ## fetch SmolLM2-135M-Instruct (98 MB, Apache-2.0) into models/smollm2-135m
	$(Q)tools/model_smollm2.sh

.PHONY: test
test: deps ## install, build, and run all tests (ONLY=NAME: those whose name contains it)
	$(Q)tools/deps --optional $(CROSS_DEPS)
	$(AGAIN) all tests
	$(Q)BUILD=$(BUILD) tests/run $(ONLY)

.PHONY: neon-test
neon-test: ## the kernel tests for aarch64 under qemu, with and without dot product; a part of make test
	$(Q)tools/deps --optional $(AARCH64_DEPS)
	$(AGAIN) aarch64-tests
	$(Q)BUILD=$(BUILD) tests/run kernel/aarch64

.PHONY: lint
lint: deps ## layers, compiler flags, libm in the numeric path, lengths and columns
	$(AGAIN) all
	$(Q)tools/lint/run $(BUILD)

.PHONY: format
format: ## rewrite the C files as .clang-format says
	$(Q)find src include tests bench -name '*.[ch]' -not -path 'tests/data/*' -not -name 'unicode_data.h' | xargs clang-format -i

# Sanitizers, each in a tree of its own; the unit tests and the fuzzers' corpus, no MPI jobs.
SANITIZE_CFLAGS := -O1 -g -fno-omit-frame-pointer -fno-sanitize-recover=all
.PHONY: asan ubsan tsan
asan: deps ## unit tests under AddressSanitizer (leaks too)
	$(AGAIN) BUILD=build-asan CFLAGS="$(SANITIZE_CFLAGS) -fsanitize=address" LDFLAGS=-fsanitize=address tests
	$(Q)LSAN_OPTIONS=suppressions=tests/leaks.supp BUILD=build-asan UNIT=1 tests/run $(ONLY)
ubsan: deps ## unit tests under UndefinedBehaviorSanitizer
	$(AGAIN) BUILD=build-ubsan CFLAGS="$(SANITIZE_CFLAGS) -fsanitize=undefined" LDFLAGS=-fsanitize=undefined tests
	$(Q)UBSAN_OPTIONS=print_stacktrace=1 BUILD=build-ubsan UNIT=1 tests/run $(ONLY)
tsan: deps ## unit tests under ThreadSanitizer
	$(AGAIN) BUILD=build-tsan CFLAGS="$(SANITIZE_CFLAGS) -fsanitize=thread" LDFLAGS=-fsanitize=thread tests
	$(Q)TSAN_OPTIONS=suppressions=$(CURDIR)/tests/locks.supp DEADLINE=1500 BUILD=build-tsan UNIT=1 tests/run $(ONLY)

SECONDS_EACH ?= 60
.PHONY: fuzz
fuzz: ## run every fuzzer for SECONDS_EACH=60 (needs clang); what they find stays in tests/fuzz/corpus
	$(Q)tools/deps clang:$(FUZZ_CC)
	$(AGAIN) fuzzers
	$(Q)BUILD=$(BUILD) SECONDS_EACH=$(SECONDS_EACH) tools/fuzz.sh $(ONLY)

.PHONY: bench bench-check
bench: deps ## measure here, and against installed peers; writes docs/benchmarks (QUICK=1: minutes)
	$(AGAIN) all $(PLAIN)/mutirao
	$(Q)BUILD=$(BUILD) QUICK=$(QUICK) bench/run
bench-check: deps ## measure the quick set and compare its ratios with the last report
	$(AGAIN) all
	$(Q)BUILD=$(BUILD) CHECK=1 bench/run
.PHONY: bench-exactness
bench-exactness: deps ## what exact sums cost, against a build with plain f32 sums (15 minutes)
	$(AGAIN) all $(PLAIN)/mutirao
	$(Q)BUILD=$(BUILD) ONLY=exactness PRINT=1 bench/run

.PHONY: install
install: all ## to DESTDIR/PREFIX (/usr/local): programs, the models of the repository, man page
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/mutirao/models $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 755 $(BUILD)/bin/mutirao $(BUILD)/bin/mutirao-rank $(DESTDIR)$(PREFIX)/bin
	cp -R models/mirim models/mirim-draft $(DESTDIR)$(PREFIX)/share/mutirao/models
	tools/man.sh $(BUILD)/bin/mutirao > $(DESTDIR)$(PREFIX)/share/man/man1/mutirao.1

.PHONY: help
help: ## list these
	@echo "make                 build the programs into build/bin"
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' Makefile
	@echo "Variables: V=1 (show commands), CC, CFLAGS, LDFLAGS, BUILD, JOBS, PREFIX, DESTDIR"

.PHONY: clean
clean: ## remove what was built
	rm -rf $(BUILD) build-asan build-ubsan build-tsan

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
