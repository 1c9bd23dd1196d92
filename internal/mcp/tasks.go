package mcp

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// task is work that continues after its request was answered (2025-11-25, basic/utilities/tasks; later the extension
// io.modelcontextprotocol/tasks, SEP-2663).
type task struct {
	// terminal says that it has completed or failed. A cancelled task is not kept, nor one whose result was fetched.
	terminal bool
	// extension says that the task is of the extension, where its end comes with its result.
	extension bool
	created   time.Time
	// ttl counts from created; after it the result may be gone. Negative: never.
	ttl time.Duration
}

// done reports whether the server is no longer needed for the task. A task that has not been seen to end blocks past its
// ttl: it may still run.
func (t task) done(now time.Time) bool {
	return t.terminal && t.ttl >= 0 && !now.Before(t.created.Add(t.ttl))
}

// tasks are the tasks that one side asked for, by id.
type tasks map[string]task

// created looks for a task in the answer to a request: {"task": {...}} in 2025-11-25, the result itself with the
// resultType "task" in the extension. A result that is too large to keep counts as no task.
func (t *tasks) created(result json.RawMessage, now time.Time) {
	raw, extension := ValueAt(result, "task"), false
	if !isObject(raw) {
		raw, extension = result, textAt(result, "resultType") == "task"
		if !extension {
			return
		}
	}
	id := textAt(raw, "taskId")
	if id == "" {
		return
	}
	if *t == nil {
		*t = tasks{}
	}
	(*t)[id] = task{extension: extension, created: now, ttl: -1}
	t.status(raw)
}

// status takes what is said of a task in an answer, a list or a notification.
func (t *tasks) status(raw json.RawMessage) {
	id := textAt(raw, "taskId")
	known, ok := (*t)[id]
	if !ok {
		return
	}
	known.updateTTL(raw)
	switch textAt(raw, "status") {
	case "cancelled":
		// The server may delete it at once, and clients should not rely on it ("Task Cancellation").
		delete(*t, id)
		return
	case "completed", "failed":
		known.terminal = true
	}
	(*t)[id] = known
}

// updateTTL reads ttl (2025-11-25) or ttlMs (the extension): milliseconds, null for unlimited.
func (t *task) updateTTL(raw json.RawMessage) {
	for _, key := range []string{"ttl", "ttlMs"} {
		var ms *float64
		if value := ValueAt(raw, key); value == nil || json.Unmarshal(value, &ms) != nil {
			continue
		}
		t.ttl = -1
		if ms != nil && *ms >= 0 && *ms < float64(1<<62/time.Millisecond) {
			t.ttl = time.Duration(*ms * float64(time.Millisecond))
		}
	}
}

// asked takes the answer to a request about a task.
func (t *tasks) asked(r request, m Message) {
	known, ok := (*t)[r.target]
	result := ValueAt(m.Raw, "result")
	switch {
	case r.method == MethodTasksList:
		t.listed(result)
	case !ok:
	case r.method == MethodTasksResult:
		// "MUST return ... exactly what the underlying request would have returned", also an error, and not before the end.
		delete(*t, r.target)
	case m.IsError:
		t.refused(r, m)
	case known.extension && r.method == MethodTasksCancel:
		// The client need not look at it again (SEP-2663, "Task Cancellation").
		delete(*t, r.target)
	default:
		t.status(result)
		t.delivered(r.target)
	}
}

// refused takes an error. -32602 says that there is no such task; for tasks/cancel also that it has ended ("Protocol
// Errors").
func (t *tasks) refused(r request, m Message) {
	const invalidParams = "-32602"
	if string(ValueAt(m.Raw, "error", "code")) != invalidParams {
		return
	}
	if r.method != MethodTasksCancel {
		delete(*t, r.target)
		return
	}
	if known, ok := (*t)[r.target]; ok {
		known.terminal = true
		(*t)[r.target] = known
	}
}

// notified takes a notification about a task.
func (t *tasks) notified(params json.RawMessage) {
	t.status(params)
	t.delivered(textAt(params, "taskId"))
}

// delivered drops a task of the extension that has ended: its result came with the news and need not be fetched.
func (t *tasks) delivered(id string) {
	if known := (*t)[id]; known.extension && known.terminal {
		delete(*t, id)
	}
}

func (t *tasks) listed(result json.RawMessage) {
	var list []json.RawMessage
	if value := ValueAt(result, "tasks"); value == nil || json.Unmarshal(value, &list) != nil {
		return
	}
	for _, raw := range list {
		t.status(raw)
	}
}

// unfinished says for the log which tasks keep the server awake. Tasks that are done are forgotten.
func (t tasks) unfinished(side string, now time.Time) string {
	var running, unfetched int
	for id, known := range t {
		switch {
		case known.done(now):
			delete(t, id)
		case known.terminal:
			unfetched++
		default:
			running++
		}
	}
	switch {
	case running > 0:
		return fmt.Sprintf("%s of the %s running", count(running, "task"), side)
	case unfetched > 0:
		return fmt.Sprintf("%s of the %s with a result that was not fetched", count(unfetched, "task"), side)
	}
	return ""
}

// aboutTasks reports whether a method asks about tasks.
func aboutTasks(method string) bool {
	return slices.Contains([]string{MethodTasksGet, MethodTasksResult, MethodTasksCancel, MethodTasksList}, method)
}
