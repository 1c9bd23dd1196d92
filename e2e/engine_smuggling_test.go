package e2e

import (
	"fmt"
	"io"
	"testing"
)

// smuggles are requests behind which, or inside of which, one reader or another finds the hidden one.
func smuggles(hidden string) []string {
	const chunked = " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
	out := []string{
		"GET /_ping HTTP/1.1\r\nHost: x\r\n\r\n" + hidden,
		"GET /_ping HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}" + hidden,
		"GET /_ping HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n" + hidden,
		"GET /_ping HTTP/1.1\r\nHost: x\r\nA: b\rContent-Length: 900\r\n\r\n" + hidden,
		"GET /_ping HTTP/1.1\nHost: x\n\n" + hidden,
		"HEAD /_ping HTTP/1.1\r\nHost: x\r\n\r\n" + hidden,
		"POST /containers/none/attach HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n" + hidden,
		"POST /exec/none/start HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 2\r\n\r\n{}" + hidden,
		"POST /containers/none/kill HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n" + hidden,
		"POST /auth HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"POST /auth HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\n chunked\r\nContent-Length: 900\r\n\r\n0\r\n\r\n" + hidden,
		"POST /auth HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n" + hidden,
	}
	for _, path := range []string{"/containers/none/kill", "/v1.41/auth", "/v1.41/networks/create"} {
		for _, body := range []string{
			"0000000000000000\r\n\r\n", "00000000000000000\r\n\r\n", "0\r\r\n\r\n", "0\n\n", "0\r\n\n", "0\r\n\r\r\n", "0 \r\n\r\n", "0\r\nA\r\n\r\n", "x\r\n",
			"2\r\n{}\n0\r\n\r\n", "2\r\n{}\r\n0\r\nA: b\r\n\r\n", "2\r\n{}\r\n0\r\n A: b\r\n\r\n", "ffffffffffffffff\r\n{}\r\n0\r\n\r\n", "0;a=\"\r\n\r\n",
		} {
			out = append(out, "POST "+path+chunked+body+hidden)
		}
	}
	return out
}

// Requests that two readers may end at different places hide nothing from us.
func TestEngineSmuggling(t *testing.T) {
	e := engineFor(t)
	t.Parallel()
	s, host := proxied(t, setup{env: []string{"DOCKER_HOST=" + e.host}})
	mark := e.mark(t)
	body := fmt.Sprintf(`{"Image":%q,"Labels":{%q:%q},"Cmd":["boxed"],"HostConfig":{"NetworkMode":"none"}}`, e.image(t), markLabel, mark)
	hidden := lastMessage("POST", "/v1.41/containers/create", body, "Content-Type: application/json")
	var made [2]int // directly, and through the proxy
	for _, text := range smuggles(hidden) {
		for i, h := range []string{e.host, host} {
			c := dialEngine(t, h)
			go func() {
				_, _ = io.WriteString(c, text)
				_ = c.CloseWrite()
			}()
			_, _ = io.Copy(io.Discard, c) // however it ends
			now := e.marked(t, mark)
			for _, b := range now {
				if i == 1 && b.Labels["mcp-tether.session"] != s.id() {
					t.Errorf("%.200q made a container without our label: %v", text, b.Labels)
				}
			}
			made[i] += len(now)
			e.remove(t, now...)
		}
	}
	// The control: most of what is tried does create something, and what nobody can misread does so through us as well.
	// Docker 29 abandons a create whose client has hung up, as these have; through us it does not see that.
	if max(made[0], made[1]) < 10 || made[1] < 3 {
		t.Errorf("%d containers were made directly, and %d through the proxy", made[0], made[1])
	}
	t.Logf("%d containers were made directly, and %d through the proxy", made[0], made[1])
	s.end()
}
