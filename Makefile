# mcp-tether: build, test, measure. `make help` lists the targets.

GO      ?= go
BIN     := bin/mcp-tether
PREFIX  ?= /usr/local
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
GOARCH  := $(shell $(GO) env GOARCH)
GOOS    := $(shell $(GO) env GOOS)
TAGS    := urfave_cli_no_docs
# Largest static stripped binary, in bytes.
BUDGET  := 6291456

LDFLAGS := -s -w -X main.version=$(VERSION)
# The binary enters before the Go runtime does, to record what the runtime changes (proc/atexec.go).
ifneq ($(filter linux/amd64 linux/arm64,$(GOOS)/$(GOARCH)),)
LDFLAGS += -E mcp-tether/proc.atExec
endif

.PHONY: help build test check bench demo install lint fuzz size

help:
	@echo "make build    $(BIN), static and stripped"
	@echo "make test     all tests (some need root, Chromium or npm packages, and say so when they skip)"
	@echo "make check    vet, lint, race detector, fuzz targets, binary size"
	@echo "make bench    speed and memory against a bare run in the same session"
	@echo "make demo     the main job on this machine: a gateway killed bare and tethered"
	@echo "make install  $(PREFIX)/bin/mcp-tether"

build:
	CGO_ENABLED=0 $(GO) build -trimpath -tags $(TAGS) -ldflags '$(LDFLAGS)' -o $(BIN) .
