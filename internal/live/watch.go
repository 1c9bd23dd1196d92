package live

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"mcp-tether/internal/display"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// watcher is what ps --watch shows. Only the thread that calls what comes out of do reads or changes it.
type watcher struct {
	*screen
	// all is nil before the first list.
	all     []Session
	missing []string
	// heads are the sessions as they are on the screen, and chosen is the one at place, which a key would stop. asking is the one that
	// a question is about.
	heads          []*Session
	place          int
	chosen, asking *Session
	// said is what became of the last stop.
	said string
	over bool
	err  error

	// dir is $XDG_RUNTIME_DIR.
	dir string
	do  chan func()
	// again asks for a list before its time.
	again chan struct{}
}

// Watch lists the sessions again and again on the terminal's other screen, until a key or a signal ends it. A key stops one.
func Watch(runtime string) error {
	w := watcher{screen: theScreen(), dir: runtime, do: make(chan func()), again: make(chan struct{}, 1)}
	go w.listen()
	// The first word is that signals are caught: no earlier may the terminal be changed.
	if (<-w.do)(); w.over {
		return w.err
	}
	return w.while(func() error {
		go w.list()
		for !w.over {
			w.draw()
			(<-w.do)()
		}
		return w.err
	})
}

// pause is the time from one list to the next.
const pause = 2 * time.Second

// list reads the sessions. An engine that does not answer, or another user's child, may take seconds, and keys do not wait for it.
func (w *watcher) list() {
	defer w.guard()
	for {
		seen, err := See(w.dir, AddContainers)
		seen.Close()
		w.do <- func() {
			w.all, w.missing, w.err, w.over = append([]Session{}, seen.Sessions...), seen.Missing(), err, w.over || err != nil
		}
		select {
		case <-time.After(pause):
		case <-w.again:
		}
	}
}

// listen waits for keys and signals.
func (w *watcher) listen() {
	defer w.guard()
	runtime.LockOSThread()
	set := proc.JobControl &^ (1<<(unix.SIGTTIN-1) | 1<<(unix.SIGTTOU-1))
	for _, sig := range []syscall.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGCONT, unix.SIGWINCH} {
		set |= 1 << (sig - 1)
	}
	arriving, err := proc.Catch(set)
	w.do <- func() { w.err, w.over = err, err != nil }
	if err != nil {
		return
	}
	fds := []unix.PollFd{{Fd: int32(arriving.FD()), Events: unix.POLLIN}, {Fd: -1, Events: unix.POLLIN}}
	if w.before != nil {
		fds[1].Fd = 0
	}
	for {
		proc.Poll(fds, -1)
		for _, sig := range arriving.Take(nil) {
			w.do <- func() { w.signalled(sig) }
		}
		if fds[1].Revents != 0 {
			var keys [64]byte
			n, _ := unix.Read(0, keys[:])
			w.do <- func() { w.typed(keys[:max(n, 0)]) }
		}
	}
}

func (w *watcher) signalled(sig syscall.Signal) {
	switch {
	case proc.Ends(sig):
		w.over = true
	case sig == unix.SIGTSTP:
		w.leave()
		w.err = proc.Suspend()
		w.enter()
	case sig == unix.SIGCONT: // After a stop of another kind: who had the terminal meanwhile has changed it.
		w.enter()
	}
}

// typed takes keys; none are there when the terminal is gone. Of an arrow's three bytes the last one counts, and what follows the
// beginning of another sequence does not.
func (w *watcher) typed(keys []byte) {
	w.over = len(keys) == 0
	for i := 0; i < len(keys); i++ {
		if keys[i] != '\x1b' {
			w.key(keys[i])
			continue
		}
		if i += 2; i >= len(keys) || keys[i] != 'A' && keys[i] != 'B' {
			return
		}
		w.key(keys[i])
	}
}

func (w *watcher) key(key byte) {
	w.said = ""
	switch {
	case w.asking != nil:
		if key == 'y' || key == 'Y' {
			w.said = "stopping " + label(w.asking) + " ..."
			go w.stop(w.asking)
		}
		w.asking = nil
	case key == 'q':
		w.over = true
	case key == 'j' || key == 'B':
		w.place++
		w.choose()
	case key == 'k' || key == 'A':
		w.place--
		w.choose()
	case key == 's' || key == 'x':
		w.asking = w.chosen
	}
}

// stopTimeout is how long a stop may take.
const stopTimeout = 15 * time.Second

// stop stops one session, as mcp-tether stop does. Another user may have written down the same id.
func (w *watcher) stop(l *Session) {
	defer w.guard()
	said := "no more there: " + label(l)
	seen, err := See(w.dir, nil)
	if err != nil {
		said = display.Error(err)
	} else {
		defer seen.Close()
	}
	all := seen.Sessions
	for i := range all {
		if all[i].ID != l.ID || all[i].UID != l.UID {
			continue
		}
		said = "ended " + label(l)
		if stopped := StopAs(all[i:i+1], os.Getuid(), stopTimeout); !stopped[0].Ended {
			said = label(l) + ": " + display.Text(stopped[0].Error)
		}
	}
	w.do <- func() { w.said = said }
	select {
	case w.again <- struct{}{}:
	default:
	}
}

// label names a session on the screen.
func label(l *Session) string { return strings.TrimSpace(display.Text(l.ID + " " + l.Name)) }

// draw shows everything in one write, over what is there: an empty screen in between would flicker.
func (w *watcher) draw() {
	width, height, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil || width == 0 || height == 0 {
		width, height = 80, 24
	}
	v := View{Tree: true, Users: os.Getuid() == 0, Width: width}
	lines := linesOf(w.all, v)
	at := w.find(lines)
	out := "\x1b[H"
	show := func(colour, text string) { out += colour + v.cut(text) + "\x1b[m\x1b[K\r\n" }
	show(display.Bold, "mcp-tether ps  "+time.Now().Format(time.TimeOnly))
	show(display.Bold, "  "+lines[0].Text)
	missing := w.missing[:min(len(w.missing), height/4)]
	from, to := window(at, len(lines), height-3-len(missing))
	for i := from; i < to; i++ {
		mark := "  "
		if i == at {
			mark = "> "
		}
		show(colour(&lines[i], i == at), mark+lines[i].Text)
	}
	for _, m := range missing {
		show("", "not complete: "+m)
	}
	out += v.cut(w.footer(len(lines)-1-(to-from))) + "\x1b[J"
	if _, err := os.Stdout.WriteString(out); err != nil {
		w.err, w.over = err, true
	}
}

// find looks for the chosen session in a new list, and gives its line; where it is gone, another one takes its place.
func (w *watcher) find(lines []line) (at int) {
	w.heads = nil
	for i := range lines {
		if l := lines[i].Session; l != nil {
			if w.chosen != nil && l.ID == w.chosen.ID && l.UID == w.chosen.UID {
				w.place = len(w.heads)
			}
			w.heads = append(w.heads, l)
		}
	}
	w.choose()
	return slices.IndexFunc(lines, func(l line) bool { return l.Session != nil && l.Session == w.chosen })
}

// choose takes the session at a place, or at the nearest there is.
func (w *watcher) choose() {
	w.place, w.chosen = max(min(w.place, len(w.heads)-1), 0), nil
	if len(w.heads) > 0 {
		w.chosen = w.heads[w.place]
	}
}

// window says which lines below the first fit the height: from the top if the chosen one is among them, or else from that one on.
func window(at, lines, height int) (from, to int) {
	from = 1
	if at > height {
		from = max(min(at, lines-height), 1)
	}
	return from, min(from+max(height, 0), lines)
}

// colour is how a line is shown. Without colours it is bold or inverse all the same.
func colour(l *line, chosen bool) string {
	switch {
	case chosen:
		return display.Inverse
	case l.Gateway:
		return display.Bold
	case l.Session == nil || os.Getenv("NO_COLOR") != "":
		return ""
	case l.Session.State == session.StateRunning:
		return display.Green
	case l.Session.State == session.StateEnding:
		return display.Yellow
	}
	return display.Cyan
}

func (w *watcher) footer(hidden int) string {
	keys := "q: quit"
	switch {
	case w.asking != nil:
		return "Stop " + label(w.asking) + "? y/n"
	case w.said != "":
		return w.said
	case w.before == nil:
		keys = "Ctrl-C: quit"
	case w.chosen != nil:
		keys = "up, down: select   s: stop   q: quit"
	}
	switch {
	case w.all == nil:
		return "reading the sessions   " + keys
	case w.chosen == nil:
		return "no living sessions   " + keys
	case hidden > 0:
		return fmt.Sprintf("%s   (%d more lines)", keys, hidden)
	}
	return keys
}
