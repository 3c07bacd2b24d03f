package device

import (
	"reflect"

	"github.com/gomlx/go-xla/pkg/stablehlo"
	"github.com/gomlx/gomlx/pkg/core/graph"
	"github.com/gomlx/gomlx/pkg/core/shapes"
)

// aliased is the attribute by which an input of a StableHLO function names the
// output that may be written over it, when it is donated.
const aliased = "tf.aliasing_output"

// inPlace lets XLA write outputs over donated inputs, which without it are only
// freed: an optimiser's step would hold weights and moments twice, and take fresh
// memory from the system for them. Each donated input takes the first output of
// its shape that is left, so programs should list both in the same order; where
// that does not fit what the graph does, XLA copies.
//
// GoMLX v0.26.0 has no way to say it, but the function that it builds is there to be
// found. Where it is not (another backend or version), programs run as before.
func inPlace(g *graph.Graph, in []shapes.Shape, donate []int, out []*graph.Node) {
	if len(donate) == 0 {
		return
	}
	f := function(g)
	if f == nil || len(f.Inputs) != len(in) {
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
			f.Inputs[i].Attributes[aliased] = int32(k)
			break
		}
	}
}

// function is the StableHLO function that a graph on XLA is built into, nil where
// there is none. It reads two fields that are not exported, and writes none.
func function(g *graph.Graph) *stablehlo.Function {
	builder := reflect.ValueOf(g).Elem().FieldByName("builder")
	if !builder.IsValid() || builder.Kind() != reflect.Interface {
		return nil
	}
	builder = builder.Elem()
	if builder.Kind() != reflect.Pointer || builder.IsNil() || builder.Elem().Kind() != reflect.Struct {
		return nil
	}
	f := builder.Elem().FieldByName("fn")
	if !f.IsValid() || f.Type() != reflect.TypeFor[*stablehlo.Function]() {
		return nil
	}
	return (*stablehlo.Function)(f.UnsafePointer())
}
