package relay

import (
	"time"

	"mcp-tether/internal/mcp"
)

// Published is what is known of servers from earlier sessions, by the request of the client.
type Published struct {
	// Load gives what is known of the server; nil where nothing is.
	Load func(request []byte) *mcp.Published
	// Save takes what the server has published since the last call.
	Save func(request []byte, news mcp.Published)
}

// Lazy begins without a server. Messages that need none are answered from what is known.
func (r *Relay) Lazy(known Published) {
	r.known = &known
	r.talk.Publish()
	r.Disconnect()
}

// Told reports whether the client was told something in the place of a server.
func (r *Relay) Told() bool { return r.told }

// Forget says that no server could be had that is what the client was told.
func (r *Relay) Forget() {
	if request := r.talk.Greeting(); r.told && request != nil {
		r.known.Save(request, mcp.Published{Wrong: true})
	}
}

// tell answers a line of the client in the place of the server, and reports whether that was possible. What comes after a
// message that waits waits, too.
func (r *Relay) tell(line []byte) (done bool) {
	if r.known == nil || r.mode != modeServerless || r.waiting.left > 0 {
		return false
	}
	r.each(&r.judgesClient, line, func(m mcp.Message) {
		if !m.Line {
			return
		}
		if answer := r.talk.TellPublished(m, r.known.Load, time.Now()); answer != nil {
			r.down.put(answer)
			r.told, done = true, true
			r.litter(len(answer))
		}
	})
	r.down.drain()
	return done
}

// publish leaves what the server has published to later sessions.
func (r *Relay) publish() {
	if r.known == nil {
		return
	}
	for request, news := r.talk.TakePublished(); request != nil; request, news = r.talk.TakePublished() {
		r.known.Save(request, news)
		for _, pages := range news.Lists {
			for _, page := range pages {
				r.litter(len(page))
			}
		}
	}
}

// litter notes that a message of so many bytes was parsed. To give back what a small one takes costs more than that.
func (r *Relay) litter(size int) {
	if size >= bufferSize/2 {
		r.bulky, r.bulk = true, time.Now()
	}
}
