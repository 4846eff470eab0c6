// Package version is the only definition of the version: binary, schema, packages and image use it, and a
// test compares the changelog with it.
package version

import "runtime/debug"

// Number is the version that this source tree was or will be released as.
const Number = "0.1.0"

// String returns Number with the commit of the build, if the build information has it.
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
