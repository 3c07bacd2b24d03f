// Package buildinfo describes how the program was built.
package buildinfo

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// Info describes how a program was built.
type Info struct {
	Version  string `json:"version"` // of module vagen; "(devel)" for a working tree
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified"` // the working tree had uncommitted changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Text is the version with the revision and whether there were changes.
func (i Info) Text() string {
	text := strings.TrimSpace(i.Version + " " + i.Revision)
	if i.Modified {
		text += " with changes"
	}
	return text
}

// Read describes the running program.
func Read() Info { return Of(debug.ReadBuildInfo()) }

// Of describes a program by its build information, if it has one. Revision is that of
// module vagen only if the program belongs to this module.
func Of(info *debug.BuildInfo, ok bool) Info {
	b := Info{Version: "(unknown)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if !ok {
		return b
	}
	b.Version = info.Main.Version
	for _, m := range info.Deps {
		if m.Path == "vagen" {
			b.Version = m.Version
			return b
		}
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}
