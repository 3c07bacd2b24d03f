package model

import (
	"path/filepath"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/internal/safetensors"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/devicetest"
)

// The rule alone, in chunks and token by token, with its gradients, as transformers computes it.
func TestDeltaRuleAgreesWithTransformers(t *testing.T) {
	t.Parallel()
	compared := false
	for _, dir := range golden.Models(t) {
		file, err := safetensors.Open(filepath.Join(dir, "golden.safetensors"))
		require.NoError(t, err)
		defer file.Close()
		if _, ok := file.Info("delta.q"); !ok {
			continue
		}
		compared = true
		tally := golden.NewTally(t, "vlm/"+filepath.Base(dir)+" delta")
		tally.Case()
		devicetest.Each(t, func(t *testing.T, d *device.Device) { compareDelta(t, d, file, tally) })
	}
	require.True(t, compared, "no recorded delta rule")
}

func compareDelta(t *testing.T, d *device.Device, file *safetensors.Reader, tally *golden.Tally) {
	read := func(name string) operand {
		x, err := file.Float32("delta."+name, nil)
		require.NoError(t, err)
		wide := make([]float64, len(x))
		for i, v := range x {
			wide[i] = float64(v)
		}
		info, _ := file.Info("delta." + name)
		return floats(wide, info.Shape...)
	}
	var in []operand
	for _, name := range []string{"q", "k", "v", "beta", "g", "initial_state", "grad_out", "grad_final_state"} {
		in = append(in, read(name))
	}
	keys, values := in[0].dims, in[2].dims
	length := values[1]
	shape := &Linear{KeyHeads: keys[2], ValueHeads: values[2], KeyDim: keys[3], ValueDim: values[3]}
	net := &deltaNet{&Block{}, shape}
	inputs := func(in []*Node) deltaIn {
		return deltaIn{net.repeat(MulScalar(unit(in[0]), net.queryScale())), net.repeat(unit(in[1])), in[2], in[3], in[4]}
	}
	got := run(t, d, in, func(in []*Node) []*Node {
		c := newChunks(in[0].Graph(), 1, length, nil)
		x := inputs(in)
		r := newDeltaRule(c, x)
		o, states, end := r.forward(in[5])
		by, dStart := r.backward(states, c.split(in[6]), in[7])
		dq := unitBack(MulScalar(net.sumRepeated(c.join(by.q)), net.queryScale()), in[0])
		dk := unitBack(net.sumRepeated(c.join(by.k)), in[1])
		return []*Node{c.join(o), end, dq, dk, c.join(by.v), c.join(by.beta), c.join(by.g), dStart}
	})
	step := d.Program("step", func(in []*Node) []*Node {
		one := func(x *Node) *Node { return Squeeze(x, 1) }
		x := inputs(in)
		o, state := deltaStep(x.each(one), in[5])
		return []*Node{o, state}
	})
	steps := make([][]float32, 2)
	state := in[5]
	for i := range length {
		now := []operand{}
		for _, x := range in[:5] {
			width := product(x.dims[2:])
			now = append(now, floats(x.f[i*width:(i+1)*width], append([]int{1, 1}, x.dims[2:]...)...))
		}
		out := runProgram(t, d, step, append(now, state))
		steps[0], steps[1] = append(steps[0], out[0]...), out[1]
		state = floats(widen(out[1]), state.dims...)
	}
	limit := golden.Tolerance{Abs: 2e-5}
	names := []string{"out", "final_state", "grad_q", "grad_k", "grad_v", "grad_beta", "grad_g", "grad_initial_state"}
	for i, name := range names {
		golden.Floats(t, tally, name, got[i], read(name).f, limit)
		if i < len(steps) {
			golden.Floats(t, tally, name+" by steps", steps[i], read(name).f, limit)
		}
	}
}
