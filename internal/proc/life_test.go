package proc

import (
	"os"
	"testing"
)

func TestLife(t *testing.T) {
	var r Reader
	self, err := r.Stat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		id   ID
		want Life
		word string
	}{
		"ourselves":              {self.ID, Alive, "alive"},
		"our pid before us":      {ID{PID: self.PID, Start: self.Start - 1}, Dead, "dead"},
		"a pid that is not used": {ID{PID: 1 << 22, Start: 1}, Dead, "dead"},
		"no identity":            {ID{}, Unknown, "unknown"},
	} {
		if got := r.Life(c.id); got != c.want || got.String() != c.word {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if Life(9).String() != "unknown" {
		t.Error("the words are part of the JSON of reap and ps")
	}
}
