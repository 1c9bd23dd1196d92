// Package relay stands between a client and its server and can replace the server without the client noticing.
//
// It copies bytes, and a scanner reads along as far as a relay must understand the conversation. A message that the
// scanner cannot read passes all the same. While a server is being ended or restored the relay works line by line,
// because not every line may pass then.
//
// The package starts no process and keeps no time limits. It never waits, except for a slow client in Flush. Its caller
// polls the descriptors that Polls names, calls Move, and acts on the events that Move returns.
package relay
