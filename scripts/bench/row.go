package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"mcp-tether/cgroup"
)

// rowParts is in how many parts a row is measured, and rowLanes how many sessions of it run at a time.
const (
	rowParts = 10
	rowLanes = 2
)

// measureRow runs short sessions one after the other. What one costs, and what it leaves, must not depend on how many there
// were before.
func measureRow(b *bench) (table, error) {
	t := table{
		Section: "row",
		Title:   fmt.Sprintf("%d sessions in a row, %d at a time, by how many came before", b.row, rowLanes),
		Columns: []string{"sessions", "processor ms a session", "wall ms a session", "history kB", "records left", "leaves left", "descriptors"},
	}
	before := leaves()
	for part := range rowParts {
		from, to := b.row*part/rowParts, b.row*(part+1)/rowParts
		cpu, began := childrenCPU(), time.Now()
		if err := b.lanes(to - from); err != nil {
			return t, err
		}
		wall := time.Since(began)
		reapOrphans()
		n := float64(to - from)
		t.add(b.subjects[0].name, fmt.Sprintf("after %d", from), n, ms(childrenCPU()-cpu)/n, ms(wall)/n,
			float64(b.historySize())/1000, float64(b.records()), float64(leaves()-before), float64(openFiles()))
	}
	return t, nil
}

// lanes runs n sessions.
func (b *bench) lanes(n int) error {
	var (
		errs [rowLanes]error
		wait sync.WaitGroup
	)
	for lane := range rowLanes {
		wait.Go(func() {
			for i := lane; i < n && errs[lane] == nil; i += rowLanes {
				_, errs[lane] = b.startOnce(b.subjects[0])
			}
		})
	}
	wait.Wait()
	return errors.Join(errs[:]...)
}

// historySize is that of all that sessions have left in the user's state, in bytes.
func (b *bench) historySize() (size int64) {
	_ = filepath.Walk(filepath.Join(b.dir, stateName), func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return nil
	})
	return size
}

// records counts the files in the directory of sessions.
func (b *bench) records() int {
	entries, _ := os.ReadDir(filepath.Join(b.dir, "mcp-tether"))
	return len(entries)
}

// leaves counts the leaves of sessions below this program's own cgroup.
func leaves() (n int) {
	for _, own := range ownCgroups() {
		found, _ := filepath.Glob(filepath.Join(own, cgroup.Prefix+"*"))
		n += len(found)
	}
	return n
}

func openFiles() int {
	entries, _ := os.ReadDir("/proc/self/fd")
	return len(entries)
}
