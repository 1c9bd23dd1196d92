// Package clients knows the gateways as clients of MCP servers: where their configuration files are, what these say
// about servers, and how a server's command line looks once it runs.
//
// A configuration is text of its owner. It says which processes to look at, and proves nothing about them; it speaks for
// its owner's processes only, unless the user of the pass named the file. What it says is kept as it stands there,
// together with the place where it stands, so that the same entry can be found again.
//
//	file.go     the known files, and reading one
//	server.go   the servers that a file configures
//	comments.go comments in JSON
//	matcher.go  does a process run one of the servers?
//	runner.go   packages, as npx, uvx and others run them
//	image.go    images, as docker and podman run them
package clients
