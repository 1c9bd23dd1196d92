package cgroup

// Prefix begins the name of every leaf of ours; the session id follows.
const Prefix = "mcp-tether-"
