package live

// Stopped is what became of a session that was asked to end.
type Stopped struct {
	ID    string `json:"id"`
	Name  string `json:"name,omitempty"`
	Ended bool   `json:"ended"`
	// Error says why it has not ended.
	Error string `json:"error,omitempty"`
}
