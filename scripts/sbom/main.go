// Command sbom prints the software bill of materials of a Go binary as CycloneDX 1.5 JSON (cyclonedx.org). It lists
// what the binary itself says of the modules in it.
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
)

type component struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	PURL    string `json:"purl,omitempty"`
}

type bill struct {
	Format     string `json:"bomFormat"`
	Spec       string `json:"specVersion"`
	Version    int    `json:"version"`
	Metadata   any    `json:"metadata"`
	Components []any  `json:"components"`
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom BINARY VERSION")
		os.Exit(2)
	}
	info, err := buildinfo.ReadFile(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
	b := bill{Format: "CycloneDX", Spec: "1.5", Version: 1}
	b.Metadata = map[string]any{"component": component{"application", info.Main.Path, os.Args[2], ""}}
	b.Components = append(b.Components, component{"platform", "go", info.GoVersion, "pkg:generic/go@" + info.GoVersion})
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		b.Components = append(b.Components, component{"library", m.Path, m.Version, "pkg:golang/" + m.Path + "@" + m.Version})
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	if err := out.Encode(b); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}
