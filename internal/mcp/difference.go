package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Lost names the first thing that one JSON value promises and another does not; "" if the other promises as much or
// more. An example is "capabilities.tools.listChanged was true and is missing". A value that was missing, null or false
// promised nothing. The order of keys does not count, nor that of the elements of an array. nil is a missing value.
func Lost(path string, before, now json.RawMessage) string {
	var a, b any
	if json.Unmarshal(before, &a) != nil || a == nil || a == false {
		return ""
	}
	same := json.Unmarshal(now, &b) == nil
	objectA, isA := a.(map[string]any)
	objectB, isB := b.(map[string]any)
	switch {
	case isA && isB:
		return lostMember(path, objectA, objectB)
	case same && (SameJSON(before, now) || hasAll(before, now)):
		return ""
	}
	return fmt.Sprintf("%s was %s and is %s", path, Show(before, longestShown), Show(now, longestShown))
}

// hasAll reports whether both values are arrays, and the second one has each element of the first.
func hasAll(before, now json.RawMessage) bool {
	var a, b []json.RawMessage
	if json.Unmarshal(before, &a) != nil || json.Unmarshal(now, &b) != nil {
		return false
	}
	for _, x := range a {
		if !slices.ContainsFunc(b, func(y json.RawMessage) bool { return SameJSON(x, y) }) {
			return false
		}
	}
	return true
}

func lostMember(path string, before, now map[string]any) string {
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if d := Lost(path+"."+key, encode(before, key), encode(now, key)); d != "" {
			return d
		}
	}
	return ""
}

// encode gives a member as JSON, nil if there is none.
func encode(object map[string]any, key string) json.RawMessage {
	value, ok := object[key]
	if !ok {
		return nil
	}
	raw, err := json.Marshal(value)
	if err != nil { // Cannot be: the value was decoded from JSON.
		return nil
	}
	return raw
}

// longestShown is for a line of the log.
const longestShown = 100

// Show shortens a value for people to at most longest bytes.
func Show(raw json.RawMessage, longest int) string {
	switch {
	case raw == nil:
		return "missing"
	case len(raw) > longest:
		return fmt.Sprintf("%.*s...", longest, raw)
	}
	return string(raw)
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
