package cli

import (
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"mcp-tether/internal/describe"
	"mcp-tether/internal/front"
	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
)

const cacheHelp = `Lists what "run --lazy" has kept of servers: what each says of itself, by
which later sessions answer before they start it. --clear removes it, or
what is kept of commands that match PATTERN: * stands for any text, ? for
one byte. The next session of a command starts its server, and keeps it
anew.

Exit code: 0 done; 2 the directory, or an entry, could not be read or
removed.

Examples:
   mcp-tether cache
   mcp-tether cache --json | jq '.entries[].command'
   mcp-tether cache --clear
   mcp-tether cache --clear '*server-memory*'`

func cacheCommand() *cli.Command {
	return &cli.Command{
		Name:            "cache",
		Usage:           "show or clear what run --lazy knows of servers",
		UsageText:       "mcp-tether cache [flags] [PATTERN]",
		Description:     cacheHelp,
		HideHelpCommand: true,
		OnUsageError:    badUsage,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "clear", DisableDefaultText: true, Usage: "remove what is kept, or what matches PATTERN"},
			&cli.BoolFlag{Name: "json", DisableDefaultText: true, Usage: "print one JSON object"},
		},
		Action: cache,
	}
}

// keptServer is an entry of the cache as it is shown.
type keptServer struct {
	Command []string       `json:"command"`
	Lists   map[string]int `json:"pages"`
	Bytes   int64          `json:"bytes"`
	Written time.Time      `json:"written"`
	entry   string
}

func cache(c *cli.Context) error {
	if c.NArg() > 1 || c.NArg() == 1 && !c.Bool("clear") {
		return usageError("cache takes one PATTERN, with --clear before it")
	}
	dir, err := session.OpenCache(os.Getuid(), os.Getenv("XDG_CACHE_HOME"), os.Getenv("HOME"))
	if err != nil {
		return err
	}
	defer dir.Close()
	all, unread := keptServers(dir)
	if c.Bool("clear") {
		return errors.Join(clearCache(dir, all, c.Args().First()), unread)
	}
	if c.Bool("json") {
		err = describe.JSON(os.Stdout, struct {
			Version int          `json:"version"`
			Entries []keptServer `json:"entries"`
		}{describe.SchemaVersion, all})
	} else {
		err = showCache(all)
	}
	return errors.Join(err, unread)
}

// keptServers lists the entries, the latest first. One that cannot be read has no command.
func keptServers(dir *session.Directory) (all []keptServer, unread error) {
	entries, unread := dir.Cached()
	for _, e := range entries {
		text, err := dir.ReadCached(e.Name)
		var k front.Known
		if err == nil {
			k, err = front.ParseKnown(text)
		}
		if err != nil {
			unread = errors.Join(unread, fmt.Errorf("%s/%s.json: %w", dir.Name, e.Name, err))
		}
		s := keptServer{Command: k.Args, Lists: map[string]int{}, Bytes: e.Bytes, Written: e.At.UTC(), entry: e.Name}
		for kind, pages := range k.Lists {
			s.Lists[kind] = len(pages)
		}
		all = append(all, s)
	}
	return all, unread
}

// clearCache removes the entries whose commands match, or all.
func clearCache(dir *session.Directory, all []keptServer, pattern string) (failed error) {
	n := 0
	for _, s := range all {
		if pattern != "" && !teardown.Match(pattern, describe.Command(s.Command)) {
			continue
		}
		if err := dir.RemoveCached(s.entry); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		n++
	}
	fmt.Fprintf(os.Stderr, "removed %s\n", counted(n, "server"))
	return failed
}

func showCache(all []keptServer) error {
	if len(all) == 0 {
		fmt.Fprintln(os.Stderr, "nothing is kept of any server")
		return nil
	}
	t := tabwriter.NewWriter(os.Stdout, 2, 8, 2, ' ', 0)
	fmt.Fprintln(t, "AGE\tSIZE\tLISTS\tCOMMAND")
	for _, s := range all {
		age := describe.Age(int64(time.Since(s.Written).Seconds()))
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", age, describe.Size(uint64(s.Bytes)), describe.Number(len(s.Lists)), describe.Command(s.Command))
	}
	return t.Flush()
}
