package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
)

// gatewayArg makes this program play the gateway that is to be killed.
const gatewayArg = "__gateway"

// startsAtOnce is how many servers are started before the first of them must have answered. A session that starts has many times
// the threads of one that sleeps.
const startsAtOnce = 100

// gateway starts as many servers as its first argument says, with the rest as their command, and greets them. It says so
// when each has said something, and holds on to their pipes until it is killed.
func gateway(args []string) int {
	if err := hold(args); err != nil {
		fmt.Fprintln(os.Stderr, "bench: gateway:", err)
		return 1
	}
	return 0
}

func hold(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return fmt.Errorf("read how many: %w", err)
	}
	all := make([]held, 0, n)
	defer runtime.KeepAlive(&all) // their pipes stay open
	for len(all) < n {
		from := len(all)
		for range min(n-from, startsAtOnce) {
			s, err := startHeld(args[1:])
			if err != nil {
				return err
			}
			all = append(all, s)
		}
		for _, s := range all[from:] {
			if err := s.begin(); err != nil {
				return err
			}
		}
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}

// held is a server as its gateway sees it.
type held struct {
	in  io.Writer
	out *bufio.Reader
}

// startHeld starts a server and greets it.
func startHeld(argv []string) (held, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		return held{}, fmt.Errorf("make pipes: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return held{}, fmt.Errorf("start %s: %w", argv[0], err)
	}
	if _, err := io.WriteString(in, hello); err != nil {
		return held{}, fmt.Errorf("greet a server: %w", err)
	}
	return held{in, bufio.NewReaderSize(out, 512)}, nil
}

// begin waits for the answer to the greeting.
func (s held) begin() error {
	if _, err := s.out.ReadString('\n'); err != nil {
		return fmt.Errorf("read from a server: %w", err)
	}
	if _, err := io.WriteString(s.in, initialized); err != nil {
		return fmt.Errorf("write to a server: %w", err)
	}
	return nil
}
