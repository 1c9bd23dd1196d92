# mcp-tether: build, test, measure. `make help` lists the targets.

GO      ?= go
BIN     := bin/mcp-tether
PREFIX  ?= /usr/local
# A tree without tags is of the version that its changelog names first.
VERSION ?= $(shell git describe --tags --match 'v*' --dirty 2>/dev/null || sed -n 's/^\#\# \[\([0-9][^]]*\)\].*/v\1/p' CHANGELOG.md | head -n 1)
GOARCH  := $(shell $(GO) env GOARCH)
GOOS    := $(shell $(GO) env GOOS)
TAGS    := urfave_cli_no_docs
# Largest static stripped binary, in bytes: 6.75 MiB. It was 6 before wrap could rewrite configurations, 6.5 before
# run --share, and 6.625 before --lazy and the evidence for a nap.
BUDGET  := 7077888
# How long each fuzz target runs in check; longer by hand: make fuzz FUZZTIME=10m
FUZZTIME ?= 2s
# The rooms of the house; their tests need no built binary.
ROOMS   := cgroup supervise reap internal/cli internal/waiting internal/proc internal/evidence internal/mcp internal/mcp/mux internal/argv internal/engine internal/engine/keeper internal/session internal/relay internal/teardown internal/clients internal/display internal/live internal/front internal/share
UNITS   := . ./e2e/stage ./e2e/testkit ./scripts/demo ./scripts/soak $(addprefix ./,$(ROOMS))
SOURCES := *.go $(ROOMS) internal scripts e2e/*.go e2e/fixture
# A tool that is not there is passed over, but not in CI, which declares what it has.
missing  = echo "missing: $(1)" >&2; [ -z "$$MCP_TETHER_HAS" ]

# What --version tells beside the version; of the commit, so that two builds of it are the same.
COMMIT  ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null)
DATE    ?= $(shell git log -1 --format=%cs 2>/dev/null)
LDFLAGS := -s -w -X mcp-tether/internal/cli.version=$(VERSION) -X mcp-tether/internal/cli.commit=$(COMMIT) -X mcp-tether/internal/cli.date=$(DATE)

# The collector of Go 1.26 keeps its marks within the pages that it marks, so each kind of object takes one page more. That is
# a tenth of what a session weighs, and a session hardly ever collects. A Go that does not know the name builds without it.
without_marks := nogreenteagc
ifneq ($(shell GOEXPERIMENT=$(without_marks) $(GO) env GOVERSION 2>/dev/null),)
export GOEXPERIMENT ?= $(without_marks)
endif

# The binary enters before the Go runtime does: who waits has none (internal/waiting).
ifneq ($(filter linux/amd64 linux/arm64,$(GOOS)/$(GOARCH)),)
LDFLAGS += -E mcp-tether/internal/waiting.atExec
endif

# In a release, what is used for help texts, for flags, for the configurations of clients and for what people read is compiled without
# inlining, and so is reap, which waits for the kernel: 228 kB less, and starts differed no more than two runs of one binary do.
# Otherwise the binary and the tests share what is compiled.
COLD := text/template text/template/parse text/tabwriter regexp/syntax fmt github.com/urfave/cli/v2 \
	$(addprefix github.com/pelletier/go-toml/v2,/ /unstable /internal/tracker) \
	$(addprefix mcp-tether/internal/,cli clients live) mcp-tether/reap
cold := $(if $(RELEASE),$(patsubst %,-gcflags=%=-l,$(patsubst %/,%,$(COLD))))

.PHONY: help build test test-all proof check bench demo peers torture model soak install uninstall generate release lint race fuzz size

help:
	@echo "make build    $(BIN), static and stripped"
	@echo "make test     short tests, with nothing but Go and make; a minute and a half. Also: make test TESTS='^TestScenario'"
	@echo "make test-all all tests; they want root, container engines, npm packages and more, and say what is not there (.ci/run brings it)"
	@echo "make proof    what takes too long for each commit, in parts, as root: make proof PARTS='model fuzz'"
	@echo "make check    vet, lint, race detector, fuzz targets, binary size"
	@echo "make lint     the first part of check; also: make race, make size"
	@echo "make fuzz     each fuzz target for two seconds; longer: make fuzz FUZZTIME=5m"
	@echo "make bench    speed and memory against a bare run, as root"
	@echo "make demo     the main job on this machine: a gateway killed bare and tethered, and the memory of 100 idle sessions"
	@echo "make peers    what is left in eleven cases under mcp-tether and other wrappers, as far as they are installed"
	@echo "make torture  faults injected into sessions, as root; a sample: make torture TORTURE='-sample 2m'"
	@echo "make model    all kills and stops of a session's processes in a model (docs/model.md), with spin and a C compiler"
	@echo "make soak     sessions in random life for HOURS=2, counted (docs/soak.md)"
	@echo "make install  $(PREFIX)/bin/mcp-tether, with man pages and completions; make uninstall removes them"
	@echo "make release  binaries, .deb and npm packages of VERSION for two processors, in dist/"
	@echo "make generate man pages and docs/commands.md, after a change of flags"

# -buildvcs=false: in a checkout of another user git answers nothing, and go would not build. COMMIT and DATE are in LDFLAGS.
build:
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -tags $(TAGS) $(cold) -ldflags '$(LDFLAGS)' -o '$(BIN)' .

# A home that cannot be written to has no place for what is compiled. Nor is there one where HOME is not set.
ifneq ($(shell d=$$($(GO) env GOCACHE) && mkdir -p "$$d" 2>/dev/null && [ -w "$$d" ] && echo yes),yes)
export GOCACHE := $(CURDIR)/bin/cache
endif

# What the tests are made of is compiled as the binary is, or most of it would be compiled twice. TESTS='^TestScenario' runs only
# these. At the end is told how many were left out, and for want of what.
tests = export MCP_TETHER_SKIPS=$$(mktemp); CGO_ENABLED=0 $(GO) test -vet=off -trimpath -count=1 -tags $(TAGS) $(if $(value TESTS),-run '$(value TESTS)')
told = || code=$$?; sort "$$MCP_TETHER_SKIPS" | uniq -c | sed 's/^ */left out: /'; rm "$$MCP_TETHER_SKIPS"; exit $${code:-0}

test:
	@$(tests) -timeout 20m -short ./... $(told)

# What MCP_TETHER_HAS declares must be there, or the test that lacks it fails (e2e/testkit/need.go).
test-all:
	@$(tests) -timeout 20m ./... $(told)

# All that takes too long for each commit, in parts of at most 25 minutes; as root: make proof PARTS='model fuzz'
proof:
	@.ci/proof $(PARTS)

check: lint race fuzz size

lint:
	$(GO) vet -tags $(TAGS) ./...
	GOOS=darwin $(GO) vet -tags $(TAGS) .
	@odd=$$(gofmt -l $(SOURCES)); [ -z "$$odd" ] || { echo "gofmt -w these: $$odd" >&2; exit 1; }
	@if command -v golangci-lint >/dev/null; then golangci-lint run --allow-parallel-runners ./...; else $(call missing,golangci-lint); fi

race:
	@if command -v $(CC) >/dev/null; then GORACE=atexit_sleep_ms=0 CGO_ENABLED=1 $(GO) test -vet=off -trimpath -count=1 -race -short -parallel 2 -tags $(TAGS) -timeout 5m $(UNITS); \
	else $(call missing,a C compiler for the race detector); fi

# Every fuzz target of the unit packages, two side by side: make fuzz FUZZTIME=5m
fuzz:
	@CGO_ENABLED=0 GOFLAGS=-trimpath scripts/fuzz $(FUZZTIME) $(TAGS) $(UNITS)

size:
	@$(MAKE) -s --no-print-directory build RELEASE=1 BIN=$(BIN)-release
	@size=$$(stat -c %s $(BIN)-release); echo "$(BIN)-release: $$size bytes of at most $(BUDGET)"; [ $$size -le $(BUDGET) ]

bench: build
	$(GO) run ./scripts/bench -bin $(BIN)

# Faults injected into sessions, one to two hours; a sample: make torture TORTURE='-sample 2m -seed 7'
torture: build
	$(GO) build -o bin/torture ./scripts/torture
	bin/torture -bin $(BIN) $(TORTURE)

# Each state of the protocol's model, and mistakes planted there, each of which must be caught.
model:
	scripts/model/check

# Sessions in random life, counted: make soak HOURS=2 SOAK='-seed 7'
HOURS ?= 2
soak: build
	CGO_ENABLED=0 $(GO) build -o bin/soak-program ./scripts/soak
	bin/soak-program -bin $(BIN) -hours $(HOURS) $(SOAK)

# Says nothing of its own, for its lines are to fit a terminal.
demo:
	@$(MAKE) -s --no-print-directory build
	@$(GO) run ./scripts/demo $(BIN)

# DESTDIR goes in front of every path, for packages.
share = $(DESTDIR)$(PREFIX)/share

# Static, so that the program runs in a container as well: make peers PEERS='-only tini -cases detached'
peers: build
	@CGO_ENABLED=0 $(GO) run -tags $(TAGS) ./scripts/peers $(PEERS) $(BIN)

install: build
	install -d $(DESTDIR)$(PREFIX)/bin $(share)/man/man1 $(share)/bash-completion/completions $(share)/zsh/site-functions $(share)/fish/vendor_completions.d
	install -m 755 $(BIN) $(DESTDIR)$(PREFIX)/bin/mcp-tether
	install -m 644 scripts/packaging/man/*.1 $(share)/man/man1
	install -m 644 internal/cli/completions/mcp-tether.bash $(share)/bash-completion/completions/mcp-tether
	install -m 644 internal/cli/completions/_mcp-tether $(share)/zsh/site-functions/_mcp-tether
	install -m 644 internal/cli/completions/mcp-tether.fish $(share)/fish/vendor_completions.d/mcp-tether.fish

# Before the program goes, what still starts it is named, and on a terminal unwrapped after questions.
uninstall:
	@[ -n "$(DESTDIR)" ] || [ ! -x $(PREFIX)/bin/mcp-tether ] || PROGRAM=$(PREFIX)/bin/mcp-tether sh scripts/packaging/prerm remove
	rm -f $(DESTDIR)$(PREFIX)/bin/mcp-tether $(addprefix $(share)/man/man1/,$(notdir $(wildcard scripts/packaging/man/*.1)))
	rm -f $(share)/bash-completion/completions/mcp-tether $(share)/zsh/site-functions/_mcp-tether $(share)/fish/vendor_completions.d/mcp-tether.fish

generate:
	$(GO) test -tags $(TAGS) -run '^TestGenerated$$' ./internal/cli -update

# Needs a Debian system for the .deb and npm for the npm packages. KEY=FILE signs the checksums.
release:
	scripts/release $(VERSION) dist $(KEY)
