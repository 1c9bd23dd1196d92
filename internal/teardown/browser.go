package teardown

import (
	"os"
	"path"
	"slices"
	"strings"

	"mcp-tether/internal/evidence"
	"mcp-tether/internal/proc"
)

// A server that signs in opens a page with xdg-open. If no browser runs, that starts the user's own below the server, and later
// windows and tabs go to it. Such a browser belongs to a person. One that a program drives has words for that on the command line
// of its first process; those of its tabs have none.
//
// Program and words are the process's own. They buy it that it is kept, and named.

// Browser is what a process is to a browser.
type Browser uint8

// The answers of BrowserOf.
const (
	NoBrowser  Browser = iota
	Personal           // the first process of one that was opened for a person
	Driven             // the first process of one that a program drives
	OfABrowser         // a further process, about which the first one decides
)

// BrowserReason is why a person's browser is kept.
const BrowserReason = "a browser that was opened for a person"

// BrowserOf says what a process is to a browser, by the file that it executes and its command line. temp is the directory for
// temporary files.
func BrowserOf(program string, args []string, temp string) Browser {
	if !isBrowser(path.Base(program)) || len(args) == 0 {
		return NoBrowser
	}
	if len(args) == 1 {
		args = strings.Fields(args[0]) // The processes of Chromium's tabs write theirs as one text.
	}
	is := Personal
	for i, word := range args {
		if word == "--" {
			break
		}
		flag, value, attached := strings.Cut(word, "=")
		if i == 0 || !strings.HasPrefix(flag, "-") {
			continue
		}
		if !attached && i+1 < len(args) {
			value = args[i+1]
		}
		switch strings.TrimLeft(flag, "-") {
		case "type", "contentproc":
			return OfABrowser
		case "headless", "remote-debugging-port", "remote-debugging-pipe", "marionette", "enable-automation", "juggler", "juggler-pipe",
			"automation-mode", "backgroundtask":
			is = Driven
		case "user-data-dir", "profile":
			if isTemporary(value, temp) {
				is = Driven
			}
		}
	}
	return is
}

// isBrowser reports whether a program has the name of a browser.
func isBrowser(program string) bool {
	for _, suffix := range []string{"-bin", "-stable", "-esr", "-beta", "-dev", "-unstable", "-nightly"} {
		program = strings.TrimSuffix(program, suffix)
	}
	switch strings.TrimSuffix(program, "-browser") {
	case "firefox", "chrome", "google-chrome", "chromium", "brave", "msedge", "microsoft-edge", "edge", "opera", "vivaldi", "epiphany",
		"konqueror", "falkon":
		return true
	}
	return false
}

// isTemporary reports whether a directory is one for temporary files, or below one.
func isTemporary(dir, temp string) bool {
	dir = path.Clean(dir)
	return slices.ContainsFunc([]string{"/tmp", "/var/tmp", "/dev/shm", temp}, func(t string) bool {
		return t != "" && (dir == t || strings.HasPrefix(dir, path.Clean(t)+"/"))
	})
}

// browser says what a process is to a browser. One that is another user's, or cannot be read, is none.
func (i *inspector) browser(p proc.Stat) Browser {
	program := evidence.Program(p.PID)
	if !isBrowser(path.Base(program)) {
		return NoBrowser
	}
	args, err := i.reader.Args(p)
	if i.note(err); err != nil || !i.isOwn(p) {
		return NoBrowser
	}
	return BrowserOf(program, args, os.TempDir())
}
