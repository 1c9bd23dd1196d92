package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Lost names the first thing that a client which knows one answer to initialize would miss with another: the same version, a
// capability, or a flag of one that was true. It is "" if there is none. What is experimental is in no version of the protocol.
func Lost(before, now json.RawMessage) string {
	const version = "protocolVersion"
	if a, b := ValueAt(before, version), ValueAt(now, version); !SameJSON(a, b) {
		return fmt.Sprintf("%s was %s and is %s", version, show(a), show(b))
	}
	had, has := flagsOf(before), flagsOf(now)
	for _, name := range slices.Sorted(maps.Keys(had)) {
		if _, there := has[name]; !there {
			return fmt.Sprintf("capabilities.%s is missing", name)
		}
		for _, flag := range slices.Sorted(maps.Keys(had[name])) {
			if had[name][flag] == true && has[name][flag] != true {
				return fmt.Sprintf("capabilities.%s.%s was true and is not", name, flag)
			}
		}
	}
	return ""
}

// flagsOf are the capabilities of an answer to initialize, with their members.
func flagsOf(result json.RawMessage) map[string]map[string]any {
	var all map[string]json.RawMessage
	_ = json.Unmarshal(ValueAt(result, "capabilities"), &all)
	flags := map[string]map[string]any{}
	for name, value := range all {
		var members map[string]any
		if json.Unmarshal(value, &members) == nil && members != nil && name != "experimental" {
			flags[name] = members
		}
	}
	return flags
}

// show shortens a value for a line of the log.
func show(raw json.RawMessage) string {
	if raw == nil {
		return "missing"
	}
	return fmt.Sprintf("%.100s", raw)
}

// SameJSON reports whether two values are equal, whatever the order of their keys.
func SameJSON(before, now json.RawMessage) bool { return Canonical(before) == Canonical(now) }

// Canonical is one spelling for all texts of a JSON value; "" if there is none, or it cannot be read.
func Canonical(value json.RawMessage) string {
	var v any
	if json.Unmarshal(value, &v) != nil {
		return ""
	}
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b)
}
