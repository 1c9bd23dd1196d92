package mux

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"mcp-tether/internal/mcp"
)

// tasks are the work that outlives the call that began it (2025-11-25, basic/utilities/tasks; later the extension
// io.modelcontextprotocol/tasks, SEP-2663). A task belongs to its client alone.
type tasks struct {
	known map[string]*task
	// tokens has tasks that report their progress, by the token that the server knows.
	tokens map[int64]*task
	// ofClients are the clients that keep tasks for the server, by the task's id; nil if two clients use the same id.
	ofClients map[string]*client
	// abandoned counts tasks of clients that have left and may still run.
	abandoned int
}

type task struct {
	client  *client
	running bool
	// n is the token that the server knows, token the client's.
	n     int64
	token string
}

func newTasks() tasks {
	return tasks{known: map[string]*task{}, tokens: map[int64]*task{}, ofClients: map[string]*client{}}
}

func (t *tasks) owns(c *client, id string) bool {
	known := t.known[id]
	return known != nil && known.client == c
}

// mayTask reports whether a request may be answered with a task. In 2025-11-25 the request asks for one; where tasks
// are an extension, it says that the client knows them.
func (m *Mux) mayTask(r request) bool {
	if r.target.to > 0 && target(r.msg.Method) == "task" {
		return true
	}
	if r.version.to == 0 {
		return false
	}
	capabilities := within(r.msg.Raw, r.meta, mcp.MetaCapabilities)
	return within(r.msg.Raw, within(r.msg.Raw, capabilities, "extensions"), mcp.TasksExtension).to > 0
}

// taskNews takes what an answer says of tasks.
func (m *Mux) taskNews(k *call, msg mcp.Message) {
	switch {
	case k.mayTask && !msg.IsError:
		m.taskBegun(k, msg)
	case k.method == mcp.MethodTasksResult:
		m.tasks.status(k.target, "completed")
	case k.method == mcp.MethodTasksCancel && (k.own || !msg.IsError):
		m.tasks.status(k.target, "cancelled")
	case msg.IsError && (k.method == mcp.MethodTasksGet || k.method == mcp.MethodTasksCancel) && errorCode(msg) == codeParams:
		// There is no such task any more, or it has ended (2025-11-25, basic/utilities/tasks, "Protocol Errors").
		m.tasks.status(k.target, "completed")
	case target(k.method) == "taskId" && !msg.IsError:
		m.tasks.status(k.target, textOf(msg.Raw, at(msg.Raw, "result", "status")))
	}
}

// errorCode is the code of an error, 0 if it cannot be read.
func errorCode(msg mcp.Message) int {
	code := at(msg.Raw, "error", "code")
	n, _ := strconv.Atoi(string(code.of(msg.Raw)))
	return n
}

func (m *Mux) taskBegun(k *call, msg mcp.Message) {
	result := at(msg.Raw, "result")
	begun := within(msg.Raw, result, "task")
	if begun.to == 0 && textOf(msg.Raw, within(msg.Raw, result, "resultType")) == "task" {
		begun = result
	}
	id := textOf(msg.Raw, within(msg.Raw, begun, "taskId"))
	if id == "" || m.tasks.known[id] != nil {
		return
	}
	t := &task{client: k.client, running: true, n: k.n, token: k.token}
	m.tasks.known[id] = t
	if k.client == nil {
		m.tasks.abandoned++
		m.cancelTask(id)
	} else {
		k.client.running++
		k.client.tasks++
		m.tasks.makeRoom(k.client, m.limits.Kept)
	}
	if t.token != "" {
		m.tasks.tokens[t.n] = t
	}
	m.tasks.status(id, textOf(msg.Raw, within(msg.Raw, begun, "status")))
}

// makeRoom forgets the tasks of a client that have ended, if it has too many.
func (t *tasks) makeRoom(c *client, most int) {
	if c.tasks <= most {
		return
	}
	for id, known := range t.known {
		if known.client == c && !known.running {
			delete(t.known, id)
			c.tasks--
		}
	}
}

// status takes what is said of a task.
func (t *tasks) status(id, status string) {
	known := t.known[id]
	if known == nil || !known.running || status != "completed" && status != "failed" && status != "cancelled" {
		return
	}
	known.running = false
	delete(t.tokens, known.n)
	if known.client != nil {
		known.client.running--
		return
	}
	t.abandoned--
	delete(t.known, id)
}

// abandonTasks cancels the tasks of a client that has left. No other client can see them.
func (m *Mux) abandonTasks(c *client) {
	for _, id := range slices.Sorted(maps.Keys(m.tasks.known)) {
		t := m.tasks.known[id]
		if t.client != c {
			continue
		}
		t.client = nil
		if !t.running {
			delete(m.tasks.known, id)
			continue
		}
		m.tasks.abandoned++
		m.cancelTask(id)
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

// ofClient takes the news that a client keeps a task for the server.
func (t *tasks) ofClient(c *client, id string) {
	const longest, most = 1 << 10, 10_000
	if id == "" || len(id) > longest || len(t.ofClients) >= most {
		return
	}
	if owner, taken := t.ofClients[id]; taken && owner != c {
		c = nil
	}
	t.ofClients[id] = c
}

// ownTasks reduces a list of tasks to those of the client that asked.
func (m *Mux) ownTasks(k *call, msg mcp.Message) edit {
	list := at(msg.Raw, "result", "tasks")
	if list.to == 0 || msg.Raw[list.from] != '[' {
		return edit{}
	}
	var own [][]byte
	o := members{text: msg.Raw[:list.to]}
	for i := o.skip(list.from+1, " \t\r,"); i < list.to && msg.Raw[i] != ']'; i = o.skip(i, " \t\r,") {
		element := span{i, o.end(i)}
		if element.to <= i {
			break
		}
		if id := textOf(msg.Raw, within(msg.Raw, element, "taskId")); k.client != nil && m.tasks.owns(k.client, id) {
			own = append(own, element.of(msg.Raw))
			m.tasks.status(id, textOf(msg.Raw, within(msg.Raw, element, "status")))
		}
		i = element.to
	}
	return edit{list, "[" + string(bytes.Join(own, []byte(","))) + "]"}
}
