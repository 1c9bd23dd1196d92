package proxy

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"mcp-tether/internal/engine"
	"mcp-tether/internal/jsonedit"
)

// relabel adds labels to the JSON object of a create, under key, and returns it with the request id that it now carries.
//
// The engines decode with encoding/json. For it "labels" in any case is the same member, and later ones add to earlier
// ones. So they all become one, with the labels of add on top, and all other members stay as they are. A text that is not
// one JSON object is an error: another reader might see labels in it that this one does not.
//
// A body with the labels of a session comes from another mcp-tether, whose session is inside of this one. It keeps
// those labels. That it borrows volumes is always said, because volumes of others are at stake.
func relabel(object []byte, key string, add map[string]string) (out []byte, request string, err error) {
	values, err := jsonedit.Values(object, strings.EqualFold, key)
	if err != nil {
		return nil, "", err
	}
	var labels map[string]string
	for _, value := range values {
		if err := json.Unmarshal(value, &labels); err != nil {
			return nil, "", fmt.Errorf("member %q: %w", key, err)
		}
	}
	if labels[engine.LabelSession] == "" || labels[engine.LabelRequest] == "" {
		if labels == nil {
			labels = map[string]string{}
		}
		maps.Copy(labels, add)
	}
	if volumes := add[engine.LabelVolumes]; volumes != "" {
		labels[engine.LabelVolumes] = volumes
	}
	text, err := json.Marshal(labels)
	if err != nil {
		return nil, "", err
	}
	out, err = jsonedit.Set(object, text, strings.EqualFold, key)
	return out, labels[engine.LabelRequest], err
}
