package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// How often to read a record whose lease is held, and which so may be being written, and how long to wait between.
const (
	tornTries = 5
	tornPause = 2 * time.Millisecond
)

// Read reads a record. Symbolic links, FIFOs, oversized files, unknown versions and records that do not name their own
// file are errors: such a record proves nothing. One in which nothing is written yet is none (os.ErrNotExist).
func (d *Directory) Read(id string) (Record, error) {
	r, err := d.read(id)
	var torn *json.SyntaxError
	for n := 1; n < tornTries && errors.As(err, &torn); n++ {
		if held, _ := d.Held(id); !held {
			// Nobody writes it any more. There may be thousands of such.
			return d.read(id)
		}
		time.Sleep(tornPause)
		r, err = d.read(id)
	}
	return r, err
}

func (d *Directory) read(id string) (Record, error) {
	name := file(id, recordSuffix)
	b, err := d.at.ReadRegular(name, proc.MaxRecord)
	if err == nil && len(b) == 0 {
		err = fmt.Errorf("read %s/%s: nothing is written yet: %w", d.Name, name, unix.ENOENT)
	}
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
