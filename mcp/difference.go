package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// difference names the first difference of two JSON values, such as "capabilities.tools.listChanged was true and is
// missing", or "" if they are equal. The order of keys does not count. nil is a missing value.
func difference(path string, before, now json.RawMessage) string {
	var a, b any
	okA, okB := json.Unmarshal(before, &a) == nil, json.Unmarshal(now, &b) == nil
	if !okA && !okB {
		return ""
	}
	objectA, isA := a.(map[string]any)
	objectB, isB := b.(map[string]any)
	if isA && isB {
		return differentMember(path, objectA, objectB)
	}
	if okA == okB && reflect.DeepEqual(a, b) {
		return ""
	}
	return fmt.Sprintf("%s was %s and is %s", path, show(before), show(now))
}

func differentMember(path string, before, now map[string]any) string {
	keys := slices.Concat(slices.Collect(maps.Keys(before)), slices.Collect(maps.Keys(now)))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		if d := difference(path+"."+key, encode(before, key), encode(now, key)); d != "" {
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

// show shortens a value for a log line.
func show(raw json.RawMessage) string {
	const longest = 100
	switch {
	case raw == nil:
		return "missing"
	case len(raw) > longest:
		return fmt.Sprintf("%.*s...", longest, raw)
	}
	return string(raw)
}
