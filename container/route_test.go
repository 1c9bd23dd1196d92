package container

import (
	"errors"
	"testing"
)

func TestRoutes(t *testing.T) {
	create := func(kind Kind, libpod bool, name string) route {
		return route{act: actCreate, kind: kind, libpod: libpod, name: name}
	}
	for line, want := range map[string]route{
		"POST /containers/create":                       create(Container, false, ""),
		"POST /v1.41/containers/create?name=a%20b&x=%z": create(Container, false, "a b"),
		"POST /v1.41/networks/create":                   create(Network, false, ""),
		"POST /volumes/create":                          create(Volume, false, ""),
		"POST /v4.3.1-dev/libpod/containers/create":     create(Container, true, ""),
		"POST /libpod/pods/create":                      create(Pod, true, ""),
		"POST /libpod/networks/create":                  create(Network, true, ""),
		"POST /libpod/volumes/create":                   create(Volume, true, ""),
		// Spellings that a router may take for the same.
		"POST /containers/%63reate":                   create(Container, false, ""),
		"POST /containers%2Fcreate":                   create(Container, false, ""),
		"POST //containers//create":                   create(Container, false, ""),
		"POST /v1.41/./x/../containers/create/":       create(Container, false, ""),
		"POST http://docker/v1.41/containers/create":  create(Container, false, ""),
		"POST /v.1/containers/create":                 create(Container, false, ""),
		"POST /libpod/play/kube?start=true":           {act: actPlay, kind: Pod, libpod: true},
		"POST /v4/libpod/kube/play":                   {act: actPlay, kind: Pod, libpod: true},
		"POST /containers/abc/start":                  {act: actStart, kind: Container, ref: "abc"},
		"POST /v1.41/containers/abc/restart?t=1":      {act: actStart, kind: Container, ref: "abc", again: true},
		"POST /v4.0.0/libpod/containers/create/start": {act: actStart, kind: Container, libpod: true, ref: "create"},
		"POST /containers/a%2Fb/start":                {act: actStart, kind: Container, ref: "a/b"},
		"POST /containers/abc/attach?stream=1":        {act: actAttach, kind: Container, ref: "abc"},
		"POST /v1.41/exec/e1/start":                   {act: actExec},
		"POST /libpod/exec/e1/start":                  {act: actExec, libpod: true},
		"DELETE /containers/abc?force=1":              {act: actRemove, kind: Container, ref: "abc"},
		"DELETE /v1.41/networks/n":                    {act: actRemove, kind: Network, ref: "n"},
		"DELETE /v4.0.0/libpod/pods/p":                {act: actRemove, kind: Pod, libpod: true, ref: "p"},
		// Others.
		"GET /containers/create":        {},
		"POST /pods/create":             {},
		"POST /containers/a/create":     {},
		"POST /containers/abc/stop":     {},
		"POST /containers/start":        {},
		"POST /exec/start":              {},
		"POST /":                        {},
		"POST /v1.41":                   {},
		"POST /libpod":                  {libpod: false},
		"POST /version/create":          {},
		"POST /build?t=containers/load": {},
		"POST *":                        {},
	} {
		r, err := parseRequest([]byte(line + " HTTP/1.1\r\n\r\n"))
		if err != nil {
			t.Fatal(err)
		}
		if to, err := routeOf(r); err != nil && line != "POST *" || to != want {
			t.Errorf("%s: %+v, %v", line, to, err)
		}
	}
	if _, err := routeOf(request{method: "POST", target: "/%zz"}); !errors.Is(err, errMalformedHead) {
		t.Errorf("a target that is none: %v", err)
	}
}
