package engine

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcp-tether/internal/proc"
)

// The errors that callers tell apart.
var (
	// errNotFound says that the engine has no such object.
	errNotFound = errors.New("no such object")
	// errRefused is what a filter in front of an engine says of requests that it does not let pass, or does not know.
	errRefused = errors.New("refused")
	// errDependents is podman's refusal to remove a container whose namespaces other containers are in. It names them.
	errDependents = errors.New("other containers depend on it")
	// ErrUnreachable says that no connection could be made, or that the engine hung up without a response.
	ErrUnreachable = errors.New("container engine cannot be reached")
	// errBadResponse says that a response cannot be understood.
	errBadResponse = errors.New("container engine's response cannot be understood")
)

// Client sends requests to an engine, each on a connection of its own. The context bounds every call. Errors wrap
// errNotFound, errRefused, ErrUnreachable, errBadResponse or the context's.
//
// The paths are those of docker's API, without a version, so that the engine uses its own. Podman understands them too.
// See docs.docker.com/reference/api/engine and docs.podman.io/en/latest/_static/api.html.
type Client struct {
	Dial func(ctx context.Context) (net.Conn, error)
}

// Labelled lists the containers, in any state, the pods and the networks that have the label of a session; of any with "".
// A filter in front of the engine may let nothing of the latter two kinds pass: then none were made.
func (c Client) Labelled(ctx context.Context, session string) ([]Object, error) {
	label := LabelSession
	if session != "" {
		label += "=" + session
	}
	filters := "filters=" + url.QueryEscape(`{"label":["`+label+`"]}`)
	have, err := list[listedContainer](ctx, c, Container, "/containers/json?all=1&"+filters)
	if err != nil {
		return nil, err
	}
	pods, err := list[listedOther](ctx, c, Pod, libpod+"/pods/json?"+filters)
	if err != nil && !isUnknown(err) {
		return nil, err
	}
	networks, err := list[listedOther](ctx, c, Network, "/networks?"+filters)
	if err != nil && !isUnknown(err) {
		return nil, err
	}
	// Some filters in front of an engine leave out what they do not know.
	all := append(append(have, pods...), networks...)
	return slices.DeleteFunc(all, func(o Object) bool {
		return o.Labels[LabelSession] == "" || session != "" && o.Labels[LabelSession] != session
	}), nil
}

// Ping reports whether the engine answers.
func (c Client) Ping(ctx context.Context) error {
	_, err := c.request(ctx, "GET", "/containers/json?limit=1")
	return err
}

// ContainersIn returns the ids of the containers that are in a network, in any state. Docker knows the network of a
// container that was never started only by the network's name.
func (c Client) ContainersIn(ctx context.Context, id, name string) ([]string, error) {
	filters, err := json.Marshal(map[string][]string{"network": {id, name}})
	if err != nil {
		return nil, err
	}
	var all []identified
	err = c.decode(ctx, "/containers/json?all=1&filters="+url.QueryEscape(string(filters)), &all)
	return idsIn(all), err
}

// isUnknown reports whether an engine other than podman, or a filter in front of it, may answer podman's own requests so.
func isUnknown(err error) bool {
	return errors.Is(err, errNotFound) || errors.Is(err, errRefused)
}

// libpod is the root of podman's own API, which exists under a version only.
const libpod = "/v4.0.0/libpod"

// list requests a JSON array of objects.
func list[T interface{ object(kind Kind) Object }](ctx context.Context, c Client, kind Kind, path string) ([]Object, error) {
	var all []T
	if err := c.decode(ctx, path, &all); err != nil {
		return nil, err
	}
	objects := make([]Object, len(all))
	for i, x := range all {
		objects[i] = x.object(kind)
	}
	return objects, nil
}

// Stop sends a container its stop signal, and returns when it has ended. The engine kills it after a second.
func (c Client) Stop(ctx context.Context, id string) error {
	return c.do(ctx, "POST", "/containers/", id, "/stop?t=1")
}

// Kill sends SIGKILL to all processes of a container.
func (c Client) Kill(ctx context.Context, id string) error {
	return c.do(ctx, "POST", "/containers/", id, "/kill?signal=SIGKILL")
}

// RemoveContainer removes a container by force, with its anonymous volumes. Named volumes stay, which may hold data, and all
// of a container that has anonymous ones of others: the engine would take them for its own.
func (c Client) RemoveContainer(ctx context.Context, id string) error {
	borrows, err := c.borrows(ctx, id)
	if err != nil {
		return err
	}
	after := "?force=1&v=1"
	if borrows {
		after = "?force=1"
	}
	return c.do(ctx, "DELETE", "/containers/", id, after)
}

// borrows reports whether a container has anonymous volumes of others, as by --volumes-from, or when compose makes a service
// anew. Podman lists its own ones beside them, and tells when each was made.
func (c Client) borrows(ctx context.Context, id string) (bool, error) {
	var x struct {
		Created    time.Time
		HostConfig struct {
			VolumesFrom []string
			Binds       []string // SOURCE:TARGET, perhaps with a mode
			Mounts      []struct{ Source string }
		}
	}
	path, err := pathOf("/containers/", id, "/json")
	if err == nil {
		err = c.decode(ctx, path, &x)
	}
	if err != nil || len(x.HostConfig.VolumesFrom) > 0 {
		return true, err
	}
	sources := x.HostConfig.Binds
	for _, m := range x.HostConfig.Mounts {
		sources = append(sources, m.Source)
	}
	for _, source := range sources {
		name, _, _ := strings.Cut(source, ":")
		if len(name) != 64 || strings.Trim(name, "0123456789abcdef") != "" {
			continue // the engine has not made this name up
		}
		if !c.isYounger(ctx, name, x.Created) {
			return true, nil
		}
	}
	return false, nil
}

// isYounger reports whether podman has made a volume after that time.
func (c Client) isYounger(ctx context.Context, volume string, than time.Time) bool {
	var x struct{ CreatedAt time.Time }
	return c.decode(ctx, libpod+"/volumes/"+volume+"/json", &x) == nil && !x.CreatedAt.Before(than)
}

// RemovePod removes a pod by force, with its containers.
func (c Client) RemovePod(ctx context.Context, id string) error {
	return c.do(ctx, "DELETE", libpod+"/pods/", id, "?force=true&timeout=0")
}

// RemoveNetwork removes a network. Podman takes it away from the containers that are in it.
func (c Client) RemoveNetwork(ctx context.Context, id string) error {
	return c.do(ctx, "DELETE", "/networks/", id, "")
}

// Sees reports whether the engine has a path in its file system. Docker checks the mounts of a create before its image.
// So Sees asks for a container of an image that cannot exist. An error says that the answer is unknown: podman takes any
// path.
func (c Client) Sees(ctx context.Context, path string) (bool, error) {
	none, err := c.mayMount(ctx, path+".none")
	if err == nil && none {
		err = errNotTold
	}
	if err != nil {
		return false, err
	}
	return c.mayMount(ctx, path)
}

var errNotTold = errors.New("the engine does not tell what it can mount")

// mayMount reports whether the engine does not object to a mount.
func (c Client) mayMount(ctx context.Context, path string) (bool, error) {
	body, err := json.Marshal(map[string]any{
		"Image":      "sha256:" + strings.Repeat("0", 64),
		"HostConfig": map[string]any{"Mounts": []map[string]string{{"Type": "bind", "Source": path, "Target": "/socket"}}},
	})
	if err != nil {
		return false, err
	}
	switch _, err = c.request(ctx, "POST", "/containers/create", body...); {
	case errors.Is(err, errNotFound): // the image
		return true, nil
	case err != nil && strings.Contains(err.Error(), "source path does not exist"):
		return false, nil
	}
	return false, cmp.Or(err, errNotTold)
}

// idBytes are the bytes of ids, names and digests.
const idBytes = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.-:"

// pathOf puts an id into a path. Ids come from records and lists, and must not lead to another path.
func pathOf(before, id, after string) (string, error) {
	if isNoID(id) {
		return "", fmt.Errorf("id %q of an object of the engine: %w", id, errNotFound)
	}
	return before + id + after, nil
}

func isNoID(id string) bool {
	return id == "" || id[0] == '.' || strings.Trim(id, idBytes) != ""
}

func (c Client) do(ctx context.Context, method, before, id, after string) error {
	path, err := pathOf(before, id, after)
	if err != nil {
		return err
	}
	_, err = c.request(ctx, method, path)
	return err
}

func (c Client) decode(ctx context.Context, path string, into any) error {
	body, err := c.request(ctx, "GET", path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("GET %s: %w: %w", path, errBadResponse, err)
	}
	return nil
}

// request sends a request, perhaps with a JSON body, on a connection of its own, and returns the response's body.
func (c Client) request(ctx context.Context, method, path string, send ...byte) ([]byte, error) {
	body, err := c.roundTrip(ctx, method, path, string(send))
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // the context closed the connection
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return body, nil
}

func (c Client) roundTrip(ctx context.Context, method, path, send string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	conn, err := c.Dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()

	length := ""
	if method == "POST" {
		length = "Content-Length: " + strconv.Itoa(len(send)) + "\r\n"
	}
	if send != "" {
		length += "Content-Type: application/json\r\n"
	}
	request := method + " " + path + " HTTP/1.1\r\nHost: docker\r\nUser-Agent: mcp-tether\r\n" + length + "Connection: close\r\n\r\n" + send
	if _, err := io.WriteString(conn, request); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return readResponse(bufio.NewReader(conn), proc.MaxResponse)
}

// readResponse reads the response to a request other than HEAD, and returns its body if the engine did as it was asked.
func readResponse(br *bufio.Reader, limit int) ([]byte, error) {
	r, err := ReadFinalHead(br)
	if err != nil {
		return nil, err
	}
	body, err := r.ReadBody(br, limit)
	if err != nil {
		return nil, readError(err)
	}
	if r.Status < 300 || r.Status == 304 { // 304: the object is in that state already
		return body, nil
	}
	said := fmt.Sprintf("the engine says %d: %s", r.Status, errorText(body))
	switch r.Status {
	case 400, 403, 405, 501:
		return nil, fmt.Errorf("%w: %s", errRefused, said)
	case 404:
		return nil, fmt.Errorf("%w: %s", errNotFound, said)
	case 500:
		if strings.Contains(said, "has dependent containers") {
			return nil, fmt.Errorf("%w: %s", errDependents, said)
		}
	}
	return nil, errors.New(said)
}

// ReadFinalHead reads the head of a response, after any interim ones.
func ReadFinalHead(br *bufio.Reader) (Response, error) {
	for {
		head, err := ReadHead(br)
		if err != nil {
			return Response{}, readError(err)
		}
		r, err := ParseResponse(head)
		if err != nil {
			return r, fmt.Errorf("%w: %w", errBadResponse, err)
		}
		if r.Status == 101 {
			return r, fmt.Errorf("%w: it switches protocols", errBadResponse)
		}
		if r.Status >= 200 {
			return r, nil
		}
	}
}

// readError tells a connection that broke from a response that cannot be understood.
func readError(err error) error {
	var netErr net.Error
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &netErr) {
		return fmt.Errorf("%w: connection lost: %w", ErrUnreachable, err)
	}
	return fmt.Errorf("%w: %w", errBadResponse, err)
}
