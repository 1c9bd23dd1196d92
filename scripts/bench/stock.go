package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"mcp-tether/internal/proc"
)

// measureStock says what a session with a container, and a pass of reap, cost beside an engine that has many other containers.
// These are created and not started: a list of the engine has them all the same.
func measureStock(b *bench) (table, error) {
	t := table{
		Section: "stock",
		Title: "An engine with N other containers, created and not started: a session that creates one and leaves it, and a pass of " +
			"reap, beside docker ps -a with a filter for a label that none has",
		Columns: []string{"rounds", "session ms", "its processor ms", "the engine's", "reap ms", "its processor ms", "passes in vain", "docker ps ms"},
	}
	e, err := b.startEngine()
	if err != nil {
		return t, err
	}
	defer e.stop()
	if !e.own {
		defer e.removeAll("label=bench=stock")
	}
	have := 0
	for _, n := range append([]int{0}, grown(b.stock)...) {
		if err := e.create(n - have); err != nil {
			return t, err
		}
		have = n
		if err := b.stockRow(&t, e, n); err != nil {
			return t, fmt.Errorf("%d containers: %w", n, err)
		}
		if left, err := e.docker("docker ps -aq --filter label=bench=one | wc -l"); err != nil || left != "0" {
			return t, fmt.Errorf("containers of sessions are left: %s (%w)", left, err)
		}
	}
	return t, nil
}

func (b *bench) stockRow(t *table, e *testEngine, n int) error {
	var session, reap, ps []cost
	var (
		engine []float64
		late   float64
	)
	rounds := max(b.rounds/20, 3)
	for range rounds {
		before, err := e.processor()
		if err != nil {
			return err
		}
		create := b.subjects[0].command("docker", "create", "--network", "none", "--label", "bench=one", boxImage)
		for _, r := range []struct {
			to   *[]cost
			argv []string
		}{
			{&session, create},
			{&reap, []string{"unshare", "--fork", "--pid", "--mount-proc", b.bin, "reap"}}, // it reads no process but its own
			{&ps, []string{"docker", "ps", "-aq", "--filter", "label=bench=none"}},
		} {
			words := append(e.env(), r.argv...)
			cmd := exec.Command(words[0], words[1:]...)
			cmd.Env = b.env
			took, err := costOf(cmd)
			if err == nil && took.Code > 1 && r.to != &reap {
				err = fmt.Errorf("%v failed (exit code %d)", r.argv, took.Code)
			}
			if err != nil {
				return err
			}
			if took.Code > 1 {
				late++ // the engine has not answered in time
			}
			*r.to = append(*r.to, took)
			if r.to == &session {
				after, err := e.processor()
				if err != nil {
					return err
				}
				engine = append(engine, after-before)
			}
		}
	}
	t.add("mcp-tether", fmt.Sprintf("%d containers", n), float64(rounds), median(walls(session)), median(processors(session)), mean(engine),
		median(walls(reap)), median(processors(reap)), late, median(walls(ps)))
	return nil
}

// createsAtOnce is how many containers are created at a time.
const createsAtOnce = 4

// create creates n containers of the image, none of which is started.
func (e *testEngine) create(n int) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: createsAtOnce, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(e.host, "unix://"))
	}}}
	defer client.CloseIdleConnections()
	var (
		errs [createsAtOnce]error
		wait sync.WaitGroup
	)
	for lane := range createsAtOnce {
		wait.Go(func() {
			for i := lane; i < n && errs[lane] == nil; i += createsAtOnce {
				errs[lane] = createOne(client)
			}
		})
	}
	wait.Wait()
	return errors.Join(errs[:]...)
}

func createOne(client *http.Client) error {
	body, err := json.Marshal(map[string]any{
		"Image": boxImage, "NetworkDisabled": true, "Labels": map[string]string{"bench": "stock"},
	})
	if err != nil {
		return err
	}
	answer, err := client.Post("http://engine/containers/create", "application/json", strings.NewReader(string(body)))
	if err != nil {
		return fmt.Errorf("create a container: %w", err)
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusCreated {
		return fmt.Errorf("create a container: %s: %s (%w)", answer.Status, said, err)
	}
	return nil
}

// processor is the processor time of our own engine's daemon so far, in ms.
func (e *testEngine) processor() (float64, error) {
	if !e.own {
		return 0, nil
	}
	words, err := os.ReadFile(filepath.Join(engineDir(e.config), "pid"))
	if err != nil {
		return 0, fmt.Errorf("find the engine: %w", err)
	}
	var holder int
	if _, err := fmt.Sscan(string(words), &holder); err != nil {
		return 0, fmt.Errorf("find the engine: %w", err)
	}
	below, err := new(proc.Reader).Descendants(holder)
	if err != nil {
		return 0, fmt.Errorf("list the engine's processes: %w", err)
	}
	var ticks float64
	for _, p := range below {
		stat, err := os.ReadFile(proc.Path(p.PID, "stat"))
		if err != nil {
			continue // it has ended meanwhile
		}
		_, after, _ := strings.Cut(string(stat), ") ")
		for _, field := range strings.Fields(after)[11:15] { // its own, and that of its children that were waited for
			ticks += number([]byte(field), "")
		}
	}
	return ticks * 1000 / ticksPerSecond, nil
}

// ticksPerSecond is USER_HZ, in which the kernel tells processor times.
const ticksPerSecond = 100
