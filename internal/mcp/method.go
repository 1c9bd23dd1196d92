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
	MethodElicited      = "notifications/elicitation/complete"
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
