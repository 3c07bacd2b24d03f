package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrConfig is wrapped by every error about a config.json.
var ErrConfig = errors.New("bad config.json")

// configFile is the union of the keys we read. Fields of the decoder stand at
// the top level (flat) or under text_config (nested).
type configFile struct {
	ModelType     string      `json:"model_type"`
	Architectures []string    `json:"architectures"`
	Tie           *bool       `json:"tie_word_embeddings"`
	Text          *configText `json:"text_config"`
	Vision        *configVis  `json:"vision_config"`
	ImageToken    *int32      `json:"image_token_id"`
	VideoToken    *int32      `json:"video_token_id"`
	VisionStart   *int32      `json:"vision_start_token_id"`
	VisionEnd     *int32      `json:"vision_end_token_id"`
	configText
}

type configText struct {
	Tie              *bool       `json:"tie_word_embeddings"`
	BOS              *int32      `json:"bos_token_id"`
	EOS              intOrList   `json:"eos_token_id"`
	Vocab            int         `json:"vocab_size"`
	Hidden           int         `json:"hidden_size"`
	FF               int         `json:"intermediate_size"`
	Layers           int         `json:"num_hidden_layers"`
	Heads            int         `json:"num_attention_heads"`
	KVHeads          *int        `json:"num_key_value_heads"`
	HeadDim          *int        `json:"head_dim"`
	Act              string      `json:"hidden_act"`
	Eps              *float64    `json:"rms_norm_eps"`
	Theta            *float64    `json:"rope_theta"`
	Scaling          *configRope `json:"rope_scaling"`
	Rope             *configRope `json:"rope_parameters"`
	UseSlidingWindow bool        `json:"use_sliding_window"`
	MaxPositions     int         `json:"max_position_embeddings"`
	AttentionBias    *bool       `json:"attention_bias"`
	MLPBias          *bool       `json:"mlp_bias"`
	InitRange        *float64    `json:"initializer_range"`
}

type configRope struct {
	Type        string   `json:"type"`
	RopeType    string   `json:"rope_type"`
	Theta       *float64 `json:"rope_theta"`
	Sections    []int    `json:"mrope_section"`
	Interleaved *bool    `json:"mrope_interleaved"`
	Factor      float64  `json:"factor"`
	LowFreq     float64  `json:"low_freq_factor"`
	HighFreq    float64  `json:"high_freq_factor"`
	Original    int      `json:"original_max_position_embeddings"`
}

type configVis struct {
	Depth      int    `json:"depth"`
	Hidden     int    `json:"hidden_size"`
	FF         int    `json:"intermediate_size"`
	Heads      int    `json:"num_heads"`
	Window     int    `json:"window_size"`
	FullBlocks []int  `json:"fullatt_block_indexes"`
	Out        int    `json:"out_hidden_size"`
	Act        string `json:"hidden_act"`
	Patch      int    `json:"patch_size"`
	Merge      int    `json:"spatial_merge_size"`
	Temporal   int    `json:"temporal_patch_size"`
	InChans    int    `json:"in_chans"`
	InChannels int    `json:"in_channels"`
	Positions  int    `json:"num_position_embeddings"`
	Deepstack  []int  `json:"deepstack_visual_indexes"`
}

// intOrList is a token id, a list of them, or null.
type intOrList []int32

func (l *intOrList) UnmarshalJSON(raw []byte) error {
	var one *int32
	if json.Unmarshal(raw, &one) == nil {
		if one != nil {
			*l = intOrList{*one}
		}
		return nil
	}
	var many []int32
	if err := json.Unmarshal(raw, &many); err != nil {
		return fmt.Errorf("want a token id or a list of them, found %.40s", raw)
	}
	*l = many
	return nil
}

// ParseConfig reads a config.json, flat or nested. The error lists everything
// that is wrong and wraps ErrConfig.
func ParseConfig(raw []byte) (*Config, error) {
	var f configFile
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, fmt.Errorf("model: %w: %w", ErrConfig, err)
	}
	family := Family(f.ModelType)
	if !slices.Contains(Families(), family) {
		return nil, fmt.Errorf("model: %w: model_type %q (architectures %q) is not supported; supported are %v",
			ErrConfig, f.ModelType, f.Architectures, Families())
	}
	t := f.configText
	if f.Text != nil {
		t = *f.Text
	}
	c := &Config{
		Family: family, ImageToken: id(f.ImageToken), VideoToken: id(f.VideoToken),
		VisionStart: id(f.VisionStart), VisionEnd: id(f.VisionEnd), BOS: id(first(t.BOS, f.configText.BOS)),
		NormMean: [3]float64{0.48145466, 0.4578275, 0.40821073}, NormStd: [3]float64{0.26862954, 0.26130258, 0.27577711},
		InitRange: value(t.InitRange, 0.02),
	}
	if family == Qwen3VL {
		c.NormMean, c.NormStd = [3]float64{0.5, 0.5, 0.5}, [3]float64{0.5, 0.5, 0.5}
	}
	c.EndOfTurn = t.EOS
	if len(c.EndOfTurn) == 0 {
		c.EndOfTurn = f.configText.EOS
	}
	yes := func(b *bool) bool { return b != nil && *b }
	c.Tied = yes(f.Tie) || yes(t.Tie) || yes(f.configText.Tie)
	for _, a := range f.Architectures {
		c.Critic = c.Critic || strings.HasSuffix(a, "ForTokenClassification")
	}
	if c.Critic {
		c.Tied = false
	}
	c.Text = t.build(family)
	var problems []error
	problems = append(problems, t.check(family, &c.Text)...)
	if family == Qwen25VL || family == Qwen3VL {
		if f.Vision == nil {
			problems = append(problems, errors.New("vision_config is missing"))
		} else {
			c.Vision = f.Vision.build(family)
			problems = append(problems, f.Vision.check(family, c)...)
		}
		if c.ImageToken < 0 || int(c.ImageToken) >= c.Text.Vocab {
			problems = append(problems, fmt.Errorf("image_token_id is %d, must be in [0, %d)", c.ImageToken, c.Text.Vocab))
		}
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("model: %w: %w", ErrConfig, errors.Join(problems...))
	}
	return c, nil
}

func id(p *int32) int32 {
	if p == nil {
		return -1
	}
	return *p
}

func first[T any](ps ...*T) *T {
	for _, p := range ps {
		if p != nil {
			return p
		}
	}
	return nil
}

func value[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

func (t *configText) build(family Family) Text {
	out := Text{
		Vocab: t.Vocab, Hidden: t.Hidden, FF: t.FF, Layers: t.Layers, Heads: t.Heads,
		KVHeads: value(t.KVHeads, t.Heads), Eps: value(t.Eps, 1e-6), MaxPositions: t.MaxPositions,
		Theta: value(t.Theta, 10000),
	}
	if t.HeadDim != nil {
		out.HeadDim = *t.HeadDim
	} else if t.Heads > 0 {
		out.HeadDim = t.Hidden / t.Heads
	}
	switch family {
	case Qwen2, Qwen25VL:
		out.QKVBias = true
	case Qwen3, Qwen3VL:
		out.QKNorm = true
		out.QKVBias = value(t.AttentionBias, false)
		out.OutBias = out.QKVBias
	case Llama:
		out.QKVBias = value(t.AttentionBias, false)
		out.OutBias = out.QKVBias
		out.MLPBias = value(t.MLPBias, false)
	}
	for _, r := range []*configRope{t.Scaling, t.Rope} {
		if r == nil {
			continue
		}
		out.Theta = value(r.Theta, out.Theta)
		if r.Sections != nil {
			out.Sections = r.Sections
			out.Interleaved = value(r.Interleaved, family == Qwen3VL)
		}
		if r.kind() == "llama3" {
			out.Scaling = &RopeScaling{Factor: r.Factor, LowFreq: r.LowFreq, HighFreq: r.HighFreq, OriginalContext: r.Original}
		}
	}
	return out
}

func (r *configRope) kind() string {
	if r.RopeType != "" {
		return r.RopeType
	}
	return r.Type
}

func (t *configText) check(family Family, x *Text) []error {
	var bad []error
	say := func(format string, args ...any) { bad = append(bad, fmt.Errorf(format, args...)) }
	for _, f := range []struct {
		name  string
		value int
	}{
		{"vocab_size", x.Vocab}, {"hidden_size", x.Hidden}, {"intermediate_size", x.FF},
		{"num_hidden_layers", x.Layers}, {"num_attention_heads", x.Heads},
	} {
		if f.value < 1 || f.value > 1<<24 {
			say("%s is %d, must be in [1, 2^24]", f.name, f.value)
		}
	}
	if len(bad) > 0 {
		return bad
	}
	if x.KVHeads < 1 || x.Heads%x.KVHeads != 0 {
		say("num_key_value_heads is %d, must divide num_attention_heads = %d", x.KVHeads, x.Heads)
	}
	if x.HeadDim < 2 || x.HeadDim%2 != 0 || x.HeadDim > 4096 {
		say("head_dim is %d, must be even and positive", x.HeadDim)
	}
	if t.Act != "" && t.Act != "silu" {
		say("hidden_act is %q, only silu is supported", t.Act)
	}
	if t.UseSlidingWindow {
		say("use_sliding_window is true, sliding-window attention is not supported")
	}
	if !(x.Eps > 0 && x.Eps < 1) {
		say("rms_norm_eps is %v, must be in (0, 1)", x.Eps)
	}
	if !(x.Theta > 1) {
		say("rope_theta is %v, must be above 1", x.Theta)
	}
	for _, r := range []*configRope{t.Scaling, t.Rope} {
		if r == nil {
			continue
		}
		if k := r.kind(); !slices.Contains([]string{"", "default", "mrope", "llama3"}, k) {
			say("rope type %q is not supported; supported are default, mrope, llama3", k)
		}
	}
	if s := x.Scaling; s != nil && !(s.Factor > 0 && s.LowFreq > 0 && s.HighFreq > s.LowFreq && s.OriginalContext > 0) {
		say("llama3 rope scaling %+v needs factor > 0, 0 < low_freq_factor < high_freq_factor, original_max_position_embeddings > 0", *s)
	}
	vl := family == Qwen25VL || family == Qwen3VL
	if vl && len(x.Sections) != 3 {
		say("mrope_section is %v, must have three entries", x.Sections)
	}
	if len(x.Sections) == 3 {
		sum := 0
		for _, n := range x.Sections {
			if n < 0 {
				say("mrope_section is %v, must not be negative", x.Sections)
			}
			sum += n
		}
		if sum != x.HeadDim/2 {
			say("mrope_section %v adds up to %d, must be half of head_dim = %d", x.Sections, sum, x.HeadDim/2)
		}
	}
	return bad
}

func (v *configVis) build(family Family) *Vision {
	channels := v.InChans
	if channels == 0 {
		channels = v.InChannels
	}
	if channels == 0 {
		channels = 3
	}
	out := &Vision{
		Depth: v.Depth, Hidden: v.Hidden, FF: v.FF, Heads: v.Heads, Patch: v.Patch, Merge: v.Merge,
		Temporal: v.Temporal, Channels: channels, Out: v.Out,
	}
	if out.Temporal == 0 {
		out.Temporal = 2
	}
	if out.Merge == 0 {
		out.Merge = 2
	}
	if family == Qwen25VL {
		out.Window, out.FullBlocks = v.Window, v.FullBlocks
	} else {
		out.Positions, out.Deepstack = v.Positions, v.Deepstack
	}
	return out
}

func (v *configVis) check(family Family, c *Config) []error {
	x := c.Vision
	var bad []error
	say := func(format string, args ...any) { bad = append(bad, fmt.Errorf("vision_config: "+format, args...)) }
	for _, f := range []struct {
		name  string
		value int
	}{
		{"depth", x.Depth}, {"hidden_size", x.Hidden}, {"intermediate_size", x.FF}, {"num_heads", x.Heads},
		{"patch_size", x.Patch}, {"spatial_merge_size", x.Merge}, {"temporal_patch_size", x.Temporal},
	} {
		if f.value < 1 || f.value > 1<<20 {
			say("%s is %d, must be in [1, 2^20]", f.name, f.value)
		}
	}
	if x.Channels != 3 {
		say("in_channels is %d, only 3 is supported", x.Channels)
	}
	if len(bad) > 0 {
		return bad
	}
	if x.Hidden%x.Heads != 0 || x.HeadDim()%4 != 0 {
		say("hidden_size %d over num_heads %d must give heads of a multiple of 4", x.Hidden, x.Heads)
	}
	if x.Out != c.Text.Hidden {
		say("out_hidden_size is %d, must be the decoder's hidden_size %d", x.Out, c.Text.Hidden)
	}
	if family == Qwen25VL && (x.Window < x.Patch*x.Merge) {
		say("window_size is %d, must be at least patch_size·spatial_merge_size = %d", x.Window, x.Patch*x.Merge)
	}
	if family == Qwen25VL && v.Act != "" && v.Act != "silu" {
		say("hidden_act is %q, must be silu", v.Act)
	}
	if family == Qwen3VL {
		if side := isqrt(x.Positions); side < 1 || side*side != x.Positions {
			say("num_position_embeddings is %d, must be a square", x.Positions)
		}
		for _, d := range x.Deepstack {
			if d < 0 || d >= x.Depth {
				say("deepstack_visual_indexes has %d, must be in [0, %d)", d, x.Depth)
			}
		}
		if len(x.Deepstack) > c.Text.Layers {
			say("%d deepstack levels for %d decoder layers", len(x.Deepstack), c.Text.Layers)
		}
	}
	return bad
}

func isqrt(n int) int {
	r := 0
	for (r+1)*(r+1) <= n {
		r++
	}
	return r
}
