package engine

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestBodyEndsWhereItEnds(t *testing.T) {
	for name, c := range map[string]struct {
		framing
		in, carries string
		err         error
	}{
		"length":                {framing{4, false}, "bodynext", "body", nil},
		"length 0":              {framing{0, false}, "next", "", nil},
		"length, cut off":       {framing{4, false}, "bod", "", io.ErrUnexpectedEOF},
		"length, nothing":       {framing{4, false}, "", "", io.ErrUnexpectedEOF},
		"until the end":         {framing{-1, false}, "body", "body", nil},
		"chunks":                {framing{-1, true}, "4\r\nbody\r\n0\r\n\r\nnext", "body", nil},
		"chunks and a length":   {framing{2, true}, "4\r\nbody\r\n0\r\n\r\nnext", "body", nil},
		"extension and trailer": {framing{-1, true}, "2;a=b\r\nbo\r\n00\r\nT: x\r\n\r\nnext", "bo", nil},
		"chunks, cut off":       {framing{-1, true}, "4\r\nbo", "", io.ErrUnexpectedEOF},
		"chunks, no end":        {framing{-1, true}, "4\r\nbody\r\n", "", io.ErrUnexpectedEOF},
		"a size that is none":   {framing{-1, true}, "x\r\nbody", "", ErrMalformedChunk},
		"a size with a sign":    {framing{-1, true}, "-1\r\nbody", "", ErrMalformedChunk},
		"no end after the data": {framing{-1, true}, "1\r\nbody\r\n", "", ErrMalformedChunk},
		"an endless line":       {framing{-1, true}, strings.Repeat("0", 20000), "", ErrMalformedChunk},
		"too long":              {framing{99999, false}, strings.Repeat("x", 99999), "", ErrBodyTooLong},
		"too long in chunks":    {framing{-1, true}, "ffff\r\n" + strings.Repeat("x", 99999), "", ErrBodyTooLong},
		"too long to the end":   {framing{-1, false}, strings.Repeat("x", 99999), "", ErrBodyTooLong},
	} {
		for _, from := range []io.Reader{strings.NewReader(c.in), iotest.OneByteReader(strings.NewReader(c.in))} {
			got, err := (Response{c.framing, 200}).ReadBody(bufio.NewReader(from), 30000)
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			if !errors.Is(err, c.err) || c.err == nil && string(got) != c.carries {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
	}
}

func TestBodiesThatAreNotThere(t *testing.T) {
	br := bufio.NewReader(strings.NewReader("next"))
	for name, read := range map[string]func(*bufio.Reader, int) ([]byte, error){
		"a request without a length": Request{framing: framing{-1, false}}.ReadBody,
		"a request of length 0":      Request{framing: framing{0, false}}.ReadBody,
		"204":                        Response{framing{5, false}, 204}.ReadBody,
		"304":                        Response{framing{-1, true}, 304}.ReadBody,
	} {
		if got, err := read(br, 9); got != nil || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if rest, _ := io.ReadAll(br); string(rest) != "next" {
		t.Errorf("left is %q", rest)
	}
}
