package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// No process of the demo outlives this, even if the demo itself is killed before it has cleared up.
const lifetime = 2 * time.Minute

// The roles that enrol: they start with the server and are to end with the gateway.
var roles = []string{"server", "worker", "helper"}

// As short as the protocol allows. What matters is that the server has answered before the gateway dies.
const (
	hello  = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	answer = `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n"
)

// play is the life of one of the demo's processes. Each one holds the lock of its role in dir until it dies.
func play(role, dir string, wrapper []string) error {
	time.AfterFunc(lifetime, func() { os.Exit(1) })
	switch role {
	case "gateway":
		return playGateway(dir, wrapper)
	case "server":
		return playServer(dir)
	case "worker", "helper":
		return playBystander(role, dir)
	case "launcher":
		return playLauncher(dir)
	}
	return fmt.Errorf("no role called %q", role)
}

// self is the command that plays a role.
func self(role, dir string) ([]string, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this binary: %w", err)
	}
	return []string{exe, "--as", role, dir}, nil
}

func command(role, dir string, wrapper ...string) (*exec.Cmd, error) {
	argv, err := self(role, dir)
	if err != nil {
		return nil, err
	}
	argv = append(wrapper, argv...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// playGateway talks to its server once, says so, and then has nothing to do until it is killed.
func playGateway(dir string, wrapper []string) error {
	cmd, err := command("server", dir, wrapper...)
	if err != nil {
		return err
	}
	requests, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("make the server's stdin: %w", err)
	}
	responses, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("make the server's stdout: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	if _, err := fmt.Fprintln(requests, hello); err != nil {
		return fmt.Errorf("send to the server: %w", err)
	}
	line, err := bufio.NewReader(responses).ReadString('\n')
	if err != nil {
		return fmt.Errorf("hear from the server: %w", err)
	}
	fmt.Print(line)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// playServer is a well-behaved MCP server in all but one thing: it does not look after what it has started.
func playServer(dir string) error {
	if err := enrol("server", dir); err != nil {
		return err
	}
	up, upWriter, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	worker, err := command("worker", dir)
	if err != nil {
		return err
	}
	worker.Stdout = upWriter
	if err := worker.Start(); err != nil {
		return fmt.Errorf("start the worker: %w", err)
	}
	launcher, err := command("launcher", dir)
	if err != nil {
		return err
	}
	launcher.Stdout = upWriter
	launcher.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := launcher.Run(); err != nil {
		return fmt.Errorf("run the launcher: %w", err)
	}
	return serve(up, upWriter)
}

// serve answers once worker and helper are there, and until EOF, as the protocol asks for.
func serve(up io.Reader, upWriter io.Closer) error {
	if err := upWriter.Close(); err != nil {
		return fmt.Errorf("close the pipe: %w", err)
	}
	if _, err := io.Copy(io.Discard, up); err != nil {
		return fmt.Errorf("wait for the children: %w", err)
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if _, err := fmt.Print(answer); err != nil {
			return errors.New("the gateway no longer listens")
		}
	}
	return nil
}

// playLauncher is the middle of a double fork: it leads a new terminal session, and leaves it to an orphan.
func playLauncher(dir string) error {
	helper, err := command("helper", dir)
	if err != nil {
		return err
	}
	helper.Stdout = os.Stdout
	helper.Stderr = nil
	helper.Env = []string{}
	helper.Dir = "/"
	if err := helper.Start(); err != nil {
		return fmt.Errorf("start the helper: %w", err)
	}
	return nil
}

// playBystander neither reads nor writes, so it never learns that everyone else has gone.
func playBystander(role, dir string) error {
	if err := enrol(role, dir); err != nil {
		return err
	}
	if err := os.Stdout.Close(); err != nil {
		return fmt.Errorf("let go of stdout: %w", err)
	}
	time.Sleep(lifetime)
	return nil
}
