package main

import "time"

// measureStartup times spawn to the server's first byte. The server is echo: all it does is that byte.
func measureStartup(b *bench) (table, error) {
	t := table{Title: "Start-up: spawn to the server's first byte, in ms", Columns: pairColumns()}
	return t, t.compare("", b.rounds, startOnce, againAnd(b.subjects...)...)
}

func startOnce(s subject) (float64, error) {
	l, err := start(s.command("/bin/echo", "ready"), pipes)
	if err != nil {
		return 0, err
	}
	at, err := l.firstByte()
	if err != nil {
		_ = l.end()
		return 0, err
	}
	// The whole session must be over before the next begins, or its end is measured as the next one's start.
	err = l.wait()
	l.letGo()
	return ms(at.Sub(l.spawned)), err
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
