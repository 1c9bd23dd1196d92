package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// The pictures of docs/ are those that this program makes of docs/benchmarks.md and the recording.
func TestPicturesAreCurrent(t *testing.T) {
	all, err := pictures("../../docs/benchmarks.md", "demo.cast")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range all {
		if got, err := os.ReadFile("../../docs/pictures/" + name); err != nil || string(got) != want {
			t.Errorf("docs/pictures/%s is not what is drawn now (%v): make generate", name, err)
		}
		decoder := xml.NewDecoder(strings.NewReader(want))
		for err == nil {
			_, err = decoder.Token()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s is no XML: %v", name, err)
		}
	}
}

func TestReadMeasure(t *testing.T) {
	const table = "\n### X: y\n\n|  |  | n | ms |\n|---|---|---:|---:|\n| bare | 50 | 3 | never |\n| mcp-tether | 1 | 3 | 9 |\n| mcp-tether | 50 | 3 | 2.5 |\n| tini | 50 | not installed |\n"
	m := measure{heading: "### X", column: "ms", second: "50"}
	bars, err := m.read(table + "| bubblewrap | 50 | 3 | 4 |\n\n| mcp-tether | 50 | 3 | 7 |\n")
	if err == nil || bars != nil {
		t.Errorf("a row without its cell: %v, %v", bars, err)
	}
	whole := strings.Replace(table, "| not installed |", "| 3 | never |", 1)
	bars, err = m.read(whole + "| bubblewrap | 50 | 3 | 4 |\n\n| mcp-tether | 50 | 3 | 7 |\n")
	if err != nil || len(bars) != 2 || bars[0] != (bar{"mcp-tether", 2.5}) || bars[1] != (bar{"bubblewrap", 4}) {
		t.Errorf("%v, %v", bars, err)
	}
	for _, wrong := range []measure{{heading: "### Z"}, {heading: "### X", column: "s", second: "50"}, {heading: "### X", column: "ms", second: "500"}} {
		if bars, err := wrong.read(whole); err == nil {
			t.Errorf("%+v: %v", wrong, bars)
		}
	}
}
