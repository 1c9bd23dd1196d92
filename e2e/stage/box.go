package stage

import (
	"archive/tar"
	"bytes"
	"context"
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
	id = strings.TrimSpace(string(said))
	// Of podman's engine docker prints the id twice, "ID: ID".
	if _, again, twice := strings.Cut(id, ": "); twice {
		id = again
	}
	return id, nil
}

// Docker says what a docker command says. It gives up on an engine that does not answer.
func Docker(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "docker", args...).Output()
	return strings.TrimSpace(string(out)), err
}

// Boxes lists the containers with a label. Where that cannot be told there is one.
func Boxes(label string) []string {
	out, err := Docker("ps", "-aq", "--filter", "label="+label)
	if err != nil {
		return []string{"unknown: " + err.Error()}
	}
	return strings.Fields(out)
}

// RemoveBoxes removes what Boxes lists, however it runs.
func RemoveBoxes(label string) error {
	all := Boxes(label)
	if len(all) == 0 {
		return nil
	}
	_, err := Docker(append([]string{"rm", "-f"}, all...)...)
	return err
}
