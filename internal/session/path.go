package session

import (
	"path"
	"strconv"
	"strings"
)

// Where sessions keep their files. The names are spelled here and nowhere else.

// The parents of our directories.
const (
	systemRuntime = "/run"
	usersRuntime  = "/run/user"
	temporaryDir  = "/tmp"
	systemState   = "/var/lib"
)

// dirName is the session directory's name in a runtime directory. In /tmp, which all users share, "-UID" follows.
const dirName = "mcp-tether"

// dirIn is the session directory in a runtime directory.
func dirIn(runtime string) string { return runtime + "/" + dirName }

// userRuntime is the runtime directory that a login manager makes for a user.
func userRuntime(uid int) string { return usersRuntime + "/" + strconv.Itoa(uid) }

// fallbackDir is the session directory where there is no runtime directory.
func fallbackDir(uid int) string { return temporaryDir + "/" + fallbackPrefix + strconv.Itoa(uid) }

const fallbackPrefix = dirName + "-"

// suffix distinguishes the files of one session; they begin with its id.
type suffix string

const (
	recordSuffix suffix = ".json"
	nextSuffix   suffix = ".json.tmp" // what is about to be the record
	lockSuffix   suffix = ".lock"     // a lock that is no session's
	socketSuffix suffix = ".sock"
	nextSocket   suffix = ".sock.tmp" // the link that is about to be in the socket's place
)

// file is the name of one of a session's files in its directory.
func file(id string, s suffix) string { return id + string(s) }

// SocketID gives the session whose proxy listens on the socket at this path; ok is false if it cannot be a session's.
func SocketID(socket string) (id string, ok bool) {
	id, ok = strings.CutSuffix(path.Base(socket), string(socketSuffix))
	return id, ok && ValidID(id)
}
