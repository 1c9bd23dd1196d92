package cli

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"mcp-tether/internal/argv"
)

// parserFlags makes the flag parser's flags of a table. A variable that is set but empty, as launchers and unit files leave them,
// counts as none.
func parserFlags(table []argv.Flag) []cli.Flag {
	all := make([]cli.Flag, len(table))
	for i := range table {
		f := &table[i]
		var env, short []string
		if f.Env != "" && os.Getenv(f.Env) != "" {
			env = []string{f.Env}
		}
		if f.Short != "" {
			short = []string{f.Short}
		}
		switch f.Kind {
		case argv.Switch:
			all[i] = &cli.BoolFlag{Name: f.Name, Aliases: short, EnvVars: env}
		case argv.Text:
			all[i] = &cli.StringFlag{Name: f.Name, Value: f.Default, EnvVars: env}
		case argv.List:
			all[i] = &cli.StringSliceFlag{Name: f.Name, EnvVars: env}
		case argv.Duration:
			d, _ := time.ParseDuration(f.Default) // "" is 0
			all[i] = &cli.DurationFlag{Name: f.Name, Value: d, EnvVars: env}
		case argv.Number:
			n, _ := strconv.Atoi(f.Default)
			all[i] = &cli.IntFlag{Name: f.Name, Value: n, EnvVars: env}
		}
	}
	return all
}

// longestDuration is more than anybody waits. Sums of durations below it are durations.
const longestDuration = 10 * 365 * 24 * time.Hour

// checkValues refuses a choice that there is not, a number below 0, and a duration below 0 or beyond all reason. skips leaves out a flag.
func checkValues(c *cli.Context, table []argv.Flag, skips func(*argv.Flag) bool) error {
	for i := range table {
		f := &table[i]
		if skips(f) {
			continue
		}
		if f.Values != nil && !slices.Contains(f.Values, c.String(f.Name)) {
			return usageError(fmt.Sprintf("--%s %q is none of %s", f.Name, c.String(f.Name), strings.Join(f.Values, ", ")))
		}
		if f.Kind == argv.Number && c.Int(f.Name) < 0 {
			return usageError(fmt.Sprintf("--%s %d is negative", f.Name, c.Int(f.Name)))
		}
		if f.Kind != argv.Duration {
			continue
		}
		if d := c.Duration(f.Name); d < 0 || d > longestDuration {
			return usageError(fmt.Sprintf("--%s %v is negative, or more than %v: give 0 or more, such as 1.5s", f.Name, d, longestDuration))
		}
	}
	return nil
}

// placeholder is the word for the value of a flag, and text its usage without quotes.
func placeholder(f *argv.Flag) (word, text string) {
	if _, rest, ok := strings.Cut(f.Usage, "`"); ok {
		word, _, _ = strings.Cut(rest, "`")
	}
	return word, strings.ReplaceAll(f.Usage, "`", "")
}

// defaultOf is the default as help shows it; "" for one that says nothing.
func defaultOf(f *argv.Flag) string {
	if f.Default == "0" {
		return ""
	}
	return f.Default
}

// jsonFlags are those of commands that have no other.
var jsonFlags = [...]argv.Flag{{Name: "json", Usage: "print one JSON object"}}

// visible are the flags that help, completion and pages show.
func visible(table []argv.Flag) []argv.Flag {
	return slices.DeleteFunc(slices.Clone(table), func(f argv.Flag) bool { return f.Hidden })
}
