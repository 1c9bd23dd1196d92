// Package jsonedit reads and replaces single members of JSON texts, and leaves every other byte as it is. That includes
// the order and spelling of members, white space, and numbers that a decoder would round.
//
// Parse reads what clients write of JSON5 as well, and says where each value stands.
//
// A path names a member in objects within objects, in valid UTF-8. Which names are equal is up to the caller:
// encoding/json ignores case (strings.EqualFold), nearly all other readers do not.
package jsonedit
