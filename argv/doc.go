// Package argv knows mcp-tether's own command lines, as far as they must be understood without a flag parser: what an
// anchor asks before it starts the supervisor, what it hands over, and what others read in the process table or in a
// gateway's configuration.
package argv
