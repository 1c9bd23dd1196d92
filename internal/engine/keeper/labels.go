package keeper

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"
)

// members are those of a JSON object. What is in them stays as it was written.
type members map[string]json.RawMessage

// take removes a member, in whatever case its name is written, and decodes it. The engines decode with encoding/json, for
// which that is the same member.
func (m members) take(name string, into any) error {
	for key, value := range m {
		if !strings.EqualFold(key, name) {
			continue
		}
		if err := json.Unmarshal(value, into); err != nil {
			return fmt.Errorf("member %q: %w", key, err)
		}
		delete(m, key)
	}
	return nil
}

// put sets a member.
func (m members) put(name string, value any) error {
	text, err := json.Marshal(value)
	m[name] = text
	return err
}

// label adds our labels to the body of a create. A text that is not one JSON object is an error: another reader might see
// labels in it that this one does not.
func (p *proxy) label(body []byte, to route) ([]byte, *refusal) {
	var object members
	err := json.Unmarshal(body, &object)
	if err == nil && object == nil {
		err = io.ErrUnexpectedEOF
	}
	var labels map[string]string
	if err == nil {
		err = object.take("labels", &labels)
	}
	if err != nil {
		return nil, &refusal{badRequest, fmt.Errorf("labels cannot be added: %w", err)}
	}
	p.mountSocket(object, to)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, p.Labels()) // not earlier: they have the time, and a busy engine was asked above
	if err = object.put(to.labelsKey(), labels); err == nil {
		body, err = json.Marshal(object)
	}
	if err != nil {
		return nil, &refusal{badRequest, fmt.Errorf("labels cannot be added: %w", err)}
	}
	return body, nil
}
