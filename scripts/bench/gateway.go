package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"
)

// gatewayArg makes this program play the gateway that is to be killed.
const gatewayArg = "__gateway"

// lifelineFD is where the gateway, and so everything it starts, finds the inherited lifeline.
const lifelineFD = 3

// gateway starts as many servers as its first argument says, with the rest as their command, and greets them. It says so
// when each has said something, and holds on to their pipes until it is killed. On demand it wakes those that sleep.
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
	lifeline := os.NewFile(lifelineFD, "lifeline")
	all := make([]held, 0, n)
	defer runtime.KeepAlive(&all) // their pipes stay open
	for len(all) < n {
		from := len(all)
		for range min(n-from, startsAtOnce) {
			s, err := startHeld(args[1:], lifeline)
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
	lifeline.Close()
	fmt.Println("ready")
	return wakeOnDemand(all)
}

// startsAtOnce is how many servers are started before the first of them must have answered. A session that starts has many times
// the threads of one that sleeps.
const startsAtOnce = 100

// wakeOnDemand reads numbers, calls so many of the servers one after the other, and prints how long each answer took, in ms.
func wakeOnDemand(all []held) error {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			return fmt.Errorf("read how many to wake: %w", err)
		}
		var took []float64
		for _, s := range all[:n] {
			from := time.Now()
			if _, err := io.WriteString(s.in, toolCall); err != nil {
				return fmt.Errorf("write to a server: %w", err)
			}
			if _, err := s.out.ReadString('\n'); err != nil {
				return fmt.Errorf("read from a server: %w", err)
			}
			took = append(took, ms(time.Since(from)))
		}
		if err := json.NewEncoder(os.Stdout).Encode(took); err != nil {
			return fmt.Errorf("tell how long it took: %w", err)
		}
	}
	select {}
}

// held is a server as its gateway sees it.
type held struct {
	in  io.Writer
	out *bufio.Reader
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

// startHeld starts a server and greets it.
func startHeld(argv []string, lifeline *os.File) (held, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{lifeline}
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
