package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// scan feeds the stream in chunks that end at the given positions.
func scan(s *Scanner, stream []byte, cuts ...int) ([]Message, error) {
	var out []Message
	emit := func(m Message) {
		m.Raw = bytes.Clone(m.Raw)
		out = append(out, m)
	}
	from := 0
	for _, cut := range append(cuts, len(stream)) {
		// A copy with nothing behind it, so that reading past a chunk is found.
		if err := s.Feed(bytes.Clone(stream[from:cut]), emit); err != nil {
			return out, err
		}
		from = cut
	}
	if s.Partial() {
		return out, s.Feed([]byte("\n"), emit)
	}
	return out, nil
}

// oracle reads whole lines with encoding/json.
func oracle(stream []byte, keep int) []Message {
	var out []Message
	lines := bytes.Split(stream, []byte("\n"))
	for _, line := range lines {
		if len(bytes.Trim(line, " \t\r")) == 0 {
			continue
		}
		kept := line
		if len(line) > keep {
			kept = nil
		}
		var batch []json.RawMessage
		if err := json.Unmarshal(line, &batch); err != nil || len(batch) == 0 {
			m := oracleMessage(line)
			m.Line, m.Size, m.Raw = true, int64(len(line)), kept
			out = append(out, m)
			continue
		}
		for _, e := range batch {
			m := oracleMessage(e)
			if e[0] == '{' {
				m.Size = int64(len(e))
				if kept != nil {
					m.Raw = e
				}
			}
			out = append(out, m)
		}
	}
	return out
}

func oracleMessage(raw []byte) Message {
	var o map[string]json.RawMessage
	if json.Unmarshal(raw, &o) != nil || o == nil {
		return Message{}
	}
	id, hasID := o["id"]
	method, hasMethod := o["method"]
	_, hasResult := o["result"]
	failure, hasError := o["error"]
	var m Message
	if hasID {
		var ok bool
		if m.ID, ok = NormalID(id); !ok || len(id) > tokenMax {
			return Message{Kind: Unclear}
		}
	}
	switch {
	case hasMethod:
		if method[0] != '"' || len(method) > tokenMax || json.Unmarshal(method, &m.Method) != nil {
			return Message{Kind: Unclear}
		}
		m.Kind = Notification
		if hasID {
			m.Kind = Request
		}
	case hasResult || hasError:
		m.Kind, m.IsError = Response, hasError && string(failure) != "null"
	default:
		return Message{}
	}
	return m
}

func same(t *testing.T, got, want []Message) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Fatalf("message %d is missing: %+v", i, want[i])
		case i >= len(want):
			t.Fatalf("message %d is too many: %+v", i, got[i])
		}
		g, w := got[i], want[i]
		if !bytes.Equal(g.Raw, w.Raw) || (g.Raw == nil) != (w.Raw == nil) {
			t.Fatalf("message %d has the bytes %.200q, want %.200q", i, g.Raw, w.Raw)
		}
		g.Raw, w.Raw = nil, nil
		g.idFrom, g.idTo, w.idFrom, w.idTo = 0, 0, 0, 0
		if !reflect.DeepEqual(g, w) {
			t.Fatalf("message %d is %+v, want %+v", i, g, w)
		}
	}
}

// What encoding/json does not take, another parser may.
func TestScannerTakesWhatOtherParsersTake(t *testing.T) {
	call := Message{Kind: Request, ID: "1", Method: "x", Line: true}
	unclear := Message{Kind: Unclear, Line: true}
	for text, want := range map[string]Message{
		`{"id":1,"method":"x","params":{"a":NaN,"b":[Infinity,-Infinity]}}`: call,
		`{"id":1,"result":NaN}`:                                       {Kind: Response, ID: "1", Line: true},
		`{"id":NaN,"method":"x"}`:                                     {Kind: Request, ID: "NaN", Method: "x", Line: true},
		`{"id":1,"method":"x","a":[}}`:                                call,
		`{"id":1,"method":"x","a":nulk,"b":.5}`:                       call,
		`{"id":01,"method":"x"}`:                                      call,
		"{\"id\":1,\"method\":\"x\",\"a\":\"\t\"}":                    call,
		`{"id":1,"method":"x","a":"\x"}`:                              call,
		`{"id":1,"method":"x","a":["\\","\"]"]}`:                      call,
		`{"id":1,"method":"x"}}`:                                      unclear,
		`{"id":1,"method":"x",}`:                                      unclear,
		`{"id" 1,"method":"x"}`:                                       unclear,
		`{'id':1,"method":"x"}`:                                       unclear,
		`{"id":,"method":"x"}`:                                        unclear,
		`[{"id":1,"method":"x"},]`:                                    unclear,
		`[{"id":1,"method":"x"}}`:                                     unclear,
		`{"id":"` + strings.Repeat("a", tokenMax) + `","method":"x"}`: unclear,
	} {
		want.Size, want.Raw = int64(len(text)), []byte(text)
		for cut := range min(len(text), 100) {
			got, err := scan(&Scanner{}, []byte(text+"\n"), cut)
			if err != nil {
				t.Fatal(err)
			}
			same(t, got, []Message{want})
		}
	}
}

// Wherever the chunks end, the messages are the same.
func TestScannerDoesNotDependOnChunks(t *testing.T) {
	stream := []byte("\n{\"\\u0069d\":\"x\\\"\\\\\",\"method\":\"é\"}\r\n" +
		`[{"id":-1.5e+3,"result":{"id":[true,false,null,"\u12aF",0,10.25]}},3,{"id":2,"error":{}}]` + "\n  \nnonsense\n" + `{"id":7,"method":"end"}`)
	for _, keep := range []int{1, 25, 0} {
		want := oracle(stream, cmpOr(keep, DefaultKeep))
		for i := range stream {
			for j := i; j < len(stream); j += 3 {
				got, err := scan(&Scanner{Keep: keep}, stream, i, j)
				if err != nil {
					t.Fatal(err)
				}
				same(t, got, want)
			}
		}
	}
}

func cmpOr(a, b int) int {
	if a != 0 {
		return a
	}
	return b
}

// However deep the values of a message are nested, they cost nothing and are none of its members.
func TestScannerDoesNotCountDepth(t *testing.T) {
	const deep = 1 << 20
	got, err := scan(&Scanner{}, []byte(`{"a":`+strings.Repeat(`[{"id":`, deep)+strings.Repeat("}]", deep)+`,"id":1,"method":"x"}`))
	if err != nil || len(got) != 1 || got[0].Kind != Request || got[0].ID != "1" {
		t.Errorf("%v %+v", err, got)
	}
}

func TestScannerBoundsBatches(t *testing.T) {
	for n, want := range map[int]int{maxBatch: maxBatch, maxBatch + 1: 1} {
		got, err := scan(&Scanner{}, []byte("["+strings.Repeat("{},", n-1)+"{}]"))
		if err != nil || len(got) != want || (got[0].Kind == Unclear) != (n > maxBatch) {
			t.Errorf("%d elements: %v, %d messages", n, err, len(got))
		}
	}
}

func TestScannerBoundsLines(t *testing.T) {
	s := &Scanner{Max: 21}
	fits, over := `{"id":1,"method":"x"}`, `{"id":1,"method":"xy"}`
	got, err := scan(s, []byte(fits+"\n"+over+"\n"+fits+"\n"), 30)
	if !errors.Is(err, ErrTooLong) || len(got) != 1 {
		t.Fatalf("%v, %d messages", err, len(got))
	}
	if again := s.Feed([]byte("\n"), nil); !errors.Is(again, ErrTooLong) {
		t.Errorf("the scanner goes on: %v", again)
	}
	if !strings.Contains(err.Error(), "22 bytes") || !strings.Contains(err.Error(), "21 are allowed") {
		t.Error(err)
	}
}

// A scanner that has seen a large line does not go on holding it: there may be hundreds that sleep.
func TestScannerLetsGoOfLargeLines(t *testing.T) {
	s := &Scanner{}
	got, err := scan(s, []byte(`"`+strings.Repeat("a", DefaultKeep-2)+`"`+"\n"+`{"id":1,"method":"x"}`+"\n"), 1000)
	if err != nil || len(got) != 2 || len(got[0].Raw) != DefaultKeep {
		t.Fatalf("%v, %d messages", err, len(got))
	}
	if cap(s.held) > heldMax {
		t.Errorf("%d bytes held", cap(s.held))
	}
	// Shrink lets go of a large line that is the last for a while, but not in the middle of a line.
	for end, want := range map[string]bool{"\n": true, "": false} {
		s := &Scanner{}
		_ = s.Feed(bytes.Repeat([]byte("a"), DefaultKeep), func(Message) {})
		_ = s.Feed([]byte(end), func(Message) {})
		if s.Shrink(); (s.held == nil) != want {
			t.Errorf("ended with %q it holds %d bytes", end, cap(s.held))
		}
	}
}

// FuzzScanner compares what is read of lines of JSON with encoding/json, and of any stream with the same one in one piece.
func FuzzScanner(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"a"}` + "\n", `[{"id":1,"result":{}},{}]` + "\r\n\n",
		`{"\u0069d":"\ud800","method":"\u00e9","id":1e3}`, `{"a":[1,-0.5e-7,true,false,null],"error":null,"id":null}`,
		"{\"id\":\"\xff\",\"method\":\"\xc3\"}\nx", `{"id":12345678901234567890,"method":""}`,
		`{"result":{"id":5,"x":[{"id":6}]},"jsonrpc":"2.0","id":1}`, `{"id":1,"params":{"method":"x","id":2},"method":"y"}`,
		`{"m\u0065thod":"a\/b","id":1,"id":2}`, `{"id":[1],"method":"x","id":2}`, `{"id":1,"method":"x","id":{}}`,
		`{"id":1,"method":"x","method":5}`, `{"ID":1,"Method":"x","result":0}`, `{"a":"}{\"][\\","id":true,"method":"x}"}`,
		`{"id":"` + strings.Repeat("a", tokenMax-1) + `","method":"x"}`, `{"error":{"code":1}}`, `{"id":1,"result":1,"error":null}`,
		` [ {"id":1,"method":"a"} , {"method":"b"},7,[{"id":2,"method":"c"}],{"id":3,"result":[]},{"x":{"id":9}} ]`, "[]", `{"id":1`,
	} {
		f.Add([]byte(seed), uint16(3), uint16(9), uint8(20))
	}
	f.Fuzz(func(t *testing.T, stream []byte, a, b uint16, keep uint8) {
		i, j := int(a)%(len(stream)+1), int(b)%(len(stream)+1)
		limit := int(keep) + 1
		got, err := scan(&Scanner{Keep: limit}, stream, min(i, j), max(i, j))
		if err != nil {
			t.Fatal(err)
		}
		whole, _ := scan(&Scanner{Keep: limit}, stream)
		same(t, got, whole)
		for line := range bytes.SplitSeq(stream, []byte("\n")) {
			if json.Valid(line) {
				got, _ = scan(&Scanner{Keep: limit}, line)
				same(t, got, oracle(line, limit))
			}
		}
	})
}

func TestEqualIDsAreSpelledAlike(t *testing.T) {
	for raw, want := range map[string]string{
		`1`: "1", `1.0`: "1", `10e-1`: "1", `-0`: "0", `1.50`: "1.5", `9007199254740993`: "9007199254740993",
		`1e999`: "1e999", `"1"`: `"1"`, `"\u0031"`: `"1"`, `"\u003c"`: `"<"`, `"<"`: `"<"`, `"\/"`: `"/"`, `"\""`: `"\""`,
		`"\ud800"`: `"\ud800"`, `"\ud83d\ude00"`: `"😀"`, `"\u2028"`: `"\u2028"`, "\"\u2028\"": `"\u2028"`, `null`: "null", `true`: "true", `NaN`: "NaN",
	} {
		if got, ok := NormalID([]byte(raw)); !ok || got != want {
			t.Errorf("%s is %s (%t), want %s", raw, got, ok, want)
		}
	}
	for _, raw := range []string{"", "{}", "[1]"} {
		if got, ok := NormalID([]byte(raw)); ok {
			t.Errorf("%s is the id %s", raw, got)
		}
	}
}

// FuzzNormalID compares the one spelling of an id with encoding/json: it decodes that to the same value, and however it writes
// the value, the spelling is the same. So two ids are spelled alike exactly if they are equal.
func FuzzNormalID(f *testing.F) {
	for _, seed := range []string{`1.50`, `-10e-1`, `"\u0031\/\ud83d\ude00"`, `"\"<\u007f"`, "\"\u2028\"", `null`, `{}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var want, got any
		if raw = bytes.TrimSpace(raw); json.Unmarshal(raw, &want) != nil {
			return
		}
		id, ok := NormalID(raw)
		switch v := want.(type) {
		case map[string]any, []any:
			if ok {
				t.Fatalf("%q is the id %q", raw, id)
			}
			return
		case string:
			if strings.ContainsRune(v, utf8.RuneError) {
				return // it stays as it is
			}
		case float64:
			if math.Abs(v) >= exactFloat {
				return // so does this
			}
		}
		other, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := NormalID(other)
		if err := json.Unmarshal([]byte(id), &got); err != nil || !ok || got != want || again != id {
			t.Fatalf("%q is the id %q, %t, but %q is %q, %v", raw, id, ok, other, again, err)
		}
	})
}
