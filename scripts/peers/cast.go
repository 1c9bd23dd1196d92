package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

const playArg = "--as"

// What the gateway says. The server answers a call of method "late" only once it is told to end.
const (
	pingID = 1
	callID = 7
	call   = `{"jsonrpc":"2.0","id":7,"method":"late"}`
)

func ping(id int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, id) }

// play is the life of one of the processes.
func play(role string, args []string) error {
	if role == "stage" {
		return playStage(args)
	}
	time.AfterFunc(lifetime, func() { os.Exit(1) })
	switch role {
	case "gateway":
		return playGateway(args)
	case "server":
		return playServer(strings.Split(args[0], ","))
	case "fork":
		return start(args[0]) // the middle of a double fork
	}
	return playBystander(role)
}

// self is the command that plays a role.
func self(role string, args ...string) ([]string, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	return append([]string{exe, playArg, role}, args...), nil
}

// playGateway starts a server, tells its pid, and passes on what its director says and the server answers.
func playGateway(argv []string) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	requests, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("make the server's stdin: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	fmt.Println("started", cmd.Process.Pid)
	if _, err := io.Copy(requests, os.Stdin); err != nil {
		return fmt.Errorf("send to the server: %w", err)
	}
	if err := requests.Close(); err != nil {
		return fmt.Errorf("close the server's stdin: %w", err)
	}
	time.Sleep(lifetime) // as gateways do, which have other servers
	return nil
}

// playServer starts what the words name, answers once it is there, and ends at end of file, unless it hangs.
func playServer(words []string) error {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	hangs := slices.Contains(words, "hangs")
	for _, role := range words {
		if role == "hangs" {
			continue
		}
		if err := startKind(role); err != nil {
			return err
		}
	}
	late := make(chan bool, 1)
	eof := make(chan error, 1)
	go func() { eof <- answer(late) }()
	select {
	case err := <-eof:
		if err != nil {
			return err
		}
		if hangs {
			time.Sleep(lifetime)
		}
	case <-told:
	}
	select {
	case <-late:
		time.Sleep(thinking)
		fmt.Printf(`{"jsonrpc":"2.0","id":%d,"result":{}}`+"\n", callID)
	default:
	}
	return nil
}

// answer serves until end of file. Some wrappers ask for the handshake and the tools themselves.
func answer(late chan<- bool) error {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var request struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if err := json.Unmarshal(in.Bytes(), &request); err != nil {
			return fmt.Errorf("read %q: %w", in.Text(), err)
		}
		result := "{}"
		switch {
		case request.Method == "late":
			late <- true
			continue
		case request.ID == nil:
			continue // a notification
		case request.Method == "initialize":
			result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"peers","version":"1"}}`
		case request.Method == "tools/list":
			result = `{"tools":[]}`
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", request.ID, result)
	}
	return nil
}

// startKind starts one of the kinds that detach themselves through a middle process, which is waited for.
func startKind(role string) error {
	switch role {
	case "helper", "cleared":
		argv, err := self("fork", role)
		if err != nil {
			return err
		}
		fork := exec.Command(argv[0], argv[1:]...)
		fork.SysProcAttr = &syscall.SysProcAttr{Setsid: role == "helper"}
		if err := fork.Run(); err != nil {
			return fmt.Errorf("start %s: %w", role, err)
		}
		return nil
	}
	return start(role)
}

// start returns once the new process is what it is to be: it closes its stdout then.
func start(role string) error {
	argv, err := self(role)
	if err != nil {
		return err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	if role == "cleared" {
		cmd.Env, cmd.Dir = []string{}, "/"
	}
	ready, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", role, err)
	}
	_, err = io.Copy(io.Discard, ready)
	return err
}

// playBystander neither reads nor writes, so it never learns that everyone else has gone.
func playBystander(role string) error {
	if role == "deaf" {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	}
	if err := os.Stdout.Close(); err != nil {
		return fmt.Errorf("let go of stdout: %w", err)
	}
	time.Sleep(lifetime)
	return nil
}
