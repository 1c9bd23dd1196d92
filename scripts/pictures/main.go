// Pictures draws the pictures of docs/ as SVG: a recorded run of the demo, who is whose child in a session, and bars from the
// tables that scripts/bench prints.
//
//	go run ./scripts/pictures [-bench FILE] DIR
//	go run ./scripts/pictures -record COMMAND
//
// FILE holds such tables, docs/benchmarks.md unless another one is named. A measure that the file does not have is an error.
// The second form runs a command, make demo, and keeps what it prints in demo.cast. Both are run at the root of the tree.
//
//	canvas.go      boxes, arrows and text
//	record.go      recording a run, as asciicast
//	terminal.go    drawing a recording
//	family.go      the picture of a session
//	bars.go        reading tables, and bars
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

const recording = "scripts/pictures/demo.cast"

func main() {
	bench := flag.String("bench", "docs/benchmarks.md", "a file with the tables of scripts/bench")
	again := flag.Bool("record", false, "record the command that follows, instead of drawing")
	flag.Parse()
	var err error
	if *again {
		err = record(recording, flag.Args())
	} else {
		err = draw(*bench, recording, flag.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// draw writes all pictures to a directory.
func draw(bench, recording, dir string) error {
	all, err := pictures(bench, recording)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the directory of the pictures: %w", err)
	}
	for name, text := range all {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("write a picture: %w", err)
		}
	}
	return nil
}

// pictures gives the text of each, by the name of its file.
func pictures(bench, recording string) (map[string]string, error) {
	text, err := os.ReadFile(bench)
	if err != nil {
		return nil, fmt.Errorf("read the tables: %w", err)
	}
	bars, err := barPicture(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", bench, err)
	}
	played, err := readCast(recording)
	if err != nil {
		return nil, err
	}
	demo, err := played.picture()
	if err != nil {
		return nil, fmt.Errorf("draw %s: %w", recording, err)
	}
	return map[string]string{"demo.svg": demo, "session.svg": familyPicture(), "bars.svg": bars}, nil
}
