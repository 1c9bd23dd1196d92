package main

// sleeper is a server that says it is there and then does nothing.
func sleeper() []string {
	return []string{"/bin/sh", "-c", "echo ready; exec sleep 1000000"}
}

// startSleepers starts n sessions of a sleeping server and waits until each one's server is there.
func (b *bench) startSleepers(s subject, n int) ([]*live, error) {
	var all []*live
	for range n {
		l, err := b.start(s.command(sleeper()...), pipes)
		if err != nil {
			endAll(all)
			return nil, err
		}
		all = append(all, l)
		if _, err := l.firstByte(); err != nil {
			endAll(all)
			return nil, err
		}
	}
	return all, nil
}

// endAll lets all go before it waits for any, so that their teardowns overlap.
func endAll(all []*live) {
	for _, l := range all {
		l.letGo()
		l.terminate()
	}
	for _, l := range all {
		_ = l.wait()
	}
}
