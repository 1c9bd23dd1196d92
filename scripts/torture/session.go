//go:build amd64

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// greet tells the sandbox that a process has come up.
func greet(name string) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	_ = unix.Sendto(fd, []byte(name+" "+strconv.Itoa(os.Getpid())), 0, &unix.SockaddrUnix{Name: helloSocket})
	unix.Close(fd)
}

// gatewayRole stands in for a gateway: __gateway COMMAND... It does what the lines on its standard input say, and never
// ends by itself.
func gatewayRole(args []string) {
	var in, out [2]int
	must(unix.Pipe2(in[:], unix.O_CLOEXEC))
	must(unix.Pipe2(out[:], unix.O_CLOEXEC))
	child, err := syscall.ForkExec("/proc/self/exe", append([]string{"torture", "__launch"}, args...), &syscall.ProcAttr{
		Env: environment(modeOf()), Files: []uintptr{uintptr(in[0]), uintptr(out[1]), 2},
	})
	must(err)
	unix.Close(in[0])
	unix.Close(out[1])
	go func() { _, _ = syscall.Wait4(child, nil, 0, nil) }()
	go discard(out[0])
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		switch lines.Text() {
		case "handshake":
			writeLine(in[1], `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"torture","version":"1"}}}`)
			writeLine(in[1], `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		case "wake":
			writeLine(in[1], `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"wake"}}`)
		case "close":
			unix.Close(in[1])
		}
	}
	pause()
}

// modeVariable tells the roles of a sandbox which mode theirs is.
const modeVariable = "TORTURE_MODE"

func modeOf() mode { return modes()[os.Getenv(modeVariable)] }

func writeLine(fd int, line string) { _, _ = unix.Write(fd, []byte(line+"\n")) }

func discard(fd int) {
	b := make([]byte, 4096)
	for {
		n, err := unix.Read(fd, b)
		if n == 0 || err != nil && err != unix.EINTR {
			return
		}
	}
}

// launchRole waits until the tracer has it, and executes the command: __launch COMMAND...
func launchRole(args []string) {
	greet("launch")
	fd, err := unix.Open(goFIFO, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(err)
	for {
		n, err := unix.Read(fd, make([]byte, 1))
		if n == 1 {
			break
		}
		if err != unix.EINTR {
			must(fmt.Errorf("wait for the tracer: %w", err))
		}
	}
	must(syscall.Exec(args[0], args, os.Environ()))
}

// serverRole is an MCP server with helpers: __server polite|deaf.
func serverRole(args []string) {
	if args[0] == "deaf" {
		signal.Ignore(syscall.SIGTERM)
	}
	if os.Getenv("DOCKER_HOST") != "" {
		createContainer()
	}
	for _, name := range helpers() {
		attr := &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 2, 2}, Sys: &syscall.SysProcAttr{}}
		words := []string{"torture", "__helper", name}
		switch name {
		case "detached":
			words, attr.Sys.Setsid = []string{"torture", "__helper", "fork"}, true
		case "cleared":
			attr.Env = nil
		}
		_, err := syscall.ForkExec("/proc/self/exe", words, attr)
		must(err)
	}
	greet("server")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		answer(lines.Bytes())
	}
	if args[0] == "deaf" {
		pause()
	}
}

func answer(line []byte) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.Unmarshal(line, &m) != nil || m.ID == nil {
		return
	}
	result := "{}"
	if m.Method == "initialize" {
		result = `{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"torture","version":"1"}}`
	}
	writeLine(1, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result))
}

// createContainer asks the engine that the environment names, as an SDK would; without an answer the server goes on.
func createContainer() {
	path := strings.TrimPrefix(os.Getenv("DOCKER_HOST"), "unix://")
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	if r, err := client.Post("http://engine/v1.41/containers/create", "application/json", strings.NewReader(`{"Image":"i"}`)); err == nil {
		_ = r.Body.Close()
	}
}

// helperRole is a process that the server has started, and that does not end by itself: __helper NAME.
func helperRole(args []string) {
	switch args[0] {
	case "fork":
		_, err := syscall.ForkExec("/proc/self/exe", []string{"torture", "__helper", "detached"}, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 2, 2}})
		must(err)
		return
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
	}
	greet(args[0])
	pause()
}

// pause waits for a signal that ends the process.
func pause() {
	for {
		_ = unix.Pause()
	}
}

// timerRole ends after a time: __timer DURATION.
func timerRole(args []string) {
	d, err := time.ParseDuration(args[0])
	must(err)
	time.Sleep(d)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", os.Args[1], err)
		os.Exit(1)
	}
}
