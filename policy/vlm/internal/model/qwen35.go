package model

import "vagen/internal/field"

// Linear is the shape of a gated delta net (Yang et al., arXiv:2412.06464): each value head has a state
// [KeyDim, ValueDim], and consecutive value heads share a key head.
type Linear struct {
	KeyHeads, ValueHeads int
	KeyDim, ValueDim     int
	Kernel               int // tokens that the causal convolution sees
}

// Channels is the number of features that the convolution runs over: queries, keys and values.
func (l *Linear) Channels() int { return 2*l.KeyHeads*l.KeyDim + l.Values() }

// Values is the width of all value heads.
func (l *Linear) Values() int { return l.ValueHeads * l.ValueDim }

// interleaves reports whether sections of mrope alternate, instead of following each other.
func (f Family) interleaves() bool { return f == Qwen3VL || f.isQwen35() }

// isQwen35 reports whether the family is Qwen3.5, with or without a vision tower.
func (f Family) isQwen35() bool { return f == Qwen35 || f == Qwen35Text }

// learnedPositions reports whether the family has Qwen3-VL's vision tower.
func (f Family) learnedPositions() bool { return f == Qwen3VL || f == Qwen35 }

// HasVision reports whether the family has a vision tower.
func (f Family) HasVision() bool { return f == Qwen25VL || f.learnedPositions() }

// configLinear are the settings of Qwen3.5's decoder that no other family has.
type configLinear struct {
	KeyHeads   *int    `json:"linear_num_key_heads"`
	ValueHeads *int    `json:"linear_num_value_heads"`
	KeyDim     *int    `json:"linear_key_head_dim"`
	ValueDim   *int    `json:"linear_value_head_dim"`
	Kernel     *int    `json:"linear_conv_kernel_dim"`
	Interval   *int    `json:"full_attention_interval"`
	Gate       *bool   `json:"attn_output_gate"`
	GateType   *string `json:"output_gate_type"`
	Dense      []int   `json:"mlp_only_layers"`
	Experts    int     `json:"num_experts"`
}

// interval is the number of layers up to and with one of full attention.
func (t *configLinear) interval() int { return valueOr(t.Interval, 4) }

func (t *configLinear) build(x *Text) {
	x.Linear = &Linear{KeyHeads: valueOr(t.KeyHeads, 16), ValueHeads: valueOr(t.ValueHeads, 32),
		KeyDim: valueOr(t.KeyDim, 128), ValueDim: valueOr(t.ValueDim, 128), Kernel: valueOr(t.Kernel, 4)}
	x.Gated, x.PlusOne = true, true
	if x.Types != nil || t.interval() < 1 {
		return
	}
	for i := range min(x.Layers, 1<<12) {
		kind := linearAttention
		if (i+1)%t.interval() == 0 {
			kind = fullAttention
		}
		x.Types = append(x.Types, kind)
	}
}

func (t *configLinear) check(bad *field.Checks, l *Linear) {
	checkRanges(bad.Say, []sizeLimit{
		{"linear_num_key_heads", l.KeyHeads, 12}, {"linear_num_value_heads", l.ValueHeads, 12},
		{"linear_key_head_dim", l.KeyDim, 12}, {"linear_value_head_dim", l.ValueDim, 12},
		{"linear_conv_kernel_dim", l.Kernel, 8}, {"full_attention_interval", t.interval(), 12},
	})
	if l.KeyHeads > 0 && l.ValueHeads%l.KeyHeads != 0 {
		bad.Say("linear_num_value_heads is %d, must be a multiple of linear_num_key_heads = %d",
			l.ValueHeads, l.KeyHeads)
	}
	if !valueOr(t.Gate, true) {
		bad.Say("attn_output_gate is false, only true is supported")
	}
	if kind := valueOr(t.GateType, "swish"); kind != "swish" {
		bad.Say("output_gate_type is %q, only swish is supported", kind)
	}
	if t.Experts > 0 || len(t.Dense) > 0 {
		bad.Say("num_experts is %d, mlp_only_layers is %v: mixture-of-experts layers are not supported",
			t.Experts, t.Dense)
	}
}

// linearParams are the parameters of a layer with a gated delta net.
func (c *Config) linearParams(base string) []Param {
	t, l := &c.Text, c.Text.Linear
	in := func(name string, rows int) Stored {
		return Stored{base + "linear_attn." + name + ".weight", []int{rows, t.Hidden}}
	}
	return append([]Param{
		c.norm(base+"input_layernorm.weight", t.Hidden),
		stack(t.Hidden, InitNormal, in("in_proj_qkv", l.Channels()), in("in_proj_z", l.Values()),
			in("in_proj_b", l.ValueHeads), in("in_proj_a", l.ValueHeads)),
		matrix(base+"linear_attn.conv1d.weight", l.Channels(), 1, l.Kernel),
		vector(base+"linear_attn.A_log", l.ValueHeads, InitDecay), vector(base+"linear_attn.dt_bias", l.ValueHeads, InitOne),
		vector(base+"linear_attn.norm.weight", l.ValueDim, InitOne),
		matrix(base+"linear_attn.out_proj.weight", t.Hidden, l.Values()),
	}, c.mlpParams(base)...)
}
