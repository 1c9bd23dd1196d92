package doctor

import (
	"fmt"
	"io"

	"mcp-tether/internal/display"
)

// State is how well something is.
type State string

// The states. Warn means that sessions work, with less than they could have. Fail means that something is wrong.
const (
	OK   State = "ok"
	Warn State = "warn"
	Fail State = "fail"
)

// Check is what was found about one thing.
type Check struct {
	// About is the thing in a word or two, and Found what was found.
	About string `json:"about"`
	State State  `json:"state"`
	Found string `json:"found"`
	// Cure says what to do; "" where all is well.
	Cure string `json:"cure,omitempty"`
	Count
}

func good(about, found string, args ...any) Check {
	return Check{About: about, State: OK, Found: fmt.Sprintf(found, args...)}
}

func poor(state State, about, cure, found string, args ...any) Check {
	return Check{About: about, State: state, Found: fmt.Sprintf(found, args...), Cure: cure}
}

// Failed reports whether something is wrong.
func Failed(all []Check) bool {
	for _, c := range all {
		if c.State == Fail {
			return true
		}
	}
	return false
}

// Text prints the verdict, one line for each check, and one for its cure. paint gives a state its colour.
func Text(w io.Writer, all []Check, paint func(s State, text string) string) error {
	if _, err := fmt.Fprintln(w, verdict(all)); err != nil {
		return err
	}
	for _, c := range all {
		if _, err := fmt.Fprintf(w, "%s  %-9s  %s\n", paint(c.State, fmt.Sprintf("%-4s", c.State)), c.About, display.Text(c.Found)); err != nil {
			return err
		}
		if c.Cure == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "      %-9s  -> %s\n", "", display.Text(c.Cure)); err != nil {
			return err
		}
	}
	return nil
}

// JSON prints one object.
func JSON(w io.Writer, all []Check) error {
	return display.JSON(w, struct {
		Version int     `json:"version"`
		Verdict string  `json:"verdict"`
		Checks  []Check `json:"checks"`
	}{display.SchemaVersion, verdict(all), all})
}
