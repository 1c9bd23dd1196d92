package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// manyStay is how long the sessions stay: each looks for dead ones a second after its start.
const manyStay = 1500 * time.Millisecond

// measureMany starts many sessions together and ends them together. What one costs must not depend on how many there are, nor
// on a record that no pass can judge.
func measureMany(b *bench) (table, error) {
	t := table{
		Section: "many",
		Title:   "Sessions that start and end together, with and without a record of another pid namespace",
		Columns: []string{"all up s", "all ended s", "processor ms a session"},
	}
	for _, n := range []int{1, 20, 100, 400, 1000} {
		for _, foreign := range []bool{false, true} {
			kase := fmt.Sprintf("%d sessions", n)
			if foreign {
				kase += ", and the record"
			}
			up, ended, cpu, err := b.manyOnce(n, foreign)
			if err != nil {
				return t, err
			}
			t.add(b.subjects[0].name, kase, up.Seconds(), ended.Seconds(), ms(cpu)/float64(n))
		}
	}
	return t, nil
}

// manyOnce says how long n sessions took to start and to end, and the processor time of all.
func (b *bench) manyOnce(n int, foreign bool) (up, ended, cpu time.Duration, err error) {
	if foreign {
		remove, err := b.foreignRecord()
		if err != nil {
			return 0, 0, 0, err
		}
		defer remove()
	}
	var all []*live
	before, began := childrenCPU(), time.Now()
	for range n {
		l, err := b.start(b.subjects[0].command(sleeper()...), pipes)
		if err != nil {
			endAll(all)
			return 0, 0, 0, err
		}
		all = append(all, l)
	}
	for _, l := range all {
		if _, err = l.firstByte(); err != nil {
			endAll(all)
			return 0, 0, 0, err
		}
	}
	up = time.Since(began)
	time.Sleep(manyStay)
	began = time.Now()
	endAll(all)
	ended = time.Since(began)
	reapOrphans()
	return up, ended, childrenCPU() - before, nil
}

// foreignRecord leaves what a killed session of another pid namespace leaves in a directory that is shared.
func (b *bench) foreignRecord() (remove func(), err error) {
	const id = "00000000000000b1"
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("read the boot id: %w", err)
	}
	dir := filepath.Join(b.dir, "mcp-tether")
	record := fmt.Sprintf(`{"version":1,"id":%q,"host":{"boot":%q,"pidns":1},"uid":%d,"state":"running"}`, id, strings.TrimSpace(string(boot)), os.Getuid())
	err = errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, id+".json"), []byte(record), 0o600),
		os.WriteFile(filepath.Join(dir, id+".lock"), nil, 0o600))
	if err != nil {
		return nil, fmt.Errorf("write a record: %w", err)
	}
	return func() { _ = os.RemoveAll(dir) }, nil
}

// childrenCPU is the processor time of all children that have ended, with theirs.
func childrenCPU() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_CHILDREN, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
