package waiting

import (
	"bytes"
	"testing"
)

// Until a record is written whole, the page has the one before.
func TestRecordIsWrittenBesideTheLast(t *testing.T) {
	p := new(Page)
	if r := p.Record(); r != nil {
		t.Errorf("a new page has the record %q", r)
	}
	size := len(p.record) / 3
	for n := range 7 {
		old := p.Record()
		was := bytes.Clone(old)
		next := bytes.Repeat([]byte{byte('a' + n)}, size)
		if err := p.SetRecord(next); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(old, was) {
			t.Errorf("record %d is written over the one before", n)
		}
		if !bytes.Equal(p.Record(), next) {
			t.Errorf("record %d is not in the page", n)
		}
	}
	if err := p.SetRecord(make([]byte, len(p.record))); err == nil {
		t.Error("a record has room that is longer than what is left")
	}
}
