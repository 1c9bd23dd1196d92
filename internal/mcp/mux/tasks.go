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
	client  *client
	running bool
	// n is the token that the server knows, token the client's.
	n     int64
	token string
}

func newTasks() tasks {
	return tasks{known: map[string]*task{}, tokens: map[int64]*task{}, ofClients: map[kept]*client{}}
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
	id, begun := m.newTask(msg)
	if id == "" {
		return
	}
	t := &task{client: k.client, running: true, n: k.n, token: k.token}
	m.tasks.known[id] = t
	if t.token != "" {
		m.tasks.tokens[t.n] = t
	}
	m.tasks.status(id, textOf(msg.Raw, within(msg.Raw, begun, "status")))
}

// newTask is the task that an answer says has begun; its id is "" if there is none that was not known.
func (m *Mux) newTask(msg mcp.Message) (id string, begun span) {
	result := at(msg.Raw, "result")
	begun = within(msg.Raw, result, "task")
	if begun.to == 0 && textOf(msg.Raw, within(msg.Raw, result, "resultType")) == "task" {
		begun = result
	}
	if id = textOf(msg.Raw, within(msg.Raw, begun, "taskId")); m.tasks.known[id] != nil {
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

// status takes what is said of a task.
func (t *tasks) status(id, status string) {
	known := t.known[id]
	if known == nil || !known.running || status != "completed" && status != "failed" && status != "cancelled" {
		return
	}
	known.running = false
	delete(t.tokens, known.n)
}

// abandonTasks cancels the tasks of a client that has left. No other client can see them.
func (m *Mux) abandonTasks(c *client) {
	for _, id := range slices.Sorted(maps.Keys(m.tasks.known)) {
		t := m.tasks.known[id]
		if t.client != c {
			continue
		}
		delete(m.tasks.known, id)
		delete(m.tasks.tokens, t.n)
		if t.running {
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
	const longest, most = 1 << 10, 10_000
	if id == "" || len(id) > longest || len(t.ofClients) >= most {
		return
	}
	if owner, taken := t.ofClients[kept{kind, id}]; taken && owner != c {
		c = nil
	}
	t.ofClients[kept{kind, id}] = c
}

// ownTasks reduces a list of tasks to those of the client that asked.
func (m *Mux) ownTasks(k *call, msg mcp.Message) edit {
	list := at(msg.Raw, "result", "tasks")
	if list.to == 0 || msg.Raw[list.from] != '[' {
		return edit{}
	}
	var own [][]byte
	eachElement(msg.Raw, list, func(element span) {
		if id := textOf(msg.Raw, within(msg.Raw, element, "taskId")); k.client != nil && m.tasks.owns(k.client, id) {
			own = append(own, element.of(msg.Raw))
			m.tasks.status(id, textOf(msg.Raw, within(msg.Raw, element, "status")))
		}
	})
	return edit{list, "[" + string(bytes.Join(own, []byte(","))) + "]"}
}
