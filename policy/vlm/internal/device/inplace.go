package device

import (
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/stablehlo"
	"github.com/gomlx/gomlx/core/graph"
)

// aliasAttribute is the attribute of an input of a StableHLO function that names the
// output that may overwrite it when it is donated.
const aliasAttribute = "tf.aliasing_output"

// inPlace lets XLA write outputs over donated inputs, which would otherwise only be
// freed: an optimiser step would hold weights and moments twice and allocate fresh
// memory for them. Each donated input is matched to the first unmatched output of
// its shape, so programs should list both in the same order. Where the graph does
// not permit it, XLA copies.
//
// GoMLX has no API for this.
func inPlace(f *stablehlo.Function, in []shapes.Shape, donate []int, out []*graph.Node) {
	if len(donate) == 0 {
		return
	}
	taken := make([]bool, len(out))
	for _, i := range donate {
		for k, o := range out {
			if taken[k] || !o.Shape().Equal(in[i]) {
				continue
			}
			taken[k] = true
			if f.Inputs[i].Attributes == nil {
				f.Inputs[i].Attributes = map[string]any{}
			}
			f.Inputs[i].Attributes[aliasAttribute] = int32(k)
			break
		}
	}
}
