package mcp

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// chunkSize is what a pipe holds on Linux, and so what a relay reads at once.
const chunkSize = 64 << 10

func benchmarkFeed(b *testing.B, stream []byte) {
	b.Helper()
	s := &Scanner{}
	emit := func(Message) {}
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		for from := 0; from < len(stream); from += chunkSize {
			if err := s.Feed(stream[from:min(from+chunkSize, len(stream))], emit); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkLongStrings(b *testing.B) {
	text := strings.Repeat("QUJDRUZHSElKS0xNTk9QUVJTVFVWV1hZWmFiY2RlZmdoaWprbG1ub3A=", 8<<20/56)
	benchmarkFeed(b, fmt.Appendf(nil, `{"result":{"content":[{"type":"image","data":"%s"}]},"jsonrpc":"2.0","id":1}`+"\n", text))
}

func BenchmarkManyLongStrings(b *testing.B) {
	text := strings.Repeat("QUJDRUZHSElKS0xNTk9QUVJTVFVWV1hZWmFiY2RlZmdoaWprbG1ub3A=", 1<<20/56)
	benchmarkFeed(b, bytes.Repeat(fmt.Appendf(nil, `{"result":{"data":"%s"},"jsonrpc":"2.0","id":1}`+"\n", text), 8))
}

// Source code and the like: an escape every 40 bytes.
func BenchmarkTexts(b *testing.B) {
	text := strings.Repeat(`\tif err := server.Feed(chunk, emit); err != nil {\n`, 8<<20/52)
	benchmarkFeed(b, fmt.Appendf(nil, `{"result":{"content":[{"type":"text","text":"%s"}]},"jsonrpc":"2.0","id":1}`+"\n", text))
}

func BenchmarkNumbers(b *testing.B) {
	benchmarkFeed(b, numbers("0.8412345,-12.5,", 8<<20))
}

func BenchmarkDigits(b *testing.B) {
	benchmarkFeed(b, numbers("1,2,", 8<<20))
}

func numbers(some string, size int) []byte {
	return fmt.Appendf(nil, `{"result":{"data":[%s0]},"jsonrpc":"2.0","id":1}`+"\n", strings.Repeat(some, size/len(some)))
}

func BenchmarkObjects(b *testing.B) {
	object := `{"uri":"file:///src/main.go","name":"main.go","size":1234,"kind":"file","tags":["a","b"],"hidden":false},`
	benchmarkFeed(b, fmt.Appendf(nil, `{"result":{"resources":[%s{}]},"jsonrpc":"2.0","id":1}`+"\n", strings.Repeat(object, 8<<20/len(object))))
}

func BenchmarkSmallMessages(b *testing.B) {
	benchmarkFeed(b, bytes.Repeat([]byte(`{"jsonrpc":"2.0","id":1234,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello"}}}`+"\n"), 1000))
}
