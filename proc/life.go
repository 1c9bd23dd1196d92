package proc

// Life says whether the process of an identity lives.
type Life uint8

// The answers of Reader.Life. Only Dead proves an end.
const (
	Unknown Life = iota
	Alive
	Dead
)

func (l Life) String() string {
	switch l {
	case Alive:
		return "alive"
	case Dead:
		return "dead"
	}
	return "unknown"
}
