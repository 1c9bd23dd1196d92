package main

import (
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
)

// sleepers are sessions whose servers sleep, or have not started. Their names are numbers. They have several gateways: each may have
// so many files open, and they start sessions side by side.
type sleepers struct {
	b        *bench
	play     *stage.Alone
	gateways []*stage.Gateway
	flags    []string
}

const (
	sleepersAtOnce = 8
	sleepSoon      = "--hibernate=200ms"
	// sleeperWeight is more than a session has while it sleeps, with what the kernel keeps for it, and spareMemory is left to others,
	// both in MB.
	sleeperWeight = 0.4
	spareMemory   = 4_000
	// Of 35 conversations with six servers each one uses all of them.
	quietSessions, usedSessions = 35 * 6, 6
)

// measureSleep has many servers sleep, weighs what is left of their sessions, wakes some, and kills the gateways.
func measureSleep(b *bench) (table, error) {
	t := table{
		Title: "Asleep: sessions below gateways, which are SIGKILLed",
		Columns: []string{
			"sessions", "asleep: PSS median kB", "PSS of ours in all MB", "of the machine, each kB", "wake ms", "all gone after ms",
		},
	}
	for _, c := range []struct {
		name, flag string
		n, woken   int
	}{
		{"all asleep", sleepSoon, b.hibernated, min(b.hibernated, 20)},
		{"6 awake", "--hibernate=10m", quietSessions, usedSessions},
	} {
		if err := needRoom(c.n, float64(c.n)*sleeperWeight+spareMemory); err != nil {
			return t, err
		}
		err := stage.Play(func(play *stage.Alone) {
			s := &sleepers{b: b, play: play, flags: []string{"--lazy", c.flag}}
			t.add(c.name, "", s.measure(c.n, c.woken)...)
		})
		if err != nil {
			return t, err
		}
	}
	return t, nil
}

// measure starts n sessions, and wakes some.
func (s *sleepers) measure(n, woken int) []float64 {
	for range sleepersAtOnce {
		s.gateways = append(s.gateways, stage.Start(s.play, s.b.programs, stage.World{}))
	}
	s.start(0, 1) // What the server publishes is known from now on.
	s.gateways[0].Call("close", "0", "stdin")
	s.gateways[0].Call("wait", "0")
	before := available()
	for i := 0; i < n; i += sleepersAtOnce {
		s.start(i, min(sleepersAtOnce, n-i))
	}
	s.await(n)
	var wakes []float64
	for i := range woken {
		from := time.Now()
		s.say(i, 1, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`+"\n")
		s.hear(i, 1)
		wakes = append(wakes, ms(time.Since(from)))
		time.Sleep(300 * time.Millisecond) // A start looks at all other sessions once its server runs.
	}
	if s.flags[1] == sleepSoon {
		s.await(n)
	}
	time.Sleep(3 * time.Second) // what they need on their way to sleep is not what a sleeper needs
	machine := (before - available()) / float64(n)
	asleep, all := s.weigh()
	return []float64{float64(n), 1000 * asleep, all, 1000 * machine, median(wakes), s.end()}
}

// start starts sessions, one a gateway, and is their client until the handshake is over.
func (s *sleepers) start(first, n int) {
	if available() < spareMemory {
		s.play.Fatalf("beside %d sessions less than %d MB are left", first, spareMemory)
	}
	s.ask(first, n, func(name string) []string {
		return append([]string{"spawn", name, "stderr=/tmp/stderr", "--"}, s.b.with(s.flags...).command(s.b.self, answerArg)...)
	})
	s.say(first, n, hello)
	s.hear(first, n)
	s.say(first, n, initialized)
}

func (s *sleepers) say(first, n int, text string) {
	s.ask(first, n, func(name string) []string { return []string{"write", name, text} })
}

func (s *sleepers) hear(first, n int) {
	s.ask(first, n, func(name string) []string { return []string{"read", name} })
}

// ask has each gateway do something for one session.
func (s *sleepers) ask(first, n int, words func(name string) []string) {
	for i := first; i < first+n; i++ {
		s.gateways[i%sleepersAtOnce].Send(words(strconv.Itoa(i))...)
	}
	for i := first; i < first+n; i++ {
		if ok, text := s.gateways[i%sleepersAtOnce].Receive(); !ok {
			s.play.Fatalf("session %d: %s", i, text)
		}
	}
}

// below are the processes of the sessions.
func (s *sleepers) below() []stage.Proc {
	var pids []int
	for _, g := range s.gateways {
		pids = append(pids, g.PID)
	}
	return stage.Below(pids...)
}

// await waits until each session is one process.
func (s *sleepers) await(n int) {
	for deadline := time.Now().Add(time.Hour); len(s.below()) != n; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.play.Fatalf("there are %d processes of %d sessions", len(s.below()), n)
		}
	}
}

// weigh is the PSS of a sleeper, and of all of our processes, the servers left out.
func (s *sleepers) weigh() (asleep, all float64) {
	var weights []float64
	for _, p := range s.below() {
		if p.Comm != "mcp-tether" {
			continue
		}
		m, err := memoryOf(p.PID)
		if err != nil {
			s.play.Fatalf("%w", err)
		}
		weights, all = append(weights, m), all+m
	}
	return median(weights), all
}

// end kills the gateways, and gives the time until the last death.
func (s *sleepers) end() float64 {
	all, from := s.below(), time.Now()
	for _, g := range s.gateways {
		g.Signal(unix.SIGKILL)
	}
	if left := stage.Outlasting(time.Hour, all...); len(left) > 0 {
		s.play.Fatalf("after the gateways' death %d live on", len(left))
	}
	return ms(time.Since(from))
}

// available is the memory that programs may still have, in MB.
func available() float64 {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	return number(info, "MemAvailable:") * 1024 / 1e6
}
