package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"mcp-tether/e2e/testkit"
)

// A client that says the same gets the same, whether its server is there, has not been started, or sleeps: no answer is lost,
// doubled or another.

// script is a conversation at random after the handshake: each line, and whether it is a request.
func script(seed uint64) (lines []string) {
	r := rand.New(rand.NewPCG(seed, 1))
	for id := 1; id <= 30; id++ {
		switch r.IntN(7) {
		case 0, 1:
			lines = append(lines, fmt.Sprintf(listTools, id))
		case 2:
			lines = append(lines, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, id))
		case 3:
			lines = append(lines, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/list"}`, id))
		case 4:
			lines = append(lines, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"logging/setLevel","params":{"level":"error"}}`, id))
		case 5:
			lines = append(lines, fmt.Sprintf(cancelRequest, 1000+id))
		case 6:
			lines = append(lines, toolCall(id, "echo", fmt.Sprint("text ", id)))
		}
	}
	return lines
}

// play says the lines, several at once now and then, sleeps now and then, and returns the answers by the order of their ids.
func (s *session) play(lines []string, seed uint64) (answers []string) {
	s.t.Helper()
	r := rand.New(rand.NewPCG(seed, 2))
	answers = append(answers, s.Ask(initialize(version)))
	s.Write(initialized + "\n")
	for len(lines) > 0 {
		n := min(1+r.IntN(3), len(lines))
		s.Write(strings.Join(lines[:n], "\n") + "\n")
		for _, line := range lines[:n] {
			if strings.Contains(line, `"id"`) {
				answers = append(answers, s.Read())
			}
		}
		lines = lines[n:]
		if r.IntN(4) == 0 {
			pause(2 * limit)
		}
	}
	for i, line := range answers {
		m := s.parse(line)
		if m.ID == nil {
			s.t.Fatalf("not an answer: %s", line)
		}
		answers[i] = fmt.Sprintf("%03d %s %v", *m.ID, m.Result, m.Error)
	}
	slices.Sort(answers)
	return answers
}

func TestLazyConversation(t *testing.T) {
	t.Parallel()
	for i := range testkit.Rounds(2) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			seed := testkit.Seed(t)
			lines := script(seed)
			first := learn(t, "", "--hibernate="+limit.String())
			plain := first.twin("--lazy=false", "--hibernate=0")
			want := plain.play(lines, seed)
			plain.leave()
			lazy := first.twin("--hibernate=" + limit.String())
			got := lazy.play(lines, seed)
			lazy.leave()
			if !slices.Equal(got, want) {
				t.Errorf("the client says\n%s\nand gets\n%s\ninstead of\n%s", strings.Join(lines, "\n"), strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}
