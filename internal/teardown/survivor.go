package teardown

import (
	"errors"
	"syscall"

	"mcp-tether/internal/proc"
)

// Survivor is a member that could not be ended, for the closing log event.
type Survivor struct {
	PID  int    `json:"pid"`
	Comm string `json:"comm"`
	UID  int    `json:"uid"`
	// Why says what stood in the way.
	Why string `json:"why"`
}

// lastLooks is how many looks in a row may find members that have ended before they can be signalled. Such members have not
// survived, but may have started others in between. After that many looks, the tree counts as one that goes on forking.
const lastLooks = 4

// Survivors names the members that are left after the last SIGKILL, and sends them another.
func (k *Killer) Survivors() (out []Survivor, kept []proc.Stat, err error) {
	out = []Survivor{}
	for n := 1; ; n++ {
		var end []proc.Stat
		end, kept, err = k.Members()
		gone := false
		for _, m := range end {
			err := k.reader.Signal(m.ID, syscall.SIGKILL)
			if errors.Is(err, proc.ErrGone) && n < lastLooks {
				gone = true
				continue
			}
			out = append(out, survivor(m, why(m, err)))
		}
		if len(out) > 0 || !gone {
			return out, kept, err
		}
	}
}

func survivor(p proc.Stat, why string) Survivor {
	uid, _ := proc.UID(p.PID)
	return Survivor{p.PID, p.Comm, uid, why}
}

func why(m proc.Stat, err error) string {
	switch {
	case errors.Is(err, proc.ErrGone):
		return "it has ended, but its tree starts others all the time"
	case err != nil:
		return err.Error()
	case m.State == 'D':
		return "in uninterruptible sleep (state D): it ends when the kernel lets it"
	}
	return "still ending after SIGKILL"
}
