// Package argv knows mcp-tether's own command lines, as far as they must be understood without a flag parser. An anchor
// asks it whether an anchor is wanted and hands over to the supervisor. Other packages read command lines in the process
// table or in a gateway's configuration.
package argv
