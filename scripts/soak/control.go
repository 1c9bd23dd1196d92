//go:build linux

package main

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
)

// control is what each run begins with: a session without mcp-tether leaves something, and a process that was hit is missed. Where
// that is not seen, nothing else that this program says is worth anything.
func (s *soak) control() error {
	m := mode{name: "bare", bare: true, boxes: s.image != ""}
	l := &life{plan: plan{number: firstSteady - 1, mode: m, server: serverOwn, ending: endKill}, soak: s, killed: map[string]bool{}}
	var err error
	if l.c, err = startClient(l.command(s), fmt.Sprint(lifeVariable, l.number)); err == nil {
		_, err = l.c.await()
	}
	if err != nil {
		return fmt.Errorf("start a session without mcp-tether: %w", err)
	}
	l.call(nil)
	l.c.kill()
	_ = l.c.over()
	time.Sleep(time.Second)
	left := of(l.number, s.living())
	var boxes []string
	for _, p := range left {
		err = errors.Join(err, p.Signal(unix.SIGKILL))
	}
	if s.image != "" {
		boxes = stage.Boxes(l.label())
		err = errors.Join(err, stage.RemoveBoxes(l.label()))
	}
	if err != nil {
		return fmt.Errorf("end what a bare session has left: %w", err)
	}
	// The four helpers stay.
	if len(left) < 4 || s.image != "" && len(boxes) != 1 {
		return fmt.Errorf("of a bare session only %d processes and %d containers were seen", len(left), len(boxes))
	}
	time.Sleep(100 * time.Millisecond)
	if still := hit(map[string]process{"one that was killed": left[0]}); len(still) != 1 {
		return errors.New("an innocent that was killed was not missed")
	}
	return nil
}
