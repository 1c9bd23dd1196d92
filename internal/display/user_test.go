package display

import "testing"

func TestUser(t *testing.T) {
	if User(0) != "root" || User(987654321) != "987654321" {
		t.Errorf("%q, %q", User(0), User(987654321))
	}
}
