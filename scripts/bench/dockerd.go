package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

var errEngineRefuses = errors.New("the engine refuses")

// engineReal adds rows for dockerd itself, where one can be started: a small request, and a file to and from a container.
func (b *bench) engineReal(t *table) error {
	e, err := startEngine(b.dir)
	if err != nil {
		t.missing("mcp-tether", "dockerd (as root, with docker.io)")
		return nil // the row says so
	}
	defer e.stop()
	if err := e.makeImage(b.dir); err != nil {
		return err
	}
	id, err := e.create()
	if err != nil {
		return err
	}
	defer func() { _ = e.do(http.MethodDelete, "/containers/"+id+"?force=1", nil, nil) }()
	ways := []engineWay{
		{"dockerd, request µs", max(b.rounds/5, 1), b.wayTo(e.host, pingTrips)},
		{"dockerd, file to a container MB/s", max(b.rounds/20, 1), b.wayTo(e.host, b.fileIn(id))},
		{"dockerd, file from a container MB/s", max(b.rounds/20, 1), b.wayTo(e.host, b.fileOut(id))},
	}
	return b.engineRows(t, ways, "all cores")
}

// create creates a container, which is not started.
func (e *testEngine) create() (string, error) {
	resp, err := e.client.Post("http://engine/v1.40/containers/create", "application/json", strings.NewReader(`{"Image":"`+boxImage+`"}`))
	if err != nil {
		return "", fmt.Errorf("create a container: %w", err)
	}
	defer resp.Body.Close()
	var made struct{ ID string }
	if err := json.NewDecoder(resp.Body).Decode(&made); err != nil || made.ID == "" {
		return "", fmt.Errorf("create a container: %w: %s", errors.Join(err, errEngineRefuses), resp.Status)
	}
	return made.ID, nil
}

// pingTrips is the median of GET /_ping, whose answers are equally long.
func pingTrips(c int) (float64, error) {
	const request = "GET /_ping HTTP/1.1\r\nHost: docker\r\n\r\n"
	if err := writeAll(c, []byte(request)); err != nil {
		return 0, err
	}
	n, err := readSome(c, make([]byte, bulkBlock))
	if err != nil {
		return 0, err
	}
	return medianTrip(c, request, n)
}

// fileIn is the rate of a file to a container, as docker cp sends it.
func (b *bench) fileIn(id string) func(c int) (float64, error) {
	return func(c int) (float64, error) {
		var head bytes.Buffer
		if err := tar.NewWriter(&head).WriteHeader(&tar.Header{Name: "big", Mode: 0o644, Size: int64(b.bulkMiB) << 20}); err != nil {
			return 0, fmt.Errorf("pack a file: %w", err)
		}
		y := engineBodyOf(chunkedBody)
		from := time.Now()
		err := writeAll(c, fmt.Appendf(nil, "PUT /v1.40/containers/%s/archive?path=/ HTTP/1.1\r\nHost: docker\r\n%s\r\n\r\n%x\r\n%s\r\n",
			id, y.field(0), head.Len(), head.Bytes()))
		if err == nil {
			err = y.write(y.blocks(b.bulkMiB), func(p []byte) error { return writeAll(c, p) })
		}
		if err != nil {
			return 0, err
		}
		return b.rateOf(c, from)
	}
}

// rateOf is the rate since from, once an answer says that all went well.
func (b *bench) rateOf(c int, from time.Time) (float64, error) {
	status := make([]byte, len("HTTP/1.1 200"))
	if err := readFull(c, status); err != nil {
		return 0, err
	}
	if !bytes.HasSuffix(status, []byte("200")) {
		return 0, fmt.Errorf("%w: %s", errEngineRefuses, status)
	}
	return b.rate(time.Since(from)), nil
}

// fileOut is the rate of that file from the container.
func (b *bench) fileOut(id string) func(c int) (float64, error) {
	return func(c int) (float64, error) {
		from := time.Now()
		if err := writeAll(c, []byte("GET /v1.40/containers/"+id+"/archive?path=/big HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n\r\n")); err != nil {
			return 0, err
		}
		block, all := make([]byte, bulkBlock), 0
		for {
			n, err := readSome(c, block)
			if err != nil {
				return 0, err
			}
			if all += n; n > 0 {
				continue
			}
			if all < b.bulkMiB<<20 {
				return 0, fmt.Errorf("%w: %d bytes of a file", errEngineRefuses, all)
			}
			return b.rate(time.Since(from)), nil
		}
	}
}
