// Package jsonedit reads and replaces single members of JSON texts, and leaves every other byte as it is. That includes
// the order and spelling of members, white space, and numbers that a decoder would round.
//
// Parse is the one reader: it says where each value stands, in JSON5 as well. Values and Set take JSON alone, as
// encoding/json reads it. Messages of MCP are read by package mcp: they are not held, and a value in them need not be JSON.
//
// A path names a member in objects within objects, in valid UTF-8. Which names are equal is up to the caller:
// encoding/json ignores case (strings.EqualFold), nearly all other readers do not.
package jsonedit
