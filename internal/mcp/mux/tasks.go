package mux

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"mcp-tether/internal/mcp"
)

// task is work that outlives the call that began it (2025-11-25, basic/utilities/tasks; later the extension
// io.modelcontextprotocol/tasks, SEP-2663). It belongs to the client that began it, as long as that is there.
type task struct {
	client *client
	// ended: a status or its result has said so. What says nothing goes on. fetched: its client needs the server no more for it.
	ended, fetched bool
	// ours is the token that the server knows, token the client's.
	ours, token string
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
	capabilities := r.msg.Within(r.meta, mcp.MetaCapabilities)
	return r.msg.Within(capabilities, "extensions", mcp.TasksExtension).To > 0
}

// taskNews takes what an answer says of tasks.
func (m *Mux) taskNews(k *call, msg mcp.Message) {
	switch t := m.server.tasks[k.target]; {
	case k.mayTask && !msg.IsError:
		m.taskBegun(k, msg)
	case t != nil && (k.method == mcp.MethodTasksResult || k.method == mcp.MethodTasksCancel && !msg.IsError):
		t.ended, t.fetched = true, true
	case k.rule.About == mcp.AboutTask && !msg.IsError:
		m.server.taskStatus(k.target, msg.Text(msg.Result, "status"))
	}
}

func (m *Mux) taskBegun(k *call, msg mcp.Message) {
	begun := msg.Within(msg.Result, "task")
	if begun.To == 0 && msg.Text(msg.Result, "resultType") == "task" {
		begun = msg.Result
	}
	id := msg.Text(begun, "taskId")
	if id == "" || m.server.tasks[id] != nil {
		return
	}
	m.server.tasks[id] = &task{client: k.client, ours: k.ours, token: k.token}
	m.server.taskStatus(id, msg.Text(begun, "status"))
}

// taskStatus takes what is said of a task.
func (s *server) taskStatus(id, status string) {
	if t := s.tasks[id]; t != nil {
		t.ended = t.ended || status == "completed" || status == "failed" || status == "cancelled"
	}
}

// abandonTasks cancels the tasks of a client that has left. No other client can see them.
func (m *Mux) abandonTasks(c *client) {
	for _, id := range slices.Sorted(maps.Keys(m.server.tasks)) {
		t := m.server.tasks[id]
		if t.client != c {
			continue
		}
		delete(m.server.tasks, id)
		if !t.ended {
			m.askOwn(mcp.MethodTasksCancel, id, fmt.Sprintf(`{"taskId":%s}`, mcp.Quote(id)))
		}
	}
}

// ownTasks reduces a list of tasks to those of the client that asked.
func (m *Mux) ownTasks(k *call, msg mcp.Message) mcp.Edit {
	list := msg.Within(msg.Result, "tasks")
	var all []json.RawMessage
	_ = json.Unmarshal(list.Of(msg.Raw), &all) // What cannot be read is of nobody.
	own := []json.RawMessage{}
	for _, one := range all {
		if t := m.server.tasks[mcp.TextOf(one, mcp.At(one, "taskId"))]; t != nil && t.client == k.client {
			own = append(own, one)
		}
	}
	text, _ := json.Marshal(own)
	return replace(list, string(text))
}
