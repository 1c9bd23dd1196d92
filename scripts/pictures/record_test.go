package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestRecord(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cast")
	// The second line comes once the first has been there for a while: sh waits for a process that takes its time.
	if err := record(file, []string{"sh", "-c", `echo '<one> "& two'; sleep 0.2; echo STILL THERE`}); err != nil {
		t.Fatal(err)
	}
	c, err := readCast(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.lines) != 2 || c.lines[0] != (castLine{0, `<one> "& two`}) || c.lines[1].text != "STILL THERE" || c.lines[1].at < 0.15 {
		t.Fatalf("%+v", c)
	}
	picture, err := c.picture()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`animation-delay:1.00s">&lt;one&gt; &#34;&amp; two</text>`, `<tspan class="alarm">STILL THERE</tspan></text>`} {
		if !strings.Contains(picture, want) {
			t.Errorf("no %s in\n%s", want, picture)
		}
	}

	// A run that fails leaves the recording that is there.
	before, _ := os.ReadFile(file)
	for _, argv := range [][]string{nil, {"sh", "-c", "echo three; exit 3"}, {"/nonexistent"}} {
		if err := record(file, argv); err == nil {
			t.Errorf("%q: no error", argv)
		}
	}
	if after, err := os.ReadFile(file); err != nil || !slices.Equal(before, after) {
		t.Errorf("the recording has changed (%v): %s", err, after)
	}
}

func TestReadCastOfSomethingElse(t *testing.T) {
	const head = `{"version":2,"width":80,"command":"x"}` + "\n"
	file := filepath.Join(t.TempDir(), "cast")
	for _, text := range []string{"", "x", `{"version":1}`, head + "x", head + `[1,"i","a"]`, head + `["1","o","a"]`, head + `[1,"o"]`, head + "\n"} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if c, err := readCast(file); err == nil {
			t.Errorf("%q: %+v", text, c)
		}
	}
	if _, err := readCast(file + "-"); err == nil {
		t.Error("a file that is not there: no error")
	}
}

// A line is at most as wide as the terminal, in letters, not in bytes.
func TestPictureTooWide(t *testing.T) {
	c := cast{Width: 4, lines: []castLine{{0, "äöüß"}}}
	if _, err := c.picture(); err != nil {
		t.Error(err)
	}
	c.lines[0].text += "."
	if _, err := c.picture(); err == nil {
		t.Error("five letters in four columns: no error")
	}
}
