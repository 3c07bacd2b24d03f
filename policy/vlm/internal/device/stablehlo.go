package device

import (
	"fmt"
	"reflect"

	"github.com/gomlx/go-xla/stablehlo"
	"github.com/gomlx/gomlx/core/graph"
)

// This file accesses what GoMLX v0.28.2 and go-xla v0.4.1 do not export: the StableHLO function
// that a graph on XLA is built into, the value of a node in it, and the names of operations. In
// another version that has no such fields, compilation fails instead of going on without
// kernels, loops and aliasing.

// function returns the main function of a graph on XLA. It panics if it is not found.
func function(g *graph.Graph) *stablehlo.Function {
	made := unexported(reflect.ValueOf(g.CurrentFunc()), "backendFunc")
	return (*stablehlo.Function)(pointer[stablehlo.Function](unexported(made, "fn")).UnsafePointer())
}

// values returns the values of nodes of a graph on XLA. It panics if they are not found.
func values(nodes []*graph.Node) []*stablehlo.Value {
	out := make([]*stablehlo.Value, len(nodes))
	for i, n := range nodes {
		ops := unexported(reflect.ValueOf(n), "outputOps")
		if ops.Kind() != reflect.Slice || ops.Len() != 1 {
			panic(fmt.Errorf("GoMLX: a node has %v as its outputs, must be a slice of one", ops.Type()))
		}
		v := pointer[stablehlo.Value](unexported(ops.Index(0), "value"))
		out[i] = (*stablehlo.Value)(v.UnsafePointer())
	}
	return out
}

// setOp sets the statement's operation by name; its type is internal to go-xla. It panics if
// there is none of this name.
func setOp(s *stablehlo.Statement, name string) {
	op := reflect.ValueOf(&s.OpType).Elem()
	for i := range int64(256) {
		op.SetInt(i)
		if s.OpType.String() == name {
			return
		}
	}
	panic(fmt.Errorf("go-xla: no operation is named %s", name))
}

// unexported returns a field of the struct that v points to, possibly as an interface.
func unexported(v reflect.Value, name string) reflect.Value {
	if v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		panic(fmt.Errorf("GoMLX: field %s is looked for in %v, which points to no struct", name, v))
	}
	f := v.Elem().FieldByName(name)
	if !f.IsValid() {
		panic(fmt.Errorf("GoMLX: %v has no field %s", v.Type(), name))
	}
	return f
}

// pointer checks that v is a pointer to a T.
func pointer[T any](v reflect.Value) reflect.Value {
	if v.Type() != reflect.TypeFor[*T]() || v.IsNil() {
		panic(fmt.Errorf("GoMLX: found %v, must be a %v", v.Type(), reflect.TypeFor[*T]()))
	}
	return v
}
