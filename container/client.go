package container

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
)

// What an engine may answer that callers decide by.
var (
	// ErrNotFound says that the engine has no such object.
	ErrNotFound = errors.New("no such object")
	// ErrConflict says that the object's state forbids it, for now: its removal may be under way.
	ErrConflict = errors.New("conflict")
	// ErrUnreachable says that the engine cannot be connected to, or hung up without an answer.
	ErrUnreachable = errors.New("container engine cannot be reached")
	// ErrNoAnswer says that what the engine answered cannot be understood.
	ErrNoAnswer = errors.New("container engine answers rubbish")
)

// The largest answers that are read, in bytes.
const (
	maxAnswerHead = 1 << 20
	maxAnswer     = 64 << 20 // a list of 50,000 containers with 1 KiB each
)

// Client asks an engine, one connection a question. Every call is bounded by its context, but for Dial, which has to
// bound itself. Errors wrap ErrNotFound, ErrConflict, ErrUnreachable, ErrNoAnswer or the context's.
//
// The paths are those of docker's API, without a version so that the engine uses its own; podman understands them, too.
// See docs.docker.com/reference/api/engine and docs.podman.io/en/latest/_static/api.html.
type Client struct {
	Dial func() (net.Conn, error)
}

// Containers lists all containers that the engine has, in any state.
func (c Client) Containers(ctx context.Context) ([]Info, error) {
	return list[listedContainer](ctx, c, "/containers/json?all=1")
}

// Networks lists all networks.
func (c Client) Networks(ctx context.Context) ([]Info, error) {
	return list[listedNetwork](ctx, c, "/networks")
}

// Pods lists podman's pods; another engine has none.
func (c Client) Pods(ctx context.Context) ([]Info, error) {
	pods, err := list[listedPod](ctx, c, libpod+"/pods/json")
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return pods, err
}

// libpod is the root of podman's own API, which it has under a version only.
const libpod = "/v4.0.0/libpod"

// list asks for a JSON array of objects.
func list[T interface{ info() Info }](ctx context.Context, c Client, path string) ([]Info, error) {
	var objects []T
	if err := c.decode(ctx, path, &objects); err != nil {
		return nil, err
	}
	infos := make([]Info, len(objects))
	for i, o := range objects {
		infos[i] = o.info()
	}
	return infos, nil
}

// Inspect tells all of one container, by its id.
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

// ImageLabels gives the labels of an image, by its id.
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

// Unpause lets a paused container go on.
func (c Client) Unpause(ctx context.Context, id string) error {
	return c.do(ctx, "POST", "/containers/", id, "/unpause")
}

// Stop kills what runs in a container at once, and for good: its restart policy does not start it again. The container
// stays. One that does not run is stopped already.
func (c Client) Stop(ctx context.Context, id string) error {
	return c.do(ctx, "POST", "/containers/", id, "/stop?t=0")
}

// AwaitStop returns when a container does not run.
func (c Client) AwaitStop(ctx context.Context, id string) error {
	return c.do(ctx, "POST", "/containers/", id, "/wait?condition=not-running")
}

// Kill sends SIGKILL to all that runs in a container or pod.
func (c Client) Kill(ctx context.Context, kind Kind, id string) error {
	switch kind {
	case Container:
		return c.Signal(ctx, id, "SIGKILL")
	case Pod:
		return c.do(ctx, "POST", libpod+"/pods/", id, "/kill?signal=SIGKILL")
	}
	return fmt.Errorf("kill %s %s: %w", kind, id, errors.ErrUnsupported)
}

// Remove removes an object by force: a container with its anonymous volumes, a pod with its containers. It refuses
// volumes of their own, which may hold data. Podman gives what runs ten seconds to end; Kill comes first.
func (c Client) Remove(ctx context.Context, kind Kind, id string) error {
	switch kind {
	case Container:
		return c.do(ctx, "DELETE", "/containers/", id, "?force=1&v=1")
	case Pod:
		return c.do(ctx, "DELETE", libpod+"/pods/", id, "?force=true")
	case Network:
		return c.do(ctx, "DELETE", "/networks/", id, "")
	}
	return fmt.Errorf("remove %s %s: %w", kind, id, errors.ErrUnsupported)
}

// pathOf puts an id into a path. An id comes from records and lists: it must not lead to another path.
func pathOf(before, id, after string) (string, error) {
	odd := strings.ContainsFunc(id, func(r rune) bool {
		return !strings.ContainsRune("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.-:", r)
	})
	if odd || id == "" || strings.HasPrefix(id, ".") {
		return "", fmt.Errorf("id %q of an object of the engine: %w", id, ErrNotFound)
	}
	return before + id + after, nil
}

func (c Client) do(ctx context.Context, method, before, id, after string) error {
	path, err := pathOf(before, id, after)
	if err != nil {
		return err
	}
	_, err = c.ask(ctx, method, path)
	return err
}

func (c Client) decode(ctx context.Context, path string, into any) error {
	body, err := c.ask(ctx, "GET", path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("GET %s: %w: %w", path, ErrNoAnswer, err)
	}
	return nil
}

// ask sends a request without a body on a connection of its own, and returns the body of the answer.
func (c Client) ask(ctx context.Context, method, path string) ([]byte, error) {
	body, err := c.exchange(ctx, method, path)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // the connection was closed under the exchange
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return body, nil
}

func (c Client) exchange(ctx context.Context, method, path string) ([]byte, error) {
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
		length = "Content-Length: 0\r\n"
	}
	request := method + " " + path + " HTTP/1.1\r\nHost: docker\r\nUser-Agent: mcp-tether\r\n" + length + "Connection: close\r\n\r\n"
	if _, err := io.WriteString(conn, request); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return readAnswer(bufio.NewReader(conn), maxAnswer)
}

// readAnswer reads an answer to a request other than HEAD, and gives the body if it is a good one.
func readAnswer(br *bufio.Reader, limit int64) ([]byte, error) {
	answer, err := readFinalHead(br)
	if err != nil {
		return nil, err
	}
	body, err := readBody(br, answer, limit)
	if err != nil {
		return nil, err
	}
	if answer.status < 300 || answer.status == 304 { // 304: it is as asked for already
		return body, nil
	}
	said := fmt.Sprintf("the engine says %d: %s", answer.status, message(body))
	switch answer.status {
	case 404:
		return nil, fmt.Errorf("%w: %s", ErrNotFound, said)
	case 409:
		return nil, fmt.Errorf("%w: %s", ErrConflict, said)
	}
	return nil, errors.New(said)
}

// readFinalHead reads a head, passing over interim ones.
func readFinalHead(br *bufio.Reader) (response, error) {
	for {
		head, err := readHead(br, maxAnswerHead)
		if err != nil {
			return response{}, broken(err)
		}
		answer, err := parseResponse(head)
		if err != nil {
			return response{}, fmt.Errorf("%w: %w", ErrNoAnswer, err)
		}
		if answer.status >= 200 {
			return answer, nil
		}
		if answer.status == 101 {
			return response{}, fmt.Errorf("%w: switches protocols unasked", ErrNoAnswer)
		}
	}
}

// readBody reads a body to its end. One that is longer than limit bytes, or cut off, is an error.
func readBody(br *bufio.Reader, answer response, limit int64) ([]byte, error) {
	var from io.Reader
	switch {
	case answer.bodiless():
		return nil, nil
	case answer.chunked:
		from = newChunkedReader(br)
	case answer.contentLength > limit:
		return nil, fmt.Errorf("%w: %d bytes", ErrNoAnswer, answer.contentLength)
	case answer.contentLength >= 0:
		from = &exactly{br, answer.contentLength}
	default:
		from = br
	}
	body, err := io.ReadAll(io.LimitReader(from, limit+1))
	switch {
	case err != nil:
		return nil, broken(err)
	case int64(len(body)) > limit:
		return nil, fmt.Errorf("%w: more than %d bytes", ErrNoAnswer, limit)
	}
	return body, nil
}

// broken tells a connection that broke from an answer that makes no sense.
func broken(err error) error {
	var netErr net.Error
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &netErr) {
		return fmt.Errorf("%w: connection lost: %w", ErrUnreachable, err)
	}
	return fmt.Errorf("%w: %w", ErrNoAnswer, err)
}

// exactly reads n bytes; an end before them is an error, unlike with io.LimitReader.
type exactly struct {
	from io.Reader
	n    int64
}

func (e *exactly) Read(p []byte) (int, error) {
	if e.n == 0 {
		return 0, io.EOF
	}
	n, err := e.from.Read(p[:min(int64(len(p)), e.n)])
	e.n -= int64(n)
	if errors.Is(err, io.EOF) && e.n > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
