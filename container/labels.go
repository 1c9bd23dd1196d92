package container

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
)

var errNotObject = errors.New("not a JSON object")

// relabel adds labels to the JSON object that a create asks with, and returns it with the request id that it now carries.
//
// The engines decode with encoding/json, for which "labels" in any case is the same member, and of several the later ones
// add to the earlier; so all of them become one, under key, with the labels of add on top. Every other member stays as it
// is, byte by byte. What is no JSON object, or has more after it, is an error: another reader might see labels in it that
// this one does not.
//
// A body with the labels of a session is another mcp-tether's, whose session is inside of this one. It keeps them.
func relabel(object []byte, key string, add map[string]string) (out []byte, request string, err error) {
	var labels map[string]string
	out = append(make([]byte, 0, len(object)+1024), '{')
	err = eachMember(object, func(name string, member, value []byte) error {
		if !strings.EqualFold(name, key) {
			out = append(append(out, member...), ',')
			return nil
		}
		if err := json.Unmarshal(value, &labels); err != nil {
			return fmt.Errorf("member %q: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return nil, "", fmt.Errorf("labels cannot be added: %w", err)
	}
	request = labels[LabelRequest]
	if labels[LabelSession] == "" || request == "" {
		labels, request = merge(labels, add), add[LabelRequest]
	}
	text, err := json.Marshal(labels)
	if err != nil {
		return nil, "", fmt.Errorf("labels cannot be added: %w", err)
	}
	out = append(out, `"`+key+`":`...)
	return append(append(out, text...), '}'), request, nil
}

// merge puts add on top of labels.
func merge(labels, add map[string]string) map[string]string {
	if labels == nil {
		return add
	}
	maps.Copy(labels, add)
	return labels
}

// eachMember shows the members of a JSON object in order: the decoded name, the whole member and its value as they are
// written.
func eachMember(object []byte, see func(name string, member, value []byte) error) error {
	dec := json.NewDecoder(bytes.NewReader(object))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return errors.Join(errNotObject, cutShort(err))
	}
	for dec.More() {
		start := dec.InputOffset()
		name, err := dec.Token()
		if err != nil {
			return cutShort(err)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return cutShort(err)
		}
		member := bytes.TrimLeft(object[start:dec.InputOffset()], " \t\r\n,")
		if err := see(name.(string), member, value); err != nil { // a member's name is a string, or Token fails
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return cutShort(err)
	}
	if rest := bytes.TrimLeft(object[dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return fmt.Errorf("%w: %.40q after its end", errNotObject, rest)
	}
	return nil
}

// cutShort names the end of input for what it is here.
func cutShort(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// isAttached tells whether a container is created for a client that stays with it. Podman's own API has no word for
// that; a client that wants to talk to the container asks for its standard input or a terminal.
func isAttached(object []byte) (bool, error) {
	var x struct{ AttachStdin, AttachStdout, AttachStderr, Stdin, Terminal bool }
	if err := json.Unmarshal(object, &x); err != nil {
		return false, fmt.Errorf("cannot tell whether it is attached: %w", err)
	}
	return x.AttachStdin || x.AttachStdout || x.AttachStderr || x.Stdin || x.Terminal, nil
}
