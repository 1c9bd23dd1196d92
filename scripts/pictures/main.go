// Pictures draws the pictures of docs/ as SVG: the outcome of the demo, who is whose child in a session, and bars from the
// tables that scripts/bench prints.
//
//	go run ./scripts/pictures [-bench FILE] DIR
//
// FILE holds such tables, docs/benchmarks.md unless another one is named. A measure that the file does not have is an error.
//
//	canvas.go      boxes, arrows and text
//	demo.go        the outcome of the demo
//	family.go      the picture of a session
//	bars.go        reading tables, and bars
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	bench := flag.String("bench", "docs/benchmarks.md", "a file with the tables of scripts/bench")
	flag.Parse()
	if err := draw(*bench, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// draw writes all pictures to a directory.
func draw(bench, dir string) error {
	all, err := pictures(bench)
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
func pictures(bench string) (map[string]string, error) {
	text, err := os.ReadFile(bench)
	if err != nil {
		return nil, fmt.Errorf("read the tables: %w", err)
	}
	bars, err := barPicture(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", bench, err)
	}
	return map[string]string{"demo.svg": demoPicture(), "session.svg": familyPicture(), "bars.svg": bars}, nil
}
