// Package clients knows the gateways as clients of MCP servers. It knows where their configuration files are, what
// these say about servers, and how a server's command line looks once it runs.
//
// A configuration is text that its owner may write as they like. It says which processes to examine, and proves nothing
// about them. It speaks for its owner's processes only, unless the user of the pass named the file. What it says is
// kept as it is written, together with its place, so that the same entry can be found again.
//
//	known.go       the known clients, and where their files are
//	file.go        reading a file for the servers that it configures
//	tree.go        where each value of a text stands, so that a change leaves every other byte alone; json_tree.go and
//	               toml_tree.go read it
//	entry.go       where a server's entry stands in such a tree
//	wrap.go        putting mcp-tether in front of a server, and taking it away
//	verify.go      reading the new text as a client does, before it is written
//	lists.go       what an organisation allows and denies
//	document.go    a file that may be changed
//	matcher.go     does a process run one of the servers?
//	runner.go      packages, as npx, uvx and others run them
//	by_parent.go   packages that look at the process that has started them
package clients
