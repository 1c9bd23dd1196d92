package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// cast is a recording: an asciicast of version 2, so that asciinema plays it, too. Its first line is about all of it, and
// each other line is an event: a list of the seconds since the first output, "o" for output, and the text.
type cast struct {
	Version int    `json:"version"`
	Width   int    `json:"width"`
	Height  int    `json:"height"`
	Command string `json:"command"`
	lines   []castLine
}

type castLine struct {
	at   float64 // seconds
	text string
}

// record runs a command and keeps when it printed which line. A run that failed replaces no recording.
func record(file string, argv []string) error {
	if len(argv) == 0 {
		return errors.New("usage: pictures -record COMMAND")
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start what is recorded: %w", err)
	}
	c := cast{Version: 2, Width: 80, Command: strings.Join(argv, " ")}
	var first time.Time
	for in := bufio.NewScanner(stdout); in.Scan(); {
		if first.IsZero() {
			first = time.Now()
		}
		c.lines = append(c.lines, castLine{time.Since(first).Round(time.Millisecond).Seconds(), in.Text()})
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("record %s: %w", c.Command, err)
	}
	c.Height = len(c.lines) + 1
	return c.write(file)
}

func (c cast) write(file string) error {
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	if err := out.Encode(c); err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	for _, line := range c.lines {
		if err := out.Encode([]any{line.at, "o", line.text + "\r\n"}); err != nil {
			return fmt.Errorf("write the recording: %w", err)
		}
	}
	if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	return nil
}

// readCast reads what record has written.
func readCast(file string) (*cast, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the recording: %w", err)
	}
	head, events, _ := bytes.Cut(text, []byte("\n"))
	c := new(cast)
	if err := json.Unmarshal(head, c); err != nil || c.Version != 2 {
		return nil, fmt.Errorf("%s: not an asciicast of version 2: %.80q", file, head)
	}
	for event := range bytes.Lines(events) {
		var line castLine
		var kind string
		fields := []any{&line.at, &kind, &line.text}
		if err := json.Unmarshal(event, &fields); err != nil || len(fields) != 3 || kind != "o" {
			return nil, fmt.Errorf("%s: no event of output: %.80q", file, event)
		}
		line.text = strings.TrimSuffix(line.text, "\r\n")
		c.lines = append(c.lines, line)
	}
	return c, nil
}
