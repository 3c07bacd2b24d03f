package vlm

import (
	"vagen/policy/vlm/internal/mpi"
	"vagen/policy/vlm/internal/opened"
)

func init() {
	opened.Parts = func(m any) opened.Model {
		x := m.(*Model)
		return opened.Model{
			Cfg: x.cfg, Text: x.text, Devices: x.devices, Dev: x.dev, Net: x.net, Sets: x.sets, Gen: x.gen,
		}
	}
	opened.InWorld = func(o any, w mpi.World) { o.(*Options).Nodes = Nodes{Count: w.Size(), world: w} }
}
