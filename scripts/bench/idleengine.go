package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// engineArg makes this program play an engine that does nothing: what is measured is the way to it.
const engineArg = "__engine"

func (b *bench) startIdleEngine() (host string, end func(), err error) {
	path := filepath.Join(b.dir, "engine.sock")
	l, err := b.start([]string{b.self, engineArg, path, strconv.Itoa(b.bulkMiB)}, pipes)
	if err != nil {
		return "", nil, err
	}
	end = func() { _ = l.end() }
	if _, err := l.firstByte(); err != nil {
		end()
		return "", nil, err
	}
	return "unix://" + path, end, nil
}

// playEngine listens at a path until its stdin ends. Its second argument is the size of what is moved, in MiB.
func playEngine(args []string) int {
	mib, _ := strconv.Atoi(args[1])
	l, err := net.Listen("unix", args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: engine:", err)
		return 1
	}
	fmt.Println("ready")
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	ways := engineBulks(mib)
	for {
		c, err := l.Accept()
		if err != nil {
			return 1
		}
		go serveIdly(c, ways)
	}
}

// serveIdly answers requests. Those with the number of a way get or send its bytes; one for an echo ends as a stream.
func serveIdly(c net.Conn, ways []engineBulk) {
	defer c.Close()
	in := bufio.NewReaderSize(c, bulkBlock)
	for {
		what, err := idleRequest(in)
		if err != nil {
			return
		}
		if i, err := strconv.Atoi(what); err == nil {
			err = ways[i].serve(c, in)
			if err != nil {
				return
			}
			continue
		}
		answer := engineAnswer
		if what == "echo" {
			answer = engineTurn
		}
		if _, err := io.WriteString(c, answer); err != nil {
			return
		}
		if what == "echo" {
			_, _ = io.Copy(c, struct{ io.Reader }{in})
		}
	}
}

// idleRequest reads a head, and returns what it says that the engine is to do.
func idleRequest(in *bufio.Reader) (what string, err error) {
	for {
		line, err := in.ReadString('\n')
		if err != nil || line == "\r\n" {
			return what, err
		}
		if value, ok := strings.CutPrefix(line, "X-Bench: "); ok {
			what = strings.TrimSpace(value)
		}
	}
}

// serve is the engine's side of it.
func (w engineBulk) serve(c net.Conn, in *bufio.Reader) error {
	if _, err := io.WriteString(c, w.answer); err != nil {
		return err
	}
	if w.out {
		return w.send(c)
	}
	if _, err := in.Discard(w.size()); err != nil {
		return err
	}
	_, err := io.WriteString(c, engineAnswer)
	return err
}
