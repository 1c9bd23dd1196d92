package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
)

// gatewayArg makes this program play the gateway that is to be killed.
const gatewayArg = "__gateway"

// lifelineFD is where the gateway, and so everything it starts, finds the inherited lifeline.
const lifelineFD = 3

// gateway starts argv with pipes, passes on that its server is ready, and holds on to the pipes until it is killed.
func gateway(argv []string) int {
	if err := hold(argv); err != nil {
		fmt.Fprintln(os.Stderr, "bench: gateway:", err)
		return 1
	}
	return 0
}

func hold(argv []string) error {
	lifeline := os.NewFile(lifelineFD, "lifeline")
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{lifeline}
	in, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("make stdin: %w", err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("make stdout: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", argv[0], err)
	}
	lifeline.Close()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		fmt.Println(lines.Text())
	}
	return cmd.Wait()
}
