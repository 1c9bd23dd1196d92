package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// usersArg makes this program the first process of a host of many users.
const usersArg = "__users"

// firstUser is the number of the first of them. The numbers need no names.
const firstUser = 200_000

// usersWait is how long so many sessions may take to start.
const usersWait = 5 * time.Minute

// measureUsers says what root's looks at all users cost, with a session of each.
func measureUsers(b *bench) (table, error) {
	t := table{
		Section: "users",
		Title:   "A host of N users with a session each: what root's look at all of them takes, without --kill",
		Columns: []string{"s", "processor ms a user", "users answered for"},
	}
	if os.Getuid() != 0 {
		t.missing("mcp-tether (needs root)", "")
		return t, nil
	}
	const tasks, megabytes = 20, 6 // of a session
	if err := needRoom(b.users*tasks, float64(b.users)*megabytes); err != nil {
		return t, err
	}
	args := []string{usersArg, b.bin}
	for _, n := range grown(b.users) {
		args = append(args, strconv.Itoa(n))
	}
	var looks []look
	if err := b.onOwnHost(&looks, args...); err != nil {
		return t, err
	}
	for _, l := range looks {
		values := []float64{l.Wall / 1000, l.Processor / float64(l.Users), float64(l.Answered)}
		if l.Command == "doctor" { // it does not say for whom it had no answer
			values = values[:2]
		}
		t.add("mcp-tether "+l.Command, fmt.Sprintf("%d users", l.Users), values...)
	}
	return t, nil
}

// look is what one command of root took.
type look struct {
	cost
	Command         string
	Users, Answered int
}

// playUsers is process 1 of the host. All others end with it.
func playUsers(args []string) int { return tellFigures(fillWithUsers(args[0], args[1:])) }

func fillWithUsers(bin string, sizes []string) (looks []look, err error) {
	bin, _, err = aloneWith(bin, "/etc/hosts")
	if err != nil {
		return nil, err
	}
	users := 0
	for _, size := range sizes {
		n, _ := strconv.Atoi(size)
		for ; users < n; users++ {
			if err := startAs(firstUser+users, bin); err != nil {
				return nil, err
			}
		}
		if err := awaitUsers(n); err != nil {
			return nil, err
		}
		for _, command := range []string{"ps", "reap", "doctor"} {
			l, err := lookAt(bin, command, n)
			if err != nil {
				return nil, err
			}
			looks = append(looks, l)
		}
	}
	return looks, nil
}

// startAs starts a session of a user. Its standard input is open as long as this process lives.
func startAs(uid int, bin string) error {
	in, err := newPair(pipes)
	if err != nil {
		return err
	}
	defer closeAll(in[0])
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", os.DevNull, err)
	}
	defer null.Close()
	_, err = syscall.ForkExec(bin, []string{"mcp-tether", "run", "--", "/bin/sleep", fuse}, &syscall.ProcAttr{
		Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}, Files: []uintptr{uintptr(in[0]), null.Fd(), 2},
		Sys: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}},
	})
	if err != nil {
		return fmt.Errorf("start a session of user %d: %w", uid, err)
	}
	return nil
}

// awaitUsers waits until so many sessions have a record.
func awaitUsers(n int) error {
	for deadline := time.Now().Add(usersWait); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if found, _ := filepath.Glob("/tmp/mcp-tether-*/*.json"); len(found) >= n {
			time.Sleep(3 * time.Second) // what a session does at its start, it has done then
			return nil
		}
	}
	return fmt.Errorf("wait for %d sessions: they are not all up", n)
}

// lookAt runs a command of root, and counts the users for whom it has an answer.
func lookAt(bin, command string, users int) (look, error) {
	cmd := exec.Command(bin, command, "--json")
	from := time.Now()
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return look{}, fmt.Errorf("run %s: %w", command, err)
	}
	l := look{cost{ms(time.Since(from)), ms(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()), 0}, command, users, users}
	var said struct {
		Incomplete []string
		Sessions   []any
	}
	if err := json.Unmarshal(out, &said); err != nil {
		return l, fmt.Errorf("read what %s said: %w", command, err)
	}
	for _, line := range said.Incomplete {
		left := 1
		_, _ = fmt.Sscanf(line, "%d users:", &left)
		l.Answered -= left
	}
	if command == "ps" {
		l.Answered = len(said.Sessions)
	}
	return l, nil
}
