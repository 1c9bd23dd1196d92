package teardown

import "time"

// State is how far the teardown of a tree has come. It only ever grows: there is no way back.
type State uint8

// The states.
const (
	Running  State = iota // the server serves
	Draining              // stdin is closed: the server may finish its answers
	Ending                // SIGTERM was sent to the tree
	Killing               // SIGKILL is sent until the tree is empty
	Done                  // nothing is left, or the time is up
	states
)

// String names the state for the log.
func (s State) String() string {
	return [states]string{"running", "draining", "ending", "killing", "done"}[s]
}

// Event is what the supervisor has seen.
type Event uint8

// The events.
const (
	StdinClosed  Event = iota // the gateway closed the server's stdin
	MustEnd                   // an ending signal: the gateway waits
	OwnerGone                 // gateway, anchor, supervisor or stdout's reader gone: nobody waits
	Insist                    // the same request again from a terminal: no more waiting
	ServerExited              // the server ended by itself; other members may be left
	TreeEmpty                 // no process of the tree is left
	TimeUp                    // the deadline of the state has passed
	events
)

// Action is what the supervisor must do now.
type Action uint8

// The actions.
const (
	Nothing   Action = iota
	Terminate        // SIGTERM, then SIGCONT, to every member
	Kill             // SIGKILL to every member, and again until told otherwise
)

// Grace holds the time limits of a teardown, each 0 or more.
type Grace struct {
	EOF  time.Duration // Draining
	Term time.Duration // Ending, while the gateway waits
	Gone time.Duration // Ending, when nobody waits
	Kill time.Duration // Killing
}

type move struct {
	to State
	do Action
}

// table is the whole policy. A repeated request is the same request: it moves nothing and restarts no clock. Only when the
// gateway has gone meanwhile, which waits for no answer any more, the time may be shorter.
var table = [states][events]move{
	Running: {
		StdinClosed:  {Draining, Nothing},
		MustEnd:      {Ending, Terminate},
		OwnerGone:    {Ending, Terminate},
		Insist:       {Ending, Terminate},
		ServerExited: {Ending, Terminate},
		TreeEmpty:    {Done, Nothing},
		TimeUp:       {Running, Nothing},
	},
	Draining: {
		StdinClosed:  {Draining, Nothing},
		MustEnd:      {Ending, Terminate},
		OwnerGone:    {Ending, Terminate},
		Insist:       {Ending, Terminate},
		ServerExited: {Ending, Terminate},
		TreeEmpty:    {Done, Nothing},
		TimeUp:       {Ending, Terminate},
	},
	Ending: {
		StdinClosed:  {Ending, Nothing},
		MustEnd:      {Ending, Nothing},
		OwnerGone:    {Ending, Nothing},
		Insist:       {Killing, Kill},
		ServerExited: {Ending, Nothing},
		TreeEmpty:    {Done, Nothing},
		TimeUp:       {Killing, Kill},
	},
	Killing: {
		StdinClosed:  {Killing, Nothing},
		MustEnd:      {Killing, Nothing},
		OwnerGone:    {Killing, Nothing},
		Insist:       {Killing, Nothing},
		ServerExited: {Killing, Nothing},
		TreeEmpty:    {Done, Nothing},
		TimeUp:       {Done, Nothing},
	},
	Done: {
		StdinClosed:  {Done, Nothing},
		MustEnd:      {Done, Nothing},
		OwnerGone:    {Done, Nothing},
		Insist:       {Done, Nothing},
		ServerExited: {Done, Nothing},
		TreeEmpty:    {Done, Nothing},
		TimeUp:       {Done, Nothing},
	},
}

// Machine runs the policy for one tree. The zero value with Grace set is a running server.
type Machine struct {
	Grace Grace
	State State
	// Deadline is when TimeUp is due; zero when nothing is.
	Deadline time.Time
	// Began is when the teardown began: with the first event that changed the state.
	Began time.Time
}

// Step takes an event and returns what to do. Entering a state sets its deadline.
func (m *Machine) Step(now time.Time, ev Event) Action {
	mv := table[m.State][ev]
	if mv.to == m.State {
		if ev == OwnerGone && m.State == Ending {
			m.Deadline = earlier(m.Deadline, now.Add(m.Grace.Gone))
		}
		return mv.do
	}
	if m.Began.IsZero() {
		m.Began = now
	}
	m.State = mv.to
	switch mv.to {
	case Draining:
		m.Deadline = now.Add(m.Grace.EOF)
	case Ending:
		m.Deadline = now.Add(m.Grace.ending(ev))
	case Killing:
		m.Deadline = now.Add(m.Grace.Kill)
	default:
		m.Deadline = time.Time{}
	}
	return mv.do
}

// ending is how long Ending lasts after an event.
func (g *Grace) ending(ev Event) time.Duration {
	if ev == OwnerGone || ev == ServerExited {
		return g.Gone
	}
	return g.Term
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Due reports whether the deadline has passed.
func (m *Machine) Due(now time.Time) bool {
	return !m.Deadline.IsZero() && !now.Before(m.Deadline)
}
