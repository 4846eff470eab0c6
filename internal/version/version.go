// Package version is the one place that names the version: binary, schema, packages
// and image take it from here, and a test holds the changelog to it.
package version

import "runtime/debug"

// Number is the version that this tree becomes, or was released as.
const Number = "0.1.0"

// String returns Number with the commit it was built from, where the build knows one.
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Number
	}
	commit, modified := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = ", modified"
		}
	}
	if commit == "" {
		return Number
	}
	return Number + " (" + commit + modified + ")"
}
