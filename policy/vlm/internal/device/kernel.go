package device

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/go-xla/stablehlo"
	"github.com/gomlx/gomlx/core/graph"

	"vagen/policy/vlm/internal/fused"
)

// Kernel is a function of package fused that replaces a part of a graph: all nodes
// between In and Out. The part stays in the graph as the definition of what the
// function computes, and runs on backends other than XLA's CPU.
type Kernel struct {
	Name    string
	In, Out []*graph.Node
	Aliases map[int]int // output index to index of the input it is written over
	Config  []Setting
}

// Setting is an attribute of a kernel: a float32 or an int64.
type Setting struct {
	Name  string
	Value any
}

// literal is an attribute in MLIR's own form.
type literal string

func (l literal) ToStableHLO() string { return string(l) }

func (k *Kernel) attributes() map[string]any {
	config := make([]string, len(k.Config))
	for i, s := range k.Config {
		switch v := s.Value.(type) {
		case float32:
			config[i] = fmt.Sprintf("%s = %.9e : f32", s.Name, v)
		default:
			config[i] = fmt.Sprintf("%s = %d : i64", s.Name, v)
		}
	}
	alias := []string{}
	for out := range k.Out {
		if in, ok := k.Aliases[out]; ok {
			at := fmt.Sprint(out)
			if len(k.Out) == 1 {
				at = ""
			}
			alias = append(alias, fmt.Sprintf(
				"#stablehlo.output_operand_alias<output_tuple_indices = [%s], operand_index = %d, operand_tuple_indices = []>", at,
				in))
		}
	}
	return map[string]any{
		"call_target_name":       k.Name,
		"api_version":            int32(4), // typed FFI function
		"backend_config":         literal("{" + strings.Join(config, ", ") + "}"),
		"output_operand_aliases": literal("[" + strings.Join(alias, ", ") + "]"),
	}
}

// packedForms are the packed forms of matrices, which kernels read instead.
type packedForms map[*stablehlo.Value]*stablehlo.Value

// directions are what kernels that are never called say about others: packed forms, and the settings of products.
func directions(kernels []Kernel) (packed packedForms, products []Setting, called []Kernel) {
	packed = packedForms{}
	for _, k := range kernels {
		switch k.Name {
		case fused.Unpack:
			packed[values(k.Out)[0]] = values(k.In)[0]
		case fused.Like:
			products = k.Config
		default:
			called = append(called, k)
		}
	}
	return packed, products, called
}

// useKernels inserts calls of kernels into the function that a graph is built into and its closures,
// also for products of few rows, and removes statements on which none of the nodes out
// depends. It reports whether there are any calls. If a kernel does not match the graph, it
// runs unchanged.
func (d *library) useKernels(f *stablehlo.Function, out []*graph.Node, kernels []Kernel) bool {
	if !fused.Registered() || d.Accelerator() {
		return false
	}
	packed, products, called := directions(kernels)
	before := map[*stablehlo.Function][]*stablehlo.Statement{}
	withClosures(f, before)
	matched, found := 0, len(kernels) > 0
	for f := range before {
		for _, k := range called {
			if k.insert(f, packed) {
				matched++
			}
		}
		found = replaceProducts(f, packed, products) || found
	}
	removeUnused(f, values(out))
	if matched < len(called) || !definedBeforeUse(f) {
		for f, all := range before {
			f.Statements = all
		}
		return false
	}
	return found
}

// withClosures adds the statements of a function and of its closures.
func withClosures(f *stablehlo.Function, to map[*stablehlo.Function][]*stablehlo.Statement) {
	to[f] = f.Statements
	for _, s := range f.Statements {
		for _, closure := range s.FunctionParameters {
			withClosures(closure, to)
		}
	}
}

// replaceProducts replaces products of few rows, those with packed weights, and large ones by calls of kernels, and
// reports whether there are any. The settings are those of products of few rows.
func replaceProducts(f *stablehlo.Function, packed packedForms, config []Setting) (found bool) {
	var out []*stablehlo.Statement
	for _, s := range f.Statements {
		if k := productKernel(s, packed, config); k != nil {
			call := &stablehlo.Statement{Builder: s.Builder, Function: s.Function, Inputs: packed.replace(s.Inputs),
				Outputs: s.Outputs, Attributes: k.attributes()}
			setOp(call, "CustomCall")
			s, found = call, true
		}
		out = append(out, s)
	}
	f.Statements = out
	return found
}

// productKernel returns the kernel that computes a statement, or nil.
func productKernel(s *stablehlo.Statement, packed packedForms, config []Setting) *Kernel {
	left, right, ok := summedAxes(s)
	if !ok {
		return nil
	}
	x, w := s.Inputs[0].Shape().Dimensions, s.Inputs[1].Shape().Dimensions
	switch {
	case left == 1 && right == 1 && (x[0] <= fused.MaxRows || packed[s.Inputs[1]] != nil):
		return &Kernel{Name: fused.Product, Config: config}
	case fused.Multiplies(x[1-left], w[1-right], x[left]):
		return &Kernel{Name: fused.Gemm, Config: []Setting{{fused.SumsLeft, int64(left)}, {fused.SumsRight, int64(right)}}}
	}
	return nil
}

// replace returns the values with the packed forms of those that have one.
func (p packedForms) replace(in []*stablehlo.Value) []*stablehlo.Value {
	out := slices.Clone(in)
	for i, v := range in {
		if p := p[v]; p != nil {
			out[i] = p
		}
	}
	return out
}

// axesOfSums are the axes that a product sums over, where there is one of each of its two matrices and it has no others
// in common.
var axesOfSums = regexp.MustCompile(`^#stablehlo\.dot<lhs_batching_dimensions=\[\],rhs_batching_dimensions=\[\],` +
	`lhs_contracting_dimensions=\[([01])\],rhs_contracting_dimensions=\[([01])\]`)

// summedAxes returns the axes that a statement sums over. It is ok if it is a product of two matrices in float32.
func summedAxes(s *stablehlo.Statement) (left, right int, ok bool) {
	axes, ok := s.Attributes["dot_dimension_numbers"].(interface{ ToStableHLO() string })
	if !ok || s.OpType.String() != "DotGeneral" {
		return 0, 0, false
	}
	for _, v := range append(s.Inputs[:2:2], s.Outputs...) {
		if shape := v.Shape(); shape.Rank() != 2 || shape.DType != dtypes.Float32 {
			return 0, 0, false
		}
	}
	found := axesOfSums.FindStringSubmatch(strings.Join(strings.Fields(axes.ToStableHLO()), ""))
	if found == nil {
		return 0, 0, false
	}
	return int(found[1][0] - '0'), int(found[2][0] - '0'), true
}

// insert makes the kernel call in place of the last statement of a function that computes one of
// its outputs, and removes the others. It is false, and changes nothing, if the function does not
// compute them all. Its inputs are replaced by their packed forms.
func (k *Kernel) insert(f *stablehlo.Function, packed packedForms) bool {
	call := &stablehlo.Statement{Builder: f.Builder, Function: f, Inputs: packed.replace(values(k.In)),
		Outputs: values(k.Out), Attributes: k.attributes()}
	setOp(call, "CustomCall")
	out := make([]*stablehlo.Statement, 0, len(f.Statements))
	at, made := 0, 0
	for _, s := range f.Statements {
		here := made
		for _, v := range s.Outputs {
			if slices.Contains(call.Outputs, v) {
				at = len(out)
				made++
			}
		}
		if made > here {
			continue
		}
		out = append(out, s)
	}
	if made != len(call.Outputs) {
		return false
	}
	f.Statements = slices.Insert(out, at, call)
	return true
}

// removeUnused removes statements that none of the values depends on, and in closures those that their results do not
// depend on.
func removeUnused(f *stablehlo.Function, roots []*stablehlo.Value) {
	live := map[*stablehlo.Value]bool{}
	for _, v := range roots {
		live[v] = true
	}
	var kept []*stablehlo.Statement
	for _, s := range slices.Backward(f.Statements) {
		returns := len(s.Outputs) == 0
		if returns || slices.ContainsFunc(s.Outputs, func(v *stablehlo.Value) bool { return live[v] }) {
			kept = append(kept, s)
			for _, closure := range s.FunctionParameters {
				removeUnused(closure, nil)
			}
			uses(s, func(v *stablehlo.Value) { live[v] = true })
		}
	}
	slices.Reverse(kept)
	f.Statements = kept
}

// definedBeforeUse reports whether every value is defined before it is used, also in closures.
func definedBeforeUse(f *stablehlo.Function) bool {
	made := map[*stablehlo.Value]bool{}
	var check func(f *stablehlo.Function) bool
	check = func(f *stablehlo.Function) bool {
		for _, v := range f.Inputs {
			made[v] = true
		}
		for _, s := range f.Statements {
			if slices.ContainsFunc(s.Inputs, func(v *stablehlo.Value) bool { return !made[v] }) {
				return false
			}
			for _, c := range s.FunctionParameters {
				if !check(c) {
					return false
				}
			}
			for _, v := range s.Outputs {
				made[v] = true
			}
		}
		return true
	}
	return check(f)
}

// uses calls f with every value that the statement reads, including those in its closures.
func uses(s *stablehlo.Statement, f func(*stablehlo.Value)) {
	for _, v := range s.Inputs {
		f(v)
	}
	for _, closure := range s.FunctionParameters {
		for _, inner := range closure.Statements {
			uses(inner, f)
		}
	}
}
