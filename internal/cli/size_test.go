package cli

import "testing"

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1, "1048576": 1 << 20, "1K": 1 << 10, "1KiB": 1 << 10, "64MiB": 64 << 20, "2Gi": 2 << 30, "8G": 8 << 30,
	} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "MiB", "1.5MiB", "64MB", "1 MiB", "9999999999G", "64MiBx"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%q is taken for %d", text, got)
		}
	}
}
