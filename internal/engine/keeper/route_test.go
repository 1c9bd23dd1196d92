package keeper

import (
	"errors"
	"testing"

	"mcp-tether/internal/engine"
)

func TestRoutes(t *testing.T) {
	create := func(kind engine.Kind, libpod bool, name string) route {
		return route{creates: kind, libpod: libpod, name: name}
	}
	for line, want := range map[string]route{
		"POST /containers/create":                       create(engine.Container, false, ""),
		"POST /v1.41/containers/create?name=a%20b&x=%z": create(engine.Container, false, "a b"),
		"POST /v1.41/networks/create":                   create(engine.Network, false, ""),
		"POST /v4.3.1-dev/libpod/containers/create":     create(engine.Container, true, ""),
		"POST /libpod/pods/create":                      create(engine.Pod, true, ""),
		"POST /libpod/networks/create":                  create(engine.Network, true, ""),
		// Spellings that a router may take for the same.
		"POST /containers/%63reate":                  create(engine.Container, false, ""),
		"POST /containers%2Fcreate":                  create(engine.Container, false, ""),
		"POST //containers//create":                  create(engine.Container, false, ""),
		"POST /v1.41/./x/../containers/create/":      create(engine.Container, false, ""),
		"POST http://docker/v1.41/containers/create": create(engine.Container, false, ""),
		"POST /v.1/containers/create":                create(engine.Container, false, ""),
		"POST /%761.41/containers/create":            create(engine.Container, false, ""),
		"POST /v1.41/containers/create?":             create(engine.Container, false, ""),
		"POST /v01.041/containers/create":            create(engine.Container, false, ""),
		// Others.
		"GET /containers/create":        {},
		"POST /pods/create":             {},
		"POST /containers/a/create":     {},
		"POST /containers/abc/stop":     {},
		"POST /containers/abc/start":    {},
		"POST /networks/n/connect":      {},
		"POST /libpod/play/kube":        {libpod: true},
		"POST /containers/start":        {},
		"POST /exec/start":              {},
		"POST /":                        {},
		"POST /v1.41":                   {},
		"POST /libpod":                  {libpod: false},
		"POST /version/create":          {},
		"POST /build?t=containers/load": {},
		"POST *":                        {},
	} {
		r, err := engine.ParseRequest([]byte(line + " HTTP/1.1\r\n\r\n"))
		if err != nil {
			t.Fatal(err)
		}
		if to, err := routeOf(r); err != nil && line != "POST *" || to != want {
			t.Errorf("%s: %+v, %v", line, to, err)
		}
	}
	if _, err := routeOf(engine.Request{Method: "POST", Target: "/%zz"}); !errors.Is(err, engine.ErrMalformedHead) {
		t.Errorf("a target that is none: %v", err)
	}
}
