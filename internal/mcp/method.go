package mcp

// Methods that mean something to a relay. Those of tasks are of 2025-11-25 (basic/utilities/tasks); MethodTaskExtension and
// MethodTasksUpdate are of the extension that came later (SEP-2663).
const (
	MethodPing       = "ping"
	MethodInitialize = "initialize"
	MethodDiscover   = "server/discover"
	MethodSetLevel   = "logging/setLevel"
	MethodRoots      = "roots/list"

	MethodSubscribe   = "resources/subscribe"
	MethodUnsubscribe = "resources/unsubscribe"
	MethodListen      = "subscriptions/listen"

	MethodTasksGet    = "tasks/get"
	MethodTasksResult = "tasks/result"
	MethodTasksCancel = "tasks/cancel"
	MethodTasksList   = "tasks/list"
	MethodTasksUpdate = "tasks/update"

	MethodInitialized   = "notifications/initialized"
	MethodCancelled     = "notifications/cancelled"
	MethodProgress      = "notifications/progress"
	MethodLog           = "notifications/message"
	MethodUpdated       = "notifications/resources/updated"
	MethodRootsChanged  = "notifications/roots/list_changed"
	MethodAcknowledged  = "notifications/subscriptions/acknowledged"
	MethodTaskStatus    = "notifications/tasks/status"
	MethodTaskExtension = "notifications/tasks"
)

// Keys of _meta from 2026-07-28 on (basic/index, "_meta"; SEP-2663), and MetaTask of 2025-11-25 (basic/utilities/tasks,
// "Associating Messages").
const (
	MetaVersion      = "io.modelcontextprotocol/protocolVersion"
	MetaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaSubscription = "io.modelcontextprotocol/subscriptionId"
	MetaLogLevel     = "io.modelcontextprotocol/logLevel"
	MetaTask         = "io.modelcontextprotocol/related-task"
	TasksExtension   = "io.modelcontextprotocol/tasks"
)

// Rule is what a method means to who stands between client and server.
type Rule struct {
	// About names the member of params that it is about.
	About string
	// Keeps says that the server keeps what it was told.
	Keeps bool
	// List is the list that it asks for: "tools", "prompts", "resources" or "resources/templates".
	List string
	// Work says that a server might judge it by the client's roots.
	Work bool
}

// RuleOf is the rule of a method. One that is not known is work, and may ask for a task.
func RuleOf(method string) Rule {
	switch method {
	case MethodInitialize:
		return Rule{Keeps: true}
	case MethodSubscribe, MethodUnsubscribe:
		return Rule{About: "uri", Keeps: true}
	case MethodSetLevel:
		return Rule{About: "level", Keeps: true}
	case MethodPing, MethodDiscover, MethodListen:
		return Rule{}
	case "tools/list", "prompts/list", "resources/list", "resources/templates/list":
		return Rule{List: method[:len(method)-len("/list")]}
	case MethodTasksGet, MethodTasksResult, MethodTasksCancel, MethodTasksUpdate, MethodTaskStatus:
		return Rule{About: AboutTask, Work: true}
	case MethodCancelled:
		return Rule{About: "requestId"}
	case MethodProgress:
		return Rule{About: "progressToken"}
	}
	return Rule{About: AboutNew, Work: true}
}

// AboutTask is Rule.About of what is about a task, AboutNew of what may begin one.
const (
	AboutTask = "taskId"
	AboutNew  = "task"
)
