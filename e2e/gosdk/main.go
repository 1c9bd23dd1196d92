// Command gosdk plays an agent gateway with many clients of the official Go SDK. Each has a stdio server of its own, as
// far as it knows. Its argument is a JSON object, see config. It prints one line of JSON when each client has made its
// calls, and idles until its input ends. The module is apart from mcp-tether's, which needs no SDK.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// config is what to start, and how often.
type config struct {
	Command        string
	Args           []string
	Env            map[string]string
	Clients, Calls int
}

// result is what is printed.
type result struct {
	Event      string         `json:"event"`
	Counts     map[string]int `json:"counts"`
	Complaints []string       `json:"complaints"`
}

type crowd struct {
	config
	mutex  sync.Mutex
	result result
}

func (c *crowd) count(what string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.result.Counts[what]++
}

func (c *crowd) complain(format string, args ...any) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	const most = 20
	if len(c.result.Complaints) < most {
		c.result.Complaints = append(c.result.Complaints, fmt.Sprintf(format, args...))
	}
}

// member is one client. Its steps tell its calls from those of all others.
type member struct {
	*crowd
	number  int
	session *mcp.ClientSession
	steps   float64
}

func main() {
	c := &crowd{result: result{Event: "done", Counts: map[string]int{}, Complaints: []string{}}}
	if err := json.Unmarshal([]byte(os.Args[1]), &c.config); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ctx, stop := context.WithTimeout(context.Background(), 4*time.Minute)
	defer stop()
	var all sync.WaitGroup
	for n := range c.Clients {
		all.Go(func() { c.member(ctx, n+1) })
	}
	all.Wait()
	_ = json.NewEncoder(os.Stdout).Encode(c.result)
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
}

// member connects a client and makes its calls, four at a time.
func (c *crowd) member(ctx context.Context, number int) {
	m := &member{crowd: c, number: number, steps: float64(1 + number)}
	client := mcp.NewClient(&mcp.Implementation{Name: fmt.Sprint("crowd-", number), Version: "0"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			c.count("progress")
			if r.Params.Total != m.steps {
				c.complain("client %d: progress %+v", number, r.Params)
			}
		},
	})
	command := exec.CommandContext(ctx, c.Command, c.Args...)
	command.Env = os.Environ()
	for key, value := range c.Env {
		command.Env = append(command.Env, key+"="+value)
	}
	command.Stderr = os.Stderr
	var err error
	if m.session, err = client.Connect(ctx, &mcp.CommandTransport{Command: command}, nil); err != nil {
		c.complain("client %d: connect: %v", number, err)
		return
	}
	var lanes sync.WaitGroup
	const atOnce = 4
	for lane := range atOnce {
		lanes.Go(func() {
			for n := lane; n < c.Calls; n += atOnce {
				m.call(ctx, n)
			}
		})
	}
	lanes.Wait()
}

// call makes one of the calls and checks its answer.
func (m *member) call(ctx context.Context, n int) {
	mark := fmt.Sprintf("<%d:%d>", m.number, n)
	switch n % 7 {
	case 0, 1:
		m.tool(ctx, nil, "echo", map[string]any{"message": mark}, mark)
	case 2:
		m.tool(ctx, nil, "get-sum", map[string]any{"a": m.number*10_000 + n, "b": 1}, fmt.Sprintf("is %d.", m.number*10_000+n+1))
	case 3:
		// All clients use the same tokens.
		m.tool(ctx, mcp.Meta{"progressToken": n}, "trigger-long-running-operation",
			map[string]any{"duration": 0.02, "steps": m.steps}, fmt.Sprintf("Steps: %v.", m.steps))
	case 4:
		read, err := m.session.GetPrompt(ctx, &mcp.GetPromptParams{Name: "args-prompt", Arguments: map[string]string{"city": mark}})
		text, _ := json.Marshal(read)
		m.expect(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(text)), mark, err)
	case 5:
		uri := fmt.Sprintf("demo://resource/dynamic/text/%d", m.number*1000+n+1)
		read, err := m.session.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
		text, _ := json.Marshal(read)
		m.expect(string(text), uri, err)
	default:
		m.giveUp(ctx)
	}
}

// giveUp cancels a call while it runs, and asks for what is not there.
func (m *member) giveUp(ctx context.Context) {
	short, stop := context.WithTimeout(ctx, 20*time.Millisecond)
	defer stop()
	_, err := m.session.CallTool(short, &mcp.CallToolParams{Name: "trigger-long-running-operation", Arguments: map[string]any{"duration": 0.3, "steps": 1}})
	if errors.Is(err, context.DeadlineExceeded) {
		m.count("cancelled")
	}
	_, err = m.session.GetPrompt(ctx, &mcp.GetPromptParams{Name: fmt.Sprint("none-", m.number)})
	var refused *jsonrpc.Error
	if !errors.As(err, &refused) || !strings.Contains(refused.Message, fmt.Sprint("none-", m.number)) {
		m.complain("client %d: a prompt that is not there: %v", m.number, err)
	}
	m.count("answers")
}

func (m *member) tool(ctx context.Context, meta mcp.Meta, name string, arguments map[string]any, want string) {
	answer, err := m.session.CallTool(ctx, &mcp.CallToolParams{Meta: meta, Name: name, Arguments: arguments})
	var text strings.Builder
	if err == nil {
		for _, part := range answer.Content {
			if t, ok := part.(*mcp.TextContent); ok {
				text.WriteString(t.Text)
			}
		}
	}
	m.expect(text.String(), want, err)
}

func (m *member) expect(got, want string, err error) {
	m.count("answers")
	if err != nil || !strings.Contains(got, want) {
		m.complain("client %d: want %s, got %.200s, %v", m.number, want, got, err)
	}
}
