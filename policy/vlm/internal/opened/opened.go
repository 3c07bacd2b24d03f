// Package opened shows the parts of an opened model to tests; package vlm keeps them to itself.
package opened

import (
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/generate"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/mpi"
	"vagen/policy/vlm/internal/net"
)

// Model are the parts of a model.
type Model struct {
	Cfg     *model.Config
	Text    *generate.Encoder
	Devices []*device.Device
	Dev     *device.Device // the first of them
	Net     *net.Net
	Sets    *learn.Sets
	Gen     *generate.Generator
}

var (
	// Parts returns those of a *vlm.Model.
	Parts func(m any) Model
	// InWorld makes a *vlm.Options those of one of several ranks.
	InWorld func(options any, w mpi.World)
)
