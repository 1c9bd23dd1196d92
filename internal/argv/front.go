package argv

// Restart is the value of --on-crash with which a server that ended by itself is started again.
const Restart = "restart"

// Wants reports what the flags before the command ask for: a front, because the server may be replaced, or start late, or what it
// writes is judged; and a shared server. args follow the word run; env gives the values of variables. The flag parser reports a value
// that is none.
func Wants(args []string, env func(name string) string) (front, share bool) {
	var asked [len(Run)]bool
	for i := range Run {
		asked[i] = (Run[i].Front || Run[i].Share) && Run[i].asks(env(Run[i].Env))
	}
	help := false
	eachFlag(args, func(f flag) {
		help = help || isHelp(f.name)
		for i := range Run {
			if Run[i].Name == f.name {
				asked[i] = Run[i].asks(f.value) || Run[i].Kind == Switch && !f.attached
			}
		}
	})
	for i := range asked {
		front = front || asked[i] && Run[i].Front && !help
		share = share || asked[i] && Run[i].Name == shareFlag && !help
	}
	return front, share
}

// plain are the flags of a session that has no front and shares nothing, whatever the environment says.
func plain() []string {
	out := []string{"--" + shareFlag + "=false"}
	for i := range Run {
		if Run[i].Front {
			out = append(out, Run[i].off())
		}
	}
	return out
}

// wordsWithout leaves out flags before the command, which then follows "--".
func wordsWithout(words []string, drop func(*Flag) bool) (out []string) {
	command := eachFlag(words, func(f flag) {
		if known := find(Run[:], f.name); known == nil || !drop(known) {
			out = append(out, f.words...)
		}
	})
	return append(append(out, "--"), words[command:]...)
}
