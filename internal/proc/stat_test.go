package proc

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// statFields are fields 4 to 24 of a stat line: parent 2, group 3, session 4, 1 thread, start time 777.
const statFields = "2 3 4 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 777 2048 12"

func TestParseStatRefuses(t *testing.T) {
	upTo := func(n int) string { return strings.Join(strings.Fields(statFields)[:n], " ") }
	for what, line := range map[string]string{
		"nothing":                "",
		"no name":                "1 S " + statFields,
		"no pid":                 " (cat) S " + statFields,
		"name alone":             "(cat) S " + statFields,
		"only opening bracket":   "1 (cat S " + statFields,
		"brackets reversed":      "1 )cat( S " + statFields,
		"pid zero":               "0 (cat) S " + statFields,
		"pid overflows":          "99999999999999999999 (cat) S " + statFields,
		"ends after the name":    "1 (cat)",
		"no space after name":    "1 (cat)S " + statFields,
		"long state":             "1 (cat) SS " + statFields,
		"parent is a word":       "1 (cat) S x " + statFields,
		"ends before start time": "1 (cat) S " + upTo(18),
		"start time negative":    "1 (cat) S " + upTo(18) + " -1",
		"start time overflows":   "1 (cat) S " + upTo(18) + " 18446744073709551616",
		"newline between fields": "1 (cat) S 2\n3 4",
	} {
		if s, err := parseStat([]byte(line)); err == nil {
			t.Errorf("%s: %q was taken for %+v", what, line, s)
		}
	}
}

func TestParseStatLimits(t *testing.T) {
	line := "4194304 (x) Z 0 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 0 0 18446744073709551615"
	s, err := parseStat([]byte(line))
	if err != nil || s.PID != 4194304 || s.Start != 1<<64-1 || !s.Dead() {
		t.Errorf("%+v, %v", s, err)
	}
}

// A thread of the kernel is known by its flags: in a pid namespace of its own, process 2 may have children like any other.
func TestParseStatKernelThread(t *testing.T) {
	for flags, want := range map[int]bool{2129984: true, 69238880: true, 4194560: false} {
		line := fmt.Appendf(nil, "8 (kworker/0:0) I 2 0 0 0 -1 %d 0 0 0 0 0 0 0 0 20 0 1 0 44", flags)
		if s, err := parseStat(line); err != nil || s.Kernel != want {
			t.Errorf("%d: %+v, %v", flags, s, err)
		}
	}
}

// FuzzParseStat compares what is read of a line with its round trip through writing, whatever the name holds.
func FuzzParseStat(f *testing.F) {
	f.Add([]byte("1 (cat) S " + statFields + "\n"))
	f.Add([]byte("1 () R 1 () S " + statFields))
	f.Add([]byte("7 (new\nline) Z 0 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 0 0 5"))
	f.Fuzz(func(t *testing.T, line []byte) {
		s, err := parseStat(line)
		if err != nil {
			return
		}
		if s.PID <= 0 || !bytes.Contains(line, []byte("("+s.Comm+")")) {
			t.Fatalf("%q: %+v", line, s)
		}
		if i := bytes.LastIndexByte(line, ')'); bytes.IndexByte(line[i+1:], s.State) != 1 {
			t.Fatalf("%q: state %q is not what follows the name", line, s.State)
		}
		flags := 0
		if s.Kernel {
			flags = kernelThread
		}
		again := fmt.Appendf(nil, "%d (%s) %s %d %d %d 0 -1 %d 0 0 0 0 0 0 0 0 20 0 %d 0 %d",
			s.PID, s.Comm, []byte{s.State}, s.PPID, s.PGRP, s.Session, flags, s.Threads, s.Start)
		if s2, err := parseStat(again); err != nil || s2 != s {
			t.Fatalf("%q: %+v, then %+v, %v", line, s, s2, err)
		}
	})
}

// FuzzParseStatName compares what is read of a line with what it was written from. A name can hold all that a line is made
// of; the fields after it are never taken from it.
func FuzzParseStatName(f *testing.F) {
	for _, comm := range []string{
		"cat", "", " ", ")", "(", "()", ") R 1 (", ") Z 1 1 1 (x", "a b", "tab\there", "new\nline", "\n", "nul\x00l", "\xff\xfe",
		strings.Repeat("(", 15), strings.Repeat(")", 15), ")))) R 1 2 3 4", "1 (x) S 2", "%s%d", "((sd-pam))", "\n) S 1 1 1",
	} {
		f.Add(comm, uint64(1<<63))
	}
	f.Fuzz(func(t *testing.T, comm string, ticks uint64) {
		line := fmt.Appendf(nil, "55 (%s) D 6 7 8 0 -1 0 0 0 0 0 0 0 0 0 20 0 3 0 %d 0 0\n", comm, ticks)
		s, err := parseStat(line)
		want := Stat{ID: ID{55, ticks}, PPID: 6, PGRP: 7, Session: 8, Threads: 3, State: 'D', Comm: comm}
		if err != nil || s != want {
			t.Fatalf("%q: %+v, %v", line, s, err)
		}
	})
}

func TestUsage(t *testing.T) {
	held := make([]byte, 32<<20)
	for i := range held {
		held[i] = byte(i)
	}
	var r Reader
	for used := uint64(0); used < 2; _, used, _ = r.Usage(os.Getpid()) {
		for i := range held {
			held[i]++
		}
	}
	if memory, ticks, _ := r.Usage(os.Getpid()); memory < 32<<20 || memory > 1<<34 || ticks > 1<<20 {
		t.Errorf("this test uses %d bytes and has used %d ticks", memory, ticks)
	}
	busy := exec.Command("/bin/sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
	if err := busy.Run(); err != nil {
		t.Fatal(err)
	}
	if _, _, waited := r.Usage(os.Getpid()); waited == 0 {
		t.Error("a child that has ended has used no ticks")
	}
	if memory, ticks, waited := r.Usage(1 << 22); memory+ticks+waited != 0 {
		t.Errorf("no process uses %d bytes and has used %d ticks", memory, ticks)
	}
}
