package main

import "testing"

func TestAgainst(t *testing.T) {
	for doc, want := range map[string]string{
		"FuzzX compares our reading with net/http.\n":                                        "net/http",
		"FuzzX compares the end\nof a body with net/http\nof Go 1.19, which is old. More.\n": "net/http of Go 1.19",
		"FuzzX compares what is read with encoding/json: all of it.\n":                       "encoding/json",
		"Whatever is read, nothing crashes. FuzzX compares nothing with encoding/json.\n":    "",
		"FuzzX crashes on nothing. It compares no value with encoding/json.\n":               "",
		"": "",
	} {
		if got := against(doc); got != want {
			t.Errorf("%q: %q, want %q", doc, got, want)
		}
	}
}

func TestProgress(t *testing.T) {
	const said = "fuzz: elapsed: 0s, gathering baseline coverage: 0/7 completed\n" +
		"fuzz: elapsed: 3s, execs: 50979 (16992/sec), new interesting: 85 (total: 92)\n" +
		"fuzz: elapsed: 4s, execs: 50999 (0/sec), new interesting: 86 (total: 93)\nPASS\n"
	for text, want := range map[string]string{said: "  50999 executions,  86 new", "PASS\n": "no executions"} {
		if got := progress([]byte(text)); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
