// Command provenance prints how a release was built: an in-toto statement (version 1) with a SLSA provenance (version 1) about
// every file in a directory. It has no times, so two builds of one commit have the same.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// resource is what in-toto calls a resource descriptor.
type resource struct {
	Name        string            `json:"name,omitempty"`
	URI         string            `json:"uri,omitempty"`
	Digest      map[string]string `json:"digest,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type fields map[string]any

func main() {
	if len(os.Args) < 5 {
		fmt.Fprintln(os.Stderr, "usage: provenance DIR VERSION COMMIT BINARY [TOOL=VERSION...]")
		os.Exit(2)
	}
	statement, err := describe(os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5:])
	if err == nil {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		err = out.Encode(statement)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "provenance:", err)
		os.Exit(1)
	}
}

// describe is the statement. The type of the build is documented in docs/release.md.
func describe(dir, version, commit, binary string, tools []string) (fields, error) {
	subjects, err := digests(dir)
	if err != nil {
		return nil, err
	}
	modules, goVersion, err := modulesOf(binary)
	if err != nil {
		return nil, err
	}
	used := []resource{{Name: "go", Annotations: map[string]string{"version": goVersion}}}
	for _, t := range tools {
		name, version, _ := strings.Cut(t, "=")
		used = append(used, resource{Name: name, Annotations: map[string]string{"version": version}})
	}
	source := resource{Name: "source", Digest: map[string]string{"gitCommit": commit}}
	return fields{
		"_type":         "https://in-toto.io/Statement/v1",
		"subject":       subjects,
		"predicateType": "https://slsa.dev/provenance/v1",
		"predicate": fields{
			"buildDefinition": fields{
				"buildType":            "urn:mcp-tether:make-release:1",
				"externalParameters":   fields{"version": version},
				"resolvedDependencies": append([]resource{source}, modules...),
			},
			"runDetails": fields{"builder": fields{"id": "urn:mcp-tether:scripts-release", "builderDependencies": used}},
		},
	}, nil
}

// digests are the files of a directory.
func digests(dir string) (files []resource, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list what was built: %w", err)
	}
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read what was built: %w", err)
		}
		sum := sha256.Sum256(content)
		files = append(files, resource{Name: e.Name(), Digest: map[string]string{"sha256": hex.EncodeToString(sum[:])}})
	}
	return files, nil
}

var errSum = errors.New("no hash of a module as go.sum has it")

// modulesOf are the modules in a binary. in-toto writes the hash of a module in hexadecimal, where Go writes h1: and base64.
func modulesOf(binary string) (modules []resource, goVersion string, err error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, "", fmt.Errorf("read what %s was built from: %w", binary, err)
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		text, found := strings.CutPrefix(m.Sum, "h1:")
		sum, err := base64.StdEncoding.DecodeString(text)
		if err != nil || !found {
			return nil, "", fmt.Errorf("module %s: %w: %q", m.Path, errSum, m.Sum)
		}
		modules = append(modules, resource{URI: "pkg:golang/" + m.Path + "@" + m.Version, Digest: map[string]string{"dirHash": hex.EncodeToString(sum)}})
	}
	return modules, info.GoVersion, nil
}
