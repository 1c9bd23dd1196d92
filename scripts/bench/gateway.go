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

// lifelineFD is where the gateway, and so everything it starts, finds the inherited lifeline.
const lifelineFD = 3

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
	lifeline := os.NewFile(lifelineFD, "lifeline")
	all := make([]held, n)
	defer runtime.KeepAlive(all) // their pipes stay open
	for i := range all {
		if all[i], err = startHeld(args[1:], lifeline); err != nil {
			return err
		}
	}
	lifeline.Close()
	for _, s := range all {
		if _, err := bufio.NewReaderSize(s.out, 512).ReadString('\n'); err != nil {
			return fmt.Errorf("read from a server: %w", err)
		}
		if _, err := io.WriteString(s.in, initialized); err != nil {
			return fmt.Errorf("write to a server: %w", err)
		}
	}
	fmt.Println("ready")
	select {}
}

// held is a server as its gateway sees it.
type held struct {
	in  io.Writer
	out io.Reader
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
	return held{in, out}, nil
}
