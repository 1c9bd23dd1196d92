package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// toolCall is a line that is sent to a server and comes back.
const toolCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello"}}}` + "\n"

// measureRoundtrip sends one JSON-RPC line and waits for it to come back, one after the other. Each round starts new
// processes.
func measureRoundtrip(b *bench) (table, error) {
	t := table{
		Title:   "Round trip: one JSON-RPC line to the server and back, p50 in µs, all on one core",
		Columns: pairColumns(),
	}
	err := onOneCore(func() error {
		for _, l := range []link{pipes, socketpairs} {
			// The server of --hibernate never sleeps here: what is measured is the way through its front.
			subjects := append(b.againAndPeers(), b.with("--hibernate=1h"))
			ping := func(s subject) (float64, error) { return b.pingPong(s, l) }
			if err := t.compare(string(l), max(b.rounds/5, 1), ping, subjects...); err != nil {
				return err
			}
			call := func(s subject) (float64, error) { return b.callAfterCall(s, l) }
			if err := t.compare(string(l)+", an MCP server", max(b.rounds/20, 1), call, b.sharing()); err != nil {
				return err
			}
		}
		return nil
	})
	return t, err
}

// pingPong returns the median round trip of one session, in microseconds.
func (b *bench) pingPong(s subject, l link) (float64, error) {
	sess, err := start(s.command("cat"), l)
	if err != nil {
		return 0, err
	}
	trip, err := trips(func(int) error { return echo(sess.in, sess.out, toolCall, toolCall) })
	if endErr := sess.end(); err == nil {
		err = endErr
	}
	return trip, err
}

// echo sends text, and expects an answer.
func echo(in, out *os.File, text, answer string) error {
	if _, err := in.WriteString(text); err != nil {
		return err
	}
	got := make([]byte, len(answer))
	if _, err := io.ReadFull(out, got); err != nil {
		return err
	}
	if string(got) != answer {
		return fmt.Errorf("sent %q, got %q", text, got)
	}
	return nil
}

// onOneCore runs f with this thread, and so all that it starts, held on one core. Left to the scheduler, the same round
// trip takes 5 µs or 40 µs, depending on the cores that the two ends land on. That drowns everything else. On one core
// pairs agree to a hundredth. A wrapper that copied bytes would show all the more: its work cannot hide on an idle
// core.
func onOneCore(f func() error) error {
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("ask which cores we may use: %w", err)
	}
	for cpu := range len(before) * 64 {
		if before.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return fmt.Errorf("stay on one core: %w", err)
	}
	err := f()
	if backErr := unix.SchedSetaffinity(0, &before); err == nil && backErr != nil {
		return fmt.Errorf("leave the one core: %w", backErr)
	}
	return err
}
