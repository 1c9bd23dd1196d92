package main

import "fmt"

// toolCall is a line that is sent to a server and comes back.
const toolCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello"}}}` + "\n"

// measureRoundtrip sends one JSON-RPC line and waits for it to come back, one after the other. Each round starts new
// processes.
func measureRoundtrip(b *bench) (table, error) {
	t := table{
		Section: "roundtrip",
		Title:   "Round trip: one JSON-RPC line to the server and back, p50 in µs, all on one core",
		Columns: pairColumns(),
	}
	return t, onOneCore(func() error { return b.roundtripRows(&t, b.againAndPeers()...) })
}

func (b *bench) roundtripRows(t *table, subjects ...subject) error {
	for _, l := range []link{pipes, socketpairs} {
		ping := func(s subject) (float64, error) { return b.pingPong(s, l) }
		if err := t.compare("round trip, "+string(l), max(b.rounds/5, 1), ping, subjects...); err != nil {
			return err
		}
	}
	return nil
}

// pingPong returns the median round trip of one session, in microseconds.
func (b *bench) pingPong(s subject, l link) (float64, error) {
	sess, err := b.start(s.command("cat"), l)
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
func echo(in, out int, text, answer string) error {
	if err := writeAll(in, []byte(text)); err != nil {
		return err
	}
	got := make([]byte, len(answer))
	if err := readFull(out, got); err != nil {
		return err
	}
	if string(got) != answer {
		return fmt.Errorf("sent %q, got %q", text, got)
	}
	return nil
}
