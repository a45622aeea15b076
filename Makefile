# sandgate: `make demo` shows it, `make test` proves it. Both install what is
# missing first. `make` alone lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Where go.dev's instructions put Go, and the switch of toolchains that some
# distributions turn off.
export PATH := $(PATH):/usr/local/go/bin
export GOTOOLCHAIN ?= auto

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
PREFIX  ?= /usr/local
DESTDIR ?=
FUZZTIME ?= 10s
INIT := confine/initbin/bin/sandgate-init

##@ The two commands
.PHONY: demo test
demo: bootstrap build ## Show a session: a supervisor, an agent's calls, your answers, the log
	@scripts/demo

test: bootstrap init tidy-check ## Run every check that a change must pass
	@go vet ./...
	@scripts/test

##@ Building
.PHONY: build init install clean
build: init ## Build bin/sandgate with its sandbox init embedded
	@go build -trimpath -ldflags "-X main.version=$(VERSION)" -o bin/sandgate ./cmd/sandgate

# Always handed to go, whose own cache knows best whether anything changed.
init: ## Build the program that runs as process 1 of every sandbox
	@CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w" -o $(INIT) ./cmd/sandgate-init && cp confine/initbin/built.go.txt confine/initbin/built.go

install: build ## Install below PREFIX (/usr/local), with shell completions; DESTDIR is honoured
	@scripts/install "$(DESTDIR)$(PREFIX)"

clean: ## Remove what was built
	@rm -rf bin dist $(INIT) confine/initbin/built.go

##@ Checking more
.PHONY: lint race fuzz nightly flaky attacks golden bench cross static kernels page types bootstrap tidy-check
lint: init ## gofmt, go vet and staticcheck
	@scripts/lint

race: bootstrap init ## Run the tests under the race detector
	@go test -race ./...

fuzz: bootstrap init ## Fuzz every parser for FUZZTIME (10s) each
	@scripts/fuzz $(FUZZTIME)

nightly: bootstrap init ## Run a million generated command lines through bash and dash, 5,000 plants, kills, swaps and bombs
	@go test -timeout 0 -run '^TestShellsRunNothingElse$$' -v ./tools/shell -args -lines 1000000 -seed $$RANDOM
	@go test -timeout 0 -run '^TestGeneratedPlantsDoNotRun$$' -v ./confine/linux -args -plants 5000
	@go test -timeout 0 -run '^TestKilledAtAnyMoment$$' -v ./supervisor/changes -args -kills 2000
	@SANDGATE_TRIES=200 scripts/page '^(TestSwapsOn|TestPageAndTwoApprovers$$)'
	@go test -run '^$$' -bench MemoryHeld -benchtime=3x ./confine/linux

flaky: bootstrap init ## Run all tests 20 times, half of them beside busy loops and a second run; hours
	@scripts/flaky

attacks: bootstrap init ## Exchange names while the broker checks them; compare a million path calls with the kernel; nightly
	@go test -timeout 0 -run '^(TestNothingOutsideChangesWhileNamesFlip|TestOthersGoOnInAFlood)$$' -v ./confine/linux -args -flip-each 60s
	@go test -timeout 0 -run '^TestPathCallsAreTheKernels$$' -v ./confine/linux -args -pathcalls 200000
	@bash -c 'me=attacks; . scripts/common.d/packages.sh; install_packages libpython$$(/usr/bin/python3 -c "import sys; print(\"%d.%d\" % sys.version_info[:2])")-testsuite'
	@go test -timeout 0 -run '^TestSuitesOfOthers$$' -v ./confine/linux -args -suites

golden: init ## Rewrite the golden files and scripts' expected outputs; read the diff
	@scripts/golden

bench: bootstrap build ## Measure against bare exec and bare bubblewrap, and run the benchmarks
	@scripts/bench

cross: bootstrap ## Build for linux/arm64 with cgo, and start the result in an emulator
	@scripts/cross --run

static: bootstrap ## Build without a C compiler, as go install does, and test every claim with that build
	@scripts/static --claims

kernels: bootstrap init ## Run tests on kernels that this machine does not have, in qemu
	@scripts/vm

kernels-arm: bootstrap init ## Run the claims on Debian's arm64 kernel, emulated; nightly
	@scripts/vm --arch arm64

containers: bootstrap init ## Run the claims in real containers of Docker and podman; needs root, nightly
	@scripts/containers

page: bootstrap init ## Test the web page in real browsers, and the terminal in tmux; installs both
	@scripts/page

types: ## Check the TypeScript client's types with tsc --strict and against the Claude Agent SDK
	@scripts/types

bootstrap: ## Install missing packages (Debian, Ubuntu)
	@scripts/bootstrap

tidy-check: # go.mod and go.sum say exactly what the code imports
	@diff=$$(go mod tidy -diff 2>&1) || { printf '%s\ngo.mod or go.sum is not tidy: run go mod tidy\n' "$$diff" >&2; exit 1; }

##@ Help
.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
