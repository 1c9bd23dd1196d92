package cgroup

// Prefix begins the name of every leaf that mcp-tether makes; the session id follows.
const Prefix = "mcp-tether-"
