//go:build !(amd64 || arm64)

package proc

func recorded() (AtExec, bool) { return AtExec{}, false }

func recordedSlack() uint64 { return 0 }

func recordedEnviron() ([]string, bool) { return nil, false }
