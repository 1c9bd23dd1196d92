package mux

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"mcp-tether/internal/mcp"
)

// tasks are the work that outlives the call that began it (2025-11-25, basic/utilities/tasks; later the extension
// io.modelcontextprotocol/tasks, SEP-2663). A task belongs to the client that began it, as long as that is there.
type tasks struct {
	known map[string]*task
	// ofClients are the clients that keep something for the server; nil if two clients use the same id.
	ofClients map[kept]*client
}

// kept is what a client keeps for the server.
type kept struct {
	kind keptKind
	id   string
}

type keptKind uint8

const (
	clientTask keptKind = iota
	elicitation
)

type task struct {
	client *client
	// ended: a status or its result has said so. What says nothing goes on. fetched: its client needs the server no more for it.
	ended, fetched bool
	// n is the token that the server knows, token the client's.
	n     int64
	token string
}

func newTasks() tasks { return tasks{known: map[string]*task{}, ofClients: map[kept]*client{}} }

func (t *tasks) owns(c *client, id string) bool {
	known := t.known[id]
	return known != nil && known.client == c
}

// reporting is the task that goes on and reports its progress with a token of ours; nil if there is none.
func (t *tasks) reporting(n int64) *task {
	for _, known := range t.known {
		if known.n == n && !known.ended && known.token != "" {
			return known
		}
	}
	return nil
}

// mayTask reports whether a request may be answered with a task. In 2025-11-25 the request asks for one; where tasks
// are an extension, it says that the client knows them.
func (m *Mux) mayTask(r request) bool {
	if r.target.To > 0 && mcp.RuleOf(r.msg.Method).About == mcp.AboutNew {
		return true
	}
	if r.version.To == 0 {
		return false
	}
	capabilities := mcp.Within(r.msg.Raw, r.meta, mcp.MetaCapabilities)
	return mcp.Within(r.msg.Raw, mcp.Within(r.msg.Raw, capabilities, "extensions"), mcp.TasksExtension).To > 0
}

// taskNews takes what an answer says of tasks.
func (m *Mux) taskNews(k *call, msg mcp.Message) {
	switch {
	case k.mayTask && !msg.IsError:
		m.taskBegun(k, msg)
	case k.method == mcp.MethodTasksResult, k.method == mcp.MethodTasksCancel && !msg.IsError:
		m.tasks.status(k.target, statusCompleted)
		m.tasks.fetched(k.target)
	case k.rule.About == mcp.AboutTask && !msg.IsError:
		m.tasks.status(k.target, mcp.TextOf(msg.Raw, mcp.At(msg.Raw, "result", "status")))
	}
}

func (m *Mux) taskBegun(k *call, msg mcp.Message) {
	id, begun := m.newTask(msg)
	if id == "" {
		return
	}
	m.tasks.known[id] = &task{client: k.client, n: k.n, token: k.token}
	m.tasks.status(id, mcp.TextOf(msg.Raw, mcp.Within(msg.Raw, begun, "status")))
}

// newTask is the task that an answer says has begun; its id is "" if there is none that was not known.
func (m *Mux) newTask(msg mcp.Message) (id string, begun mcp.Span) {
	result := mcp.At(msg.Raw, "result")
	begun = mcp.Within(msg.Raw, result, "task")
	if begun.To == 0 && mcp.TextOf(msg.Raw, mcp.Within(msg.Raw, result, "resultType")) == "task" {
		begun = result
	}
	if id = mcp.TextOf(msg.Raw, mcp.Within(msg.Raw, begun, "taskId")); m.tasks.known[id] != nil {
		return "", begun
	}
	return id, begun
}

// endLateTask cancels a task whose call was cancelled, or whose client has left.
func (m *Mux) endLateTask(msg mcp.Message) {
	if n := numberOf(msg.ID); n > 0 && n <= m.lastID {
		if id, _ := m.newTask(msg); id != "" {
			m.cancelTask(id)
		}
	}
}

const statusCompleted = "completed"

func hasEnded(status string) bool {
	return status == statusCompleted || status == "failed" || status == "cancelled"
}

// status takes what is said of a task.
func (t *tasks) status(id, status string) {
	if known := t.known[id]; known != nil {
		known.ended = known.ended || hasEnded(status)
	}
}

// fetched notes that nothing more is asked of a task: it has given its result, or is cancelled.
func (t *tasks) fetched(id string) {
	if known := t.known[id]; known != nil {
		known.fetched = true
	}
}

// abandonTasks cancels the tasks of a client that has left. No other client can see them.
func (m *Mux) abandonTasks(c *client) {
	for _, id := range slices.Sorted(maps.Keys(m.tasks.known)) {
		t := m.tasks.known[id]
		if t.client != c {
			continue
		}
		delete(m.tasks.known, id)
		if !t.ended {
			m.cancelTask(id)
		}
	}
	for id, owner := range m.tasks.ofClients {
		if owner == c {
			delete(m.tasks.ofClients, id)
		}
	}
}

func (m *Mux) cancelTask(id string) {
	m.askOwn(mcp.MethodTasksCancel, id, fmt.Sprintf(`{"taskId":%s}`, mcp.Quote(id)))
}

// ofClient takes the news that a client keeps something for the server.
func (t *tasks) ofClient(c *client, kind keptKind, id string) {
	if id == "" {
		return
	}
	if owner, taken := t.ofClients[kept{kind, id}]; taken && owner != c {
		c = nil
	}
	t.ofClients[kept{kind, id}] = c
}

// ownTasks reduces a list of tasks to those of the client that asked.
func (m *Mux) ownTasks(k *call, msg mcp.Message) mcp.Edit {
	list := mcp.At(msg.Raw, "result", "tasks")
	if list.To == 0 || msg.Raw[list.From] != '[' {
		return mcp.Edit{}
	}
	var own [][]byte
	mcp.EachElement(msg.Raw, list, func(element mcp.Span) {
		if id := mcp.TextOf(msg.Raw, mcp.Within(msg.Raw, element, "taskId")); k.client != nil && m.tasks.owns(k.client, id) {
			own = append(own, element.Of(msg.Raw))
			m.tasks.status(id, mcp.TextOf(msg.Raw, mcp.Within(msg.Raw, element, "status")))
		}
	})
	return put(list, "["+string(bytes.Join(own, []byte(",")))+"]")
}
