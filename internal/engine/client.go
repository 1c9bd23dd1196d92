package engine

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"

	"mcp-tether/internal/http1"
)

// The errors that callers tell apart.
var (
	// ErrNotFound says that the engine has no such object.
	ErrNotFound = errors.New("no such object")
	// ErrForbidden is what a filter in front of docker says of requests that it does not let pass.
	ErrForbidden = errors.New("forbidden")
	// errRefused is what some filters say of requests that they do not know, such as podman's own.
	errRefused = errors.New("refused")
	// errDependents is podman's refusal to remove a container whose namespaces other containers are in. It names them.
	errDependents = errors.New("other containers depend on it")
	// ErrUnreachable says that no connection could be made, or that the engine hung up without a response.
	ErrUnreachable = errors.New("container engine cannot be reached")
	// ErrBadResponse says that a response cannot be understood.
	ErrBadResponse = errors.New("container engine's response cannot be understood")
)

// Bounds of a response: maxResponse for its body, in bytes, and maxParts for the objects that it is decoded to. A malicious
// engine could make a short text decode to much memory. What is skipped is not counted. A list has an object for each
// port of a container, and any user may give one MiB of labels. Where root looks for a user, the child that reads the list
// gets little memory, and takes several times that of the list: the runtime would abort, and not only the request.
const (
	maxResponse = 8 << 20
	maxParts    = 32 << 10
)

// Client sends requests to an engine, each on a connection of its own. The context bounds every call, except for Dial,
// which must bound itself. Errors wrap ErrNotFound, ErrForbidden, ErrUnreachable, ErrBadResponse or the context's.
//
// The paths are those of docker's API, without a version, so that the engine uses its own. Podman understands them too.
// See docs.docker.com/reference/api/engine and docs.podman.io/en/latest/_static/api.html.
type Client struct {
	Dial func() (net.Conn, error)
}

// Containers lists all containers that the engine has, in any state.
func (c Client) Containers(ctx context.Context) ([]Info, error) {
	return list[listedContainer](ctx, c, Container, "/containers/json?all=1")
}

// ContainersIn returns the ids of the containers that are in a network, in any state. Docker knows the network of a
// container that was never started only by the network's name. So a name finds those of a network too that was removed
// and made anew.
func (c Client) ContainersIn(ctx context.Context, id, name string) (ids []string, err error) {
	path, err := pathOf("/containers/json?all=1&filters=%7B%22network%22:%5B%22", id, "%22")
	if err != nil {
		return nil, err
	}
	if !isNoID(name) {
		path += ",%22" + name + "%22"
	}
	var all []object
	err = c.decode(ctx, path+"%5D%7D", &all)
	for i := range all {
		if !all[i].isOfAnother(id, name) {
			ids = append(ids, all[i].ID)
		}
	}
	return ids, err
}

// maxSettings is how much of a container's networks is decoded, in bytes. Decoded, it may take a multiple of that.
const maxSettings = 64 << 10

// isOfAnother reports whether a container was in a network of the same name that is gone, and is not in this one. It cannot
// be started. Podman gives a network's name for its id, and old versions of docker give none.
func (o *object) isOfAnother(id, name string) bool {
	var settings map[string]any
	text := o.NetworkSettings
	if len(text) > maxSettings || bytes.Contains(text, []byte(`"`+id+`"`)) || json.Unmarshal(text, &settings) != nil {
		return false
	}
	networks, _ := settings["Networks"].(map[string]any)
	network, _ := networks[name].(map[string]any)
	of, _ := network["NetworkID"].(string)
	return of != "" && of != name
}

// object is what is read of an object that needs no more than its id, or of a container in a network.
type object struct {
	ID              string `json:"Id"`
	NetworkSettings json.RawMessage
}

func idsIn(all []object) (ids []string) {
	for _, o := range all {
		ids = append(ids, o.ID)
	}
	return ids
}

// Networks lists all networks.
func (c Client) Networks(ctx context.Context) ([]Info, error) {
	return list[listedObject](ctx, c, Network, "/networks")
}

// Pods lists podman's pods; other engines have none.
func (c Client) Pods(ctx context.Context) ([]Info, error) {
	pods, err := list[listedObject](ctx, c, Pod, libpod+"/pods/json")
	if isUnknown(err) && !errors.Is(err, ErrForbidden) {
		return nil, nil
	}
	return pods, err
}

// isUnknown reports whether an engine other than podman, or a filter in front of it, may answer podman's own requests so.
func isUnknown(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrForbidden) || errors.Is(err, errRefused)
}

// libpod is the root of podman's own API, which exists under a version only.
const libpod = "/v4.0.0/libpod"

// list requests a JSON array of objects.
func list[T interface{ info(kind Kind) Info }](ctx context.Context, c Client, kind Kind, path string) ([]Info, error) {
	var objects []T
	if err := c.decode(ctx, path, &objects); err != nil {
		return nil, err
	}
	infos := make([]Info, len(objects))
	for i, o := range objects {
		infos[i] = o.info(kind)
	}
	return infos, nil
}

// Inspect returns everything about one container, by its id or name.
func (c Client) Inspect(ctx context.Context, id string) (Info, error) {
	path, err := pathOf("/containers/", id, "/json")
	if err != nil {
		return Info{}, err
	}
	var x inspected
	if err := c.decode(ctx, path, &x); err != nil {
		return Info{}, err
	}
	return x.info(), nil
}

// PodContainers returns the ids of a pod's containers. Podman makes the infra container with the pod; infra is "" if there
// is none.
func (c Client) PodContainers(ctx context.Context, pod string) (infra string, containers []string, err error) {
	path, err := pathOf(libpod+"/pods/", pod, "/json")
	if err != nil {
		return "", nil, err
	}
	var x struct {
		InfraContainerID string
		Containers       []object
	}
	if err := c.decode(ctx, path, &x); err != nil {
		return "", nil, err
	}
	return x.InfraContainerID, idsIn(x.Containers), nil
}

// ImageLabels returns the labels of an image, by its id.
func (c Client) ImageLabels(ctx context.Context, imageID string) (map[string]string, error) {
	path, err := pathOf("/images/", imageID, "/json")
	if err != nil {
		return nil, err
	}
	var image struct {
		Config struct{ Labels map[string]string }
	}
	if err := c.decode(ctx, path, &image); err != nil {
		return nil, err
	}
	return image.Config.Labels, nil
}

// Signal sends a signal, by name or number, to the first process of a container.
func (c Client) Signal(ctx context.Context, id, signal string) error {
	return c.do(ctx, "POST", "/containers/", id, "/kill?signal="+url.QueryEscape(signal))
}

// Unpause resumes a paused container.
func (c Client) Unpause(ctx context.Context, id string) error {
	return c.do(ctx, "POST", "/containers/", id, "/unpause")
}

// AwaitStop returns when a container is not running.
func (c Client) AwaitStop(ctx context.Context, id string) error {
	return c.do(ctx, "POST", "/containers/", id, "/wait?condition=not-running")
}

// Kill sends SIGKILL to all processes of a container or pod.
func (c Client) Kill(ctx context.Context, kind Kind, id string) error {
	switch kind {
	case Container:
		return c.Signal(ctx, id, "SIGKILL")
	case Pod:
		return c.do(ctx, "POST", libpod+"/pods/", id, "/kill?signal=SIGKILL")
	}
	return fmt.Errorf("kill %s %s: %w", kind, id, errors.ErrUnsupported)
}

// Remove removes an object by force: a container with its anonymous volumes, a pod with its containers. It does not
// remove named volumes, which may hold data. All volumes of a container with BorrowedVolumes stay: the engine would remove
// another container's if that container is gone. Podman gives running processes ten seconds to end, unless Kill came first.
func (c Client) Remove(ctx context.Context, x *Info) error {
	switch x.Kind {
	case Container:
		if x.Labels[LabelVolumes] != "" {
			return c.do(ctx, "DELETE", "/containers/", x.ID, "?force=1")
		}
		return c.do(ctx, "DELETE", "/containers/", x.ID, "?force=1&v=1")
	case Pod:
		return c.do(ctx, "DELETE", libpod+"/pods/", x.ID, "?force=true")
	case Network:
		return c.removeNetwork(ctx, x)
	case Volume:
	}
	return fmt.Errorf("remove %s %s: %w", x.Kind, x.ID, errors.ErrUnsupported)
}

// removeNetwork removes a network that no container uses. Podman finds the containers only by the network's name: asked by
// its id, it takes the network away from them (NetworkRm in pkg/domain/infra/abi of containers/podman). There the id is
// made from the name, so both mean the same network, and also one that was made anew. Elsewhere the id counts.
func (c Client) removeNetwork(ctx context.Context, x *Info) error {
	have, err := c.Networks(ctx)
	if err != nil {
		return err
	}
	same := func(n *Info) bool { return n.ID == x.ID && n.Labels[LabelRequest] == x.Labels[LabelRequest] }
	if !anyOf(have, same) {
		return fmt.Errorf("network %s: %w", x.ID, ErrNotFound)
	}
	err = c.do(ctx, "DELETE", libpod+"/networks/", x.Name, "")
	if isUnknown(err) { // not podman, or it is gone
		return c.do(ctx, "DELETE", "/networks/", x.ID, "")
	}
	return err
}

// Sees reports whether the engine has a path in its file system. Docker checks the mounts of a create before its image.
// So Sees asks for a container of an image that cannot exist. An error says that the answer is unknown. Podman does not
// give it.
func (c Client) Sees(ctx context.Context, path string) (bool, error) {
	sees, err := c.mayMount(ctx, path)
	if sees {
		var absent bool
		if absent, err = c.mayMount(ctx, path+".none"); absent {
			err = errNotTold
		}
	}
	return sees, err
}

var errNotTold = errors.New("the engine does not tell what it can mount")

// mayMount reports whether the engine does not object to a mount.
func (c Client) mayMount(ctx context.Context, path string) (bool, error) {
	type mount struct{ Type, Source, Target string }
	var create struct {
		Image      string
		HostConfig struct{ Mounts []mount }
	}
	create.Image = "sha256:" + strings.Repeat("0", 64)
	create.HostConfig.Mounts = []mount{{"bind", path, "/socket"}}
	body, err := json.Marshal(create)
	if err != nil {
		return false, err
	}
	switch _, err = c.request(ctx, "POST", "/containers/create", body...); {
	case errors.Is(err, ErrNotFound): // the image
		return true, nil
	case err != nil && strings.Contains(err.Error(), "source path does not exist"):
		return false, nil
	case err == nil:
		err = errNotTold
	}
	return false, err
}

// idBytes are the bytes of ids, names and digests.
const idBytes = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.-:"

// pathOf puts an id into a path. Ids come from records and lists, and must not lead to another path.
func pathOf(before, id, after string) (string, error) {
	if isNoID(id) {
		return "", fmt.Errorf("id %q of an object of the engine: %w", id, ErrNotFound)
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
	if n := parts(body); n > maxParts {
		return fmt.Errorf("GET %s: %w: it has %d parts", path, ErrBadResponse, n)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("GET %s: %w: %w", path, ErrBadResponse, err)
	}
	return nil
}

// parts counts the objects that a list is decoded to. It decodes them to nothing, which takes no memory.
func parts(body []byte) int {
	var list []struct{}
	_ = json.Unmarshal(body, &list) // the body may be no list
	return len(list)
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
	conn, err := c.Dial()
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
	return readResponse(bufio.NewReader(conn), maxResponse)
}

// readResponse reads the response to a request other than HEAD, and returns its body if the engine did as it was asked.
func readResponse(br *bufio.Reader, limit int) ([]byte, error) {
	r, err := readFinalHead(br)
	if err != nil {
		return nil, err
	}
	body, err := r.Body("GET").ReadAll(br, limit, nil)
	if err != nil {
		return nil, readError(err)
	}
	if r.Status < 300 || r.Status == 304 { // 304: the object is in that state already
		return body, nil
	}
	said := fmt.Sprintf("the engine says %d: %s", r.Status, errorText(body))
	switch r.Status {
	case 403:
		return nil, fmt.Errorf("%w: %s", ErrForbidden, said)
	case 400, 405, 501:
		return nil, fmt.Errorf("%w: %s", errRefused, said)
	case 404:
		return nil, fmt.Errorf("%w: %s", ErrNotFound, said)
	case 500:
		if strings.Contains(said, "has dependent containers") {
			return nil, fmt.Errorf("%w: %s", errDependents, said)
		}
	}
	return nil, errors.New(said)
}

// readFinalHead reads the head of a response, after any interim ones.
func readFinalHead(br *bufio.Reader) (http1.Response, error) {
	for {
		head, err := http1.ReadHead(br)
		if err != nil {
			return http1.Response{}, readError(err)
		}
		r, err := http1.ParseResponse(head)
		if err != nil {
			return r, fmt.Errorf("%w: %w", ErrBadResponse, err)
		}
		if r.Status == 101 {
			return r, fmt.Errorf("%w: it switches protocols", ErrBadResponse)
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
	return fmt.Errorf("%w: %w", ErrBadResponse, err)
}
