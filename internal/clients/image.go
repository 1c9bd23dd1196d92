package clients

import (
	"path"
	"slices"
	"strings"
)

// RunImage is the image that a command line runs as a client of a container engine, in the form of CanonicalImage.
func RunImage(args []string) (string, bool) {
	if len(args) == 0 || !isEngineClient(args[0]) {
		return "", false
	}
	return imageAfter(args[1:])
}

// configuredImage is the image that a configured command runs, be it through sudo or a shell; "" for other commands.
func configuredImage(command string, args []string) string {
	words := append([]string{command}, args...)
	if base := path.Base(command); base == "sudo" || base == "doas" || isInterpreter(base) {
		words = strings.Fields(strings.Join(words, " "))
		words = words[max(0, slices.IndexFunc(words, isEngineClient)):]
	}
	image, _ := RunImage(words)
	return image
}

// isEngineClient reports whether a word names the command of a container engine.
func isEngineClient(w string) bool {
	base := path.Base(w)
	return base == "docker" || base == "podman"
}

// isEngineFlag reports whether a flag of docker or podman before the command is followed by a value.
func isEngineFlag(flag string) bool {
	switch flag {
	case "-H", "--host", "-c", "--context", "--config", "-l", "--log-level", "--tlscacert", "--tlscert", "--tlskey",
		"--connection", "--url", "--identity", "--root", "--runroot", "--runtime", "--storage-driver", "--storage-opt", "--cgroup-manager":
		return true
	}
	return false
}

// isRunSwitch reports whether a long flag of "docker run" or "podman run" has no value. Every other flag takes one.
func isRunSwitch(flag string) bool {
	switch flag {
	case "--detach", "--interactive", "--tty", "--rm", "--init", "--privileged", "--read-only", "--publish-all", "--no-healthcheck",
		"--oom-kill-disable", "--sig-proxy", "--disable-content-trust", "--quiet", "--use-api-socket", "--help",
		"--replace", "--rmi", "--tls-verify", "--http-proxy", "--no-hosts", "--no-hostname", "--env-host", "--read-only-tmpfs",
		"--passwd", "--unsetenv-all", "--rootfs":
		return true
	}
	return false
}

// runLetters are the short flags without a value. Several may stand together, and the last may take a value: -it,
// -itp 80:80.
const runLetters = "ditPq"

// imageAfter is the image in the words after the client's name: "[flags] [container] run [flags] IMAGE [...]".
func imageAfter(words []string) (string, bool) {
	words = afterFlags(words, isEngineFlag)
	if len(words) > 0 && words[0] == "container" {
		words = words[1:]
	}
	if len(words) == 0 || words[0] != "run" {
		return "", false
	}
	words = afterFlags(words[1:], takesValue)
	if len(words) == 0 || words[0] == "" {
		return "", false
	}
	return CanonicalImage(words[0]), true
}

// afterFlags drops the flags in front. The value of a flag stands in the same word after "=", or is the next word.
func afterFlags(words []string, value func(flag string) bool) []string {
	for len(words) > 0 && len(words[0]) > 1 && words[0][0] == '-' {
		flag := words[0]
		words = words[1:]
		if flag == "--" {
			return words
		}
		if !strings.Contains(flag, "=") && value(flag) && len(words) > 0 {
			words = words[1:]
		}
	}
	return words
}

// takesValue reports whether the word after a flag of "run" is its value.
func takesValue(flag string) bool {
	if strings.HasPrefix(flag, "--") {
		return !isRunSwitch(flag)
	}
	letters := strings.TrimLeft(flag[1:], runLetters)
	return len(letters) == 1
}

// CanonicalImage gives one name to all references that docker or podman take for the same image.
func CanonicalImage(ref string) string {
	for _, prefix := range []string{"docker://", "docker.io/", "index.docker.io/", "localhost/", "library/"} {
		ref = strings.TrimPrefix(ref, prefix)
	}
	name, digest, byDigest := strings.Cut(ref, "@")
	if byDigest {
		return untagged(name) + "@" + digest
	}
	if untagged(ref) == ref {
		return ref + ":latest"
	}
	return ref
}

// untagged cuts the tag, not the port of a registry.
func untagged(ref string) string {
	if i := strings.LastIndexByte(ref, ':'); i > strings.LastIndexByte(ref, '/') {
		return ref[:i]
	}
	return ref
}
