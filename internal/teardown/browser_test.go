package teardown

import (
	"strings"
	"testing"
)

// Each word that says that a program drives a browser does so in each form and place, and none of its parts alone does.
func TestBrowserOfWords(t *testing.T) {
	driving := []string{
		"--headless", "--headless=new", "-headless", "--remote-debugging-port=0", "--remote-debugging-port", "--remote-debugging-pipe",
		"-marionette", "--marionette", "--enable-automation", "-juggler-pipe", "-juggler", "--automation-mode", "--backgroundtask",
		"--user-data-dir=/tmp/profile", "--user-data-dir=/tmp", "--user-data-dir=/home/u/../../tmp/x", "--user-data-dir=/var/tmp/x",
		"--user-data-dir=/dev/shm/x", "--user-data-dir=/own/temp/x", "-profile /tmp/rust_mozprofileXYZ", "--profile=/tmp/x",
	}
	parts := []string{"--type=renderer", "--type=zygote", "-contentproc", "-contentproc -parentBuildID 1"}
	persons := []string{
		"", "https://auth.example/login", "https://auth.example/?x=--headless", "--new-window", "--user-data-dir=/home/u/x", "--user-data-dir=/tmpfiles",
		"--profile-directory=Default", "-P work", "-profile /home/u/x", "--user-data-dir=", "headless", "--headlessly", "--class=headless",
		"-- --headless", "--app=https://a", "--disable-gpu",
	}
	for is, all := range map[Browser][]string{Driven: driving, OfABrowser: parts, Personal: persons} {
		for _, words := range all {
			for _, around := range []string{"%", "--no-first-run %", "% https://x.example", "--a % --b"} {
				if around != "%" && strings.HasPrefix(words, "-- ") {
					continue
				}
				args := append([]string{"browser"}, strings.Fields(strings.Replace(around, "%", words, 1))...)
				if got := BrowserOf("/opt/x/firefox", args, "/own/temp"); got != is {
					t.Errorf("%q: %d, want %d", args, got, is)
				}
			}
		}
	}
}

// What belongs to a browser that is driven does not decide, whatever else it says; and Chromium's write all of it as one text.
func TestBrowserOfParts(t *testing.T) {
	for _, args := range [][]string{
		{"chrome", "--type=renderer", "--enable-automation"}, {"chrome", "--enable-automation", "--type=gpu-process"},
		{"/usr/lib/chromium/chromium --type=renderer --lang=en"}, {"firefox", "-contentproc", "-profile", "/tmp/x"},
	} {
		if got := BrowserOf("/usr/lib/chromium/chromium", args, ""); got != OfABrowser {
			t.Errorf("%q: %d", args, got)
		}
	}
	if got := BrowserOf("/usr/bin/chromium", []string{"chromium --headless"}, ""); got != Driven {
		t.Errorf("one text: %d", got)
	}
}

func TestBrowserOfPrograms(t *testing.T) {
	for program, want := range map[string]Browser{
		"/usr/lib/firefox/firefox": Personal, "/usr/lib/firefox-esr/firefox-esr": Personal, "/opt/firefox/firefox-bin": Personal,
		"/opt/google/chrome/chrome": Personal, "/usr/bin/google-chrome-stable": Personal, "/usr/lib/chromium/chromium": Personal,
		"/usr/bin/chromium-browser": Personal, "/opt/brave.com/brave/brave": Personal, "/usr/bin/brave-browser-stable": Personal,
		"/opt/microsoft/msedge/msedge": Personal, "/usr/bin/microsoft-edge-stable": Personal, "/usr/bin/edge": Personal,
		"/usr/lib/opera/opera": Personal, "/opt/vivaldi/vivaldi-bin": Personal, "/usr/bin/epiphany-browser": Personal, "/usr/bin/epiphany": Personal,
		"/usr/bin/konqueror": Personal, "/usr/bin/falkon": Personal,
		"/usr/bin/node": NoBrowser, "/usr/lib/chromium/chrome_crashpad_handler": NoBrowser, "/x/chrome-headless-shell": NoBrowser,
		"/x/chromedriver": NoBrowser, "/x/geckodriver": NoBrowser, "/usr/bin/xdg-open": NoBrowser, "": NoBrowser, "/": NoBrowser,
		"/opt/firefox/updater": NoBrowser, "/usr/bin/Firefox": NoBrowser,
	} {
		if got := BrowserOf(program, []string{program}, ""); got != want {
			t.Errorf("%q: %d, want %d", program, got, want)
		}
	}
	if got := BrowserOf("/usr/bin/firefox", nil, ""); got != NoBrowser {
		t.Errorf("without a command line: %d", got)
	}
}
