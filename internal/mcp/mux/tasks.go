package mux

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"mcp-tether/internal/mcp"
)

// tasks are the work that outlives the call that began it (2025-11-25, basic/utilities/tasks; later the extension
// io.modelcontextprotocol/tasks, SEP-2663). A task belongs to the client that began it, as long as that is there.
type tasks struct {
	known map[string]*task
	// ofClients are the clients that do tasks for the server, by the id of the task.
	ofClients map[string]*client
}

type task struct {
	client *client
	// ended: a status or its result has said so. What says nothing goes on. fetched: its client needs the server no more for it.
	ended, fetched bool
	// ours is the token that the server knows, token the client's.
	ours, token string
}

func newTasks() tasks { return tasks{known: map[string]*task{}, ofClients: map[string]*client{}} }

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
	switch t := m.tasks.known[k.target]; {
	case k.mayTask && !msg.IsError:
		m.taskBegun(k, msg)
	case t != nil && (k.method == mcp.MethodTasksResult || k.method == mcp.MethodTasksCancel && !msg.IsError):
		t.ended, t.fetched = true, true
	case k.rule.About == mcp.AboutTask && !msg.IsError:
		m.tasks.status(k.target, mcp.TextOf(msg.Raw, mcp.At(msg.Raw, "result", "status")))
	}
}

func (m *Mux) taskBegun(k *call, msg mcp.Message) {
	begun := mcp.Within(msg.Raw, msg.Result, "task")
	if begun.To == 0 && mcp.TextOf(msg.Raw, mcp.Within(msg.Raw, msg.Result, "resultType")) == "task" {
		begun = msg.Result
	}
	id := mcp.TextOf(msg.Raw, mcp.Within(msg.Raw, begun, "taskId"))
	if id == "" || m.tasks.known[id] != nil {
		return
	}
	m.tasks.known[id] = &task{client: k.client, ours: k.ours, token: k.token}
	m.tasks.status(id, mcp.TextOf(msg.Raw, mcp.Within(msg.Raw, begun, "status")))
}

func hasEnded(status string) bool {
	return status == "completed" || status == "failed" || status == "cancelled"
}

// status takes what is said of a task.
func (t *tasks) status(id, status string) {
	if known := t.known[id]; known != nil {
		known.ended = known.ended || hasEnded(status)
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
			m.askOwn(mcp.MethodTasksCancel, id, fmt.Sprintf(`{"taskId":%s}`, mcp.Quote(id)))
		}
	}
	for id, owner := range m.tasks.ofClients {
		if owner == c {
			delete(m.tasks.ofClients, id)
		}
	}
}

// ownTasks reduces a list of tasks to those of the client that asked.
func (m *Mux) ownTasks(k *call, msg mcp.Message) mcp.Edit {
	list := mcp.Within(msg.Raw, msg.Result, "tasks")
	var all []json.RawMessage
	_ = json.Unmarshal(list.Of(msg.Raw), &all) // What cannot be read is of nobody.
	own := []json.RawMessage{}
	for _, one := range all {
		if t := m.tasks.known[mcp.TextOf(one, mcp.At(one, "taskId"))]; t != nil && t.client == k.client {
			own = append(own, one)
		}
	}
	text, _ := json.Marshal(own)
	return replace(list, string(text))
}
