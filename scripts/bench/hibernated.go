package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// hibernatedArg makes this program play a gateway with many MCP servers.
const hibernatedArg = "__hibernated"

// hibernatedServer answers every request.
const hibernatedServer = `while read -r line; do case $line in *'"id":'*) id=${line#*'"id":'}; id=${id%%[,\}]*}
printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"sh","version":"0"}}}\n' "$id";; esac; done`

const (
	hibernatedHello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"0"}}}` + "\n"
	hibernatedReady = `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"
	hibernatedPing  = `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n"
)

// heldServer is a server as its gateway sees it.
type heldServer struct {
	in  io.Writer
	out *bufio.Reader
}

func (n heldServer) ask(line string) error {
	if _, err := io.WriteString(n.in, line); err != nil {
		return fmt.Errorf("write to the server: %w", err)
	}
	if _, err := n.out.ReadString('\n'); err != nil {
		return fmt.Errorf("read from the server: %w", err)
	}
	return nil
}

// playHibernated starts as many servers as its first argument says, with the rest as their command. It says "." when
// all have met their client. A number on its standard input has it ask that server something, and say how many
// microseconds the answer took, in 12 digits. It holds on until it is killed.
func playHibernated(args []string) int {
	if err := holdServers(args); err != nil {
		fmt.Fprintln(os.Stderr, "bench: gateway:", err)
		return 1
	}
	return 0
}

func holdServers(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return fmt.Errorf("read how many: %w", err)
	}
	lifeline := os.NewFile(lifelineFD, "lifeline")
	all := make([]heldServer, n)
	for i := range all {
		if all[i], err = startHeld(args[1:], lifeline); err != nil {
			return err
		}
	}
	lifeline.Close()
	for _, s := range all {
		if err := s.ask(hibernatedHello); err != nil {
			return err
		}
		if _, err := io.WriteString(s.in, hibernatedReady); err != nil {
			return fmt.Errorf("write to the server: %w", err)
		}
	}
	fmt.Print(".")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		i, err := strconv.Atoi(lines.Text())
		if err != nil {
			return fmt.Errorf("read which server to ask: %w", err)
		}
		from := time.Now()
		if err := all[i].ask(hibernatedPing); err != nil {
			return err
		}
		fmt.Printf("%012d\n", time.Since(from).Microseconds())
	}
	select {}
}

func startHeld(argv []string, lifeline *os.File) (heldServer, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{lifeline}
	in, err := cmd.StdinPipe()
	if err != nil {
		return heldServer{}, fmt.Errorf("make stdin: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return heldServer{}, fmt.Errorf("make stdout: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return heldServer{}, fmt.Errorf("start %s: %w", argv[0], err)
	}
	return heldServer{in, bufio.NewReaderSize(out, 512)}, nil
}
