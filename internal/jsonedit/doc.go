// Package jsonedit reads JSON, and JSON5, and says where each value stands. So single values can be replaced, and every other
// byte stays as it is: the order and spelling of members, white space, and numbers that a decoder would round.
package jsonedit
