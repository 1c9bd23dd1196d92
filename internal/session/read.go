package session

import (
	"encoding/json"
	"fmt"
)

// maxRecord bounds a record file, in bytes.
const maxRecord = 64 << 10

// Read reads a record. Symbolic links, FIFOs, oversized files, unknown versions and records that do not name their own
// file are errors: such a record proves nothing.
func (d *Directory) Read(id string) (Record, error) {
	name := file(id, recordSuffix)
	b, err := d.at.ReadRegular(name, maxRecord)
	if err != nil {
		return Record{}, err
	}
	return parse(b, d.Name+"/"+name, id)
}

func parse(b []byte, name, id string) (Record, error) {
	var r Record
	if err := json.Unmarshal(b, &r); err != nil {
		return Record{}, fmt.Errorf("parse record %s: %w", name, err)
	}
	if r.Version != Version {
		return Record{}, fmt.Errorf("record %s has version %d, this program reads %d", name, r.Version, Version)
	}
	if r.ID != id {
		return Record{}, fmt.Errorf("record %s names session %.40q", name, r.ID)
	}
	return r, nil
}
