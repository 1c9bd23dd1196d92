package relay

import "testing"

const (
	listenMeta = `{"_meta":{"io.modelcontextprotocol/subscriptionId":9}`
	listen     = `{"jsonrpc":"2.0","id":9,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true}}}` + "\n"
	agreed     = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":` + listenMeta +
		`,"notifications":{"toolsListChanged":true}}}` + "\n"
	news     = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":` + listenMeta + "}}\n"
	listened = `{"jsonrpc":"2.0","id":9,"result":{}}` + "\n"

	unsubscribe = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}` + "\n"
)

// subscribed has a client without a handshake open a subscription.
func subscribed(t *testing.T) *stage {
	t.Helper()
	s := newStage(t, false)
	s.askModern()
	s.write(s.toRelay, listen)
	s.write(s.serverOut, agreed)
	s.reads(s.serverIn, listen)
	s.reads(s.fromRelay, agreed)
	return s
}

// A subscription outlives a sleep: the next server gets it before anything else, and the client is told to look again.
func TestWakeWithSubscription(t *testing.T) {
	s := subscribed(t)
	s.fallAsleep()
	for range 2 {
		s.tells(s.write(s.toRelay, modernList), Event{Kind: ClientWrote})
		s.connect()
		s.tells(s.relay.Restore())
		s.reads(s.serverIn, listen)
		s.tells(s.write(s.serverOut, agreed), Event{Kind: Answered}, Event{Kind: Restored})
		s.reads(s.serverIn, modernList)
		s.tells(s.write(s.serverOut, listed))
		s.reads(s.fromRelay, news+listed)
		s.fallAsleep()
	}
}

// A new server that does not take the subscription ends it: that is for the client to know.
func TestSubscriptionIsRefused(t *testing.T) {
	for _, refusal := range []string{listened, unsubscribe} {
		s := subscribed(t)
		s.fallAsleep()
		s.write(s.toRelay, modernList)
		s.connect()
		s.relay.Restore()
		s.tells(s.write(s.serverOut, refusal), Event{Kind: Answered}, Event{Kind: Restored})
		s.reads(s.fromRelay, refusal)
		s.reads(s.serverIn, listen+modernList)
	}
}
