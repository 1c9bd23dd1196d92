package stage

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Image makes an image that has one program alone, below its own name at the root, and returns its id. It takes the engine
// that docker takes.
func Image(program string) (id string, err error) {
	b, err := os.ReadFile(program)
	if err != nil {
		return "", fmt.Errorf("read what is to be in the image: %w", err)
	}
	var files bytes.Buffer
	out := tar.NewWriter(&files)
	// A buffer takes all that is written.
	_ = out.WriteHeader(&tar.Header{Name: filepath.Base(program), Mode: 0o755, Size: int64(len(b))})
	_, _ = out.Write(b)
	_ = out.Close()
	load := exec.Command("docker", "import", "-")
	load.Stdin, load.Stderr = &files, os.Stderr
	said, err := load.Output()
	if err != nil {
		return "", fmt.Errorf("import an image: %w", err)
	}
	return strings.TrimSpace(string(said)), nil
}
