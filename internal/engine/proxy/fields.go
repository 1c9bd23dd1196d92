package proxy

import (
	"fmt"
	"strconv"
	"strings"

	"mcp-tether/internal/http1"
	"mcp-tether/internal/http2"
)

// fields are the header fields of a request in HTTP/2, as far as the proxy has to know them.
type fields struct {
	method, path, authority string
	contentType             string
	length                  int64 // of the body in bytes; -1 when there is no such field
	regular                 []http2.Field
}

// parseFields parses the fields of a request. It accepts less than the engines do: if fields can be understood in more
// than one way, the error wraps http2.ErrMalformed.
func parseFields(all []http2.Field) (fields, error) {
	r := fields{length: -1}
	seen := map[string]bool{}
	for i, field := range all {
		once := field.IsPseudo() || field.Name == "content-type" || field.Name == "content-length" || field.Name == "host"
		ok := !once || !seen[field.Name]
		if seen[field.Name] = true; field.IsPseudo() {
			ok = ok && len(r.regular) == 0 && r.setPseudo(field)
		} else {
			ok = ok && isRegular(field) && r.set(field)
			r.regular = all[i-len(r.regular) : i+1]
		}
		if !ok {
			return r, fmt.Errorf("%w: field %.80q", http2.ErrMalformed, field.Name)
		}
	}
	if !seen[":method"] || r.method != "CONNECT" && (!seen[":path"] || !seen[":scheme"]) {
		return r, fmt.Errorf("%w: a request without method, scheme or path", http2.ErrMalformed)
	}
	return r, nil
}

// setPseudo takes a pseudo field, and reports whether a request may have it.
func (r *fields) setPseudo(field http2.Field) bool {
	switch field.Name {
	case ":method":
		r.method = field.Value
		return http1.IsToken(field.Value)
	case ":path":
		r.path = field.Value
		return field.Value != "" && http1.IsText(field.Value) && !strings.ContainsAny(field.Value, " \t")
	case ":authority":
		r.authority = field.Value
		return http1.IsText(field.Value)
	}
	return field.Name == ":scheme" || field.Name == ":protocol" && r.method == "CONNECT"
}

// set takes a field that the proxy has to know, and reports whether it is understood.
func (r *fields) set(field http2.Field) bool {
	switch field.Name {
	case "content-type":
		r.contentType = field.Value
	case "content-length":
		n, err := strconv.ParseUint(field.Value, 10, 63)
		r.length = int64(n)
		return err == nil
	case "host":
		return r.authority == "" || field.Value == r.authority
	}
	return true
}

// isRegular reports whether a field may stand in a message of HTTP/2. A line end in it would be another field in HTTP/1.1.
func isRegular(field http2.Field) bool {
	switch field.Name {
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
		return false
	case "te":
		return field.Value == "trailers"
	}
	return http1.IsToken(field.Name) && strings.ToLower(field.Name) == field.Name && http1.IsText(field.Value) && strings.Trim(field.Value, " \t") == field.Value
}

// isCall reports whether a request is a call of gRPC. A call creates nothing that has labels. The engine sends a
// request to its gRPC server if it is in HTTP/2 and its content type begins with application/grpc. All others go to the
// router of its API (daemon/command/httphandler.go of moby/moby). isCall accepts less: an engine that looks only at the
// path must not find anything of its API there either.
func (r fields) isCall() bool {
	kind, _, _ := strings.Cut(r.contentType, ";")
	kind, _, _ = strings.Cut(kind, "+")
	service, method, ok := strings.Cut(strings.TrimPrefix(r.path, "/"), "/")
	return r.method == http1.MethodPost && kind == "application/grpc" && r.path[0] == '/' &&
		ok && isServiceName(service) && isName(method)
}

// isServiceName reports whether a segment of a path names a service in its package, such as moby.buildkit.v1.Control,
// and is no version of the API.
func isServiceName(s string) bool {
	pack, service, ok := strings.Cut(s, ".")
	return ok && isName(pack) && isName(strings.ReplaceAll(service, ".", "")) && !isVersion(s)
}

// isName reports whether s is made of letters, digits and underscores only, and does not begin with a digit.
func isName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= '0' && c <= '9' && i > 0:
		default:
			return false
		}
	}
	return s != ""
}
