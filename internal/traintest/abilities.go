package traintest

import (
	"reflect"

	"vagen/policy"
)

// Abilities are those of package policy that a policy or learner can have.
var Abilities = []reflect.Type{
	reflect.TypeFor[policy.Counter](), reflect.TypeFor[policy.Aligner](), reflect.TypeFor[policy.Resumer](),
	reflect.TypeFor[policy.Bounded](), reflect.TypeFor[policy.Encoder](), reflect.TypeFor[policy.Templated](),
	reflect.TypeFor[policy.ToolEncoder](), reflect.TypeFor[policy.ToolPrompter](),
	reflect.TypeFor[policy.SystemEncoder](),
	reflect.TypeFor[policy.PolicySnapshotter](), reflect.TypeFor[policy.StepTracker](),
	reflect.TypeFor[policy.EngineSampler](), reflect.TypeFor[policy.WorkerSource](), reflect.TypeFor[policy.RowChecker](),
	reflect.TypeFor[policy.ScoreChecker](),
	reflect.TypeFor[policy.Snapshotter](), reflect.TypeFor[policy.Restorer](), reflect.TypeFor[policy.Exporter](),
	reflect.TypeFor[policy.InputLister](), reflect.TypeFor[policy.BackendNamer](),
	reflect.TypeFor[policy.MetricsReporter](),
}

// Lost returns the names of the abilities of a type that a wrapper of it neither implements nor
// passes on.
func Lost(wrapper, wrapped reflect.Type) []string {
	var out []string
	for _, a := range Abilities {
		if wrapped.Implements(a) && !wrapper.Implements(a) && !wrapper.Implements(reflect.TypeFor[policy.Unwrapper]()) {
			out = append(out, a.Name())
		}
	}
	return out
}
