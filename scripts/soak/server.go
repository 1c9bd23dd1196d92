//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// serve is an MCP server with an echo: __server [WORD...]. With "helpers" it starts processes that try to stay, with "keep" one
// that may, and with "box=IMAGE,LABEL" a container at each call, which ends by itself with "brief". By its other words it is found.
func serve(args []string) error {
	if slices.Contains(args, "helpers") {
		for _, how := range []string{"plain", "fork", "cleared", "deaf"} {
			if err := startHelper(how, args); err != nil {
				return err
			}
		}
	}
	if slices.Contains(args, "keep") {
		if err := startHelper("kept", args); err != nil {
			return err
		}
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		answer(lines.Bytes(), args)
	}
	return nil
}

// startHelper starts a process that does not end by itself. It has the words of the server, by which it is found.
func startHelper(how string, args []string) error {
	cmd := exec.Command("/proc/self/exe", append([]string{helperRole, how}, args...)...)
	switch how {
	case "fork":
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	case "cleared":
		cmd.Env = []string{}
	case "kept":
		cmd.Env = append(os.Environ(), "MCP_TETHER_KEEP=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a helper: %w", err)
	}
	go func() { _ = cmd.Wait() }()
	return nil
}

// help is such a process: __helper HOW WORD...
func help(args []string) error {
	switch args[0] {
	case "fork":
		return startHelper("detached", args[1:])
	case "deaf":
		signal.Ignore(unix.SIGTERM)
	case "brief":
		return nil
	}
	for {
		_ = unix.Pause()
	}
}

// request is what the server understands of a message.
type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		ProtocolVersion string `json:"protocolVersion"`
		Arguments       struct {
			Message string `json:"message"`
		} `json:"arguments"`
	} `json:"params"`
}

func answer(line []byte, args []string) {
	var m request
	if json.Unmarshal(line, &m) != nil || m.ID == nil {
		return
	}
	var result any = struct{}{}
	switch m.Method {
	case "initialize":
		result = map[string]any{
			"protocolVersion": m.Params.ProtocolVersion, "capabilities": map[string]any{"tools": struct{}{}},
			"serverInfo": map[string]string{"name": "soak", "version": "1"},
		}
	case "tools/list":
		result = map[string]any{"tools": []any{map[string]any{"name": "echo", "inputSchema": map[string]string{"type": "object"}}}}
	case "tools/call":
		text := "Echo: " + m.Params.Arguments.Message
		if err := runBox(args); err != nil {
			text = err.Error()
		}
		result = map[string]any{"content": []any{map[string]string{"type": "text", "text": text}}}
	}
	reply, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result})
	_, _ = os.Stdout.Write(append(reply, '\n'))
}

// runBox runs a container if the words of the server ask for it.
func runBox(args []string) error {
	for _, word := range args {
		box, found := strings.CutPrefix(word, "box=")
		if !found {
			continue
		}
		image, label, _ := strings.Cut(box, ",")
		how := []string{"--detach", "--label", label, image, inImage, helperRole, "plain"}
		if slices.Contains(args, "brief") {
			how = []string{"--rm", "--label", label, image, inImage, helperRole, "brief"}
		}
		if out, err := exec.Command("docker", append([]string{"run", "--net=none"}, how...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("docker run: %w %s", err, out)
		}
	}
	return nil
}
