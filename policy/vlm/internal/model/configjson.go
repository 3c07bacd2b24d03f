package model

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"vagen/internal/endtokens"
	"vagen/internal/field"
	"vagen/internal/jsontext"
	"vagen/internal/regular"
)

// ErrConfig is wrapped by every error about a config.json.
var ErrConfig = errors.New("bad config.json")

// configFile is the union of the keys we read. Fields of the decoder are at the
// top level (flat) or under text_config (nested).
type configFile struct {
	ModelType     string        `json:"model_type"`
	Architectures []string      `json:"architectures"`
	Tie           *bool         `json:"tie_word_embeddings"`
	Text          *configText   `json:"text_config"`
	Vision        *configVision `json:"vision_config"`
	ImageToken    *int32        `json:"image_token_id"`
	VideoToken    *int32        `json:"video_token_id"`
	VisionStart   *int32        `json:"vision_start_token_id"`
	VisionEnd     *int32        `json:"vision_end_token_id"`

	Quantization json.RawMessage `json:"quantization_config"`
	Compression  json.RawMessage `json:"compression_config"` // its older name
	configText
}

type configText struct {
	Tie              *bool         `json:"tie_word_embeddings"`
	BOS              *int32        `json:"bos_token_id"`
	EOS              endtokens.IDs `json:"eos_token_id"`
	Vocab            int           `json:"vocab_size"`
	Hidden           int           `json:"hidden_size"`
	FF               int           `json:"intermediate_size"`
	Layers           int           `json:"num_hidden_layers"`
	Heads            int           `json:"num_attention_heads"`
	KVHeads          *int          `json:"num_key_value_heads"`
	HeadDim          *int          `json:"head_dim"`
	Act              string        `json:"hidden_act"`
	Eps              *float64      `json:"rms_norm_eps"`
	Theta            *float64      `json:"rope_theta"`
	Scaling          *configRope   `json:"rope_scaling"`
	Rope             *configRope   `json:"rope_parameters"`
	UseSlidingWindow bool          `json:"use_sliding_window"`
	LayerTypes       []string      `json:"layer_types"`
	PartialRotary    *float64      `json:"partial_rotary_factor"`
	MaxPositions     int           `json:"max_position_embeddings"`
	AttentionBias    *bool         `json:"attention_bias"`
	MLPBias          *bool         `json:"mlp_bias"`
	InitRange        *float64      `json:"initializer_range"`
	configLinear
}

type configRope struct {
	Type        string   `json:"type"`
	RopeType    string   `json:"rope_type"`
	Theta       *float64 `json:"rope_theta"`
	Partial     *float64 `json:"partial_rotary_factor"`
	Sections    []int    `json:"mrope_section"`
	Interleaved *bool    `json:"mrope_interleaved"`
	RopeScaling
}

type configVision struct {
	Vision
	Act     string `json:"hidden_act"`
	InChans int    `json:"in_chans"` // precedes in_channels
}

// maxFile bounds a config.json in bytes; released ones have a few kilobytes.
const maxFile = 16 << 20

// ReadConfig reads the config.json of a folder.
func ReadConfig(dir string) (*Config, error) {
	raw, err := regular.ReadAtMost(filepath.Join(dir, "config.json"), maxFile, ErrConfig)
	if err != nil {
		return nil, err
	}
	cfg, err := ParseConfig(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return cfg, nil
}

// ParseConfig reads a config.json, flat or nested. The error lists all problems
// and wraps ErrConfig.
func ParseConfig(raw []byte) (*Config, error) {
	var f configFile
	if err := jsontext.Unmarshal(raw, &f); err != nil {
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
		InitRange: valueOr(t.InitRange, 0.02),
	}
	c.EndOfTurn = t.EOS
	if len(c.EndOfTurn) == 0 {
		c.EndOfTurn = f.configText.EOS
	}
	yes := func(b *bool) bool { return b != nil && *b }
	c.Tied = yes(f.Tie) || yes(t.Tie)
	for _, a := range f.Architectures {
		c.Critic = c.Critic || strings.HasSuffix(a, "ForTokenClassification")
	}
	if c.Critic {
		c.Tied = false
	}
	c.Text = t.build(family)
	var bad field.Checks
	t.check(&bad, family, &c.Text)
	if l := c.Text.Linear; l != nil {
		t.configLinear.check(&bad, l)
	}
	if c.Text.Vocab > 0 {
		f.check(&bad, &t, c)
	}
	if family.HasVision() {
		if f.Vision == nil {
			bad.Say("vision_config is missing")
		} else {
			c.Vision = f.Vision.build(family)
			f.Vision.check(&bad, family, c)
		}
		if c.ImageToken < 0 || int(c.ImageToken) >= c.Text.Vocab {
			bad.Say("image_token_id is %d, must be in [0, %d)", c.ImageToken, c.Text.Vocab)
		}
	}
	if bad.Err() == nil {
		c.checkSize(&bad)
	}
	if err := bad.Err(); err != nil {
		return nil, fmt.Errorf("model: %w: %w", ErrConfig, err)
	}
	return c, nil
}

func id(p *int32) int32 {
	if p == nil {
		return -1
	}
	return *p
}

func valueOr[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// textDefaults are those of transformers for keys that a config.json does not have, where they depend on the family.
var textDefaults = map[Family]Text{
	Qwen3:      {HeadDim: 128},
	Qwen25VL:   {Theta: 1e6, Eps: 1e-5, Sections: []int{16, 24, 24}},
	Qwen3VL:    {Theta: 5e5, HeadDim: 128, Sections: []int{24, 20, 20}},
	Qwen35:     {HeadDim: 256, Sections: []int{11, 11, 10}},
	Qwen35Text: {HeadDim: 256},
}

func (t *configText) build(family Family) Text {
	otherwise := textDefaults[family]
	out := Text{
		Vocab: t.Vocab, Hidden: t.Hidden, FF: t.FF, Layers: t.Layers, Heads: t.Heads,
		KVHeads: valueOr(t.KVHeads, t.Heads), MaxPositions: t.MaxPositions,
		Eps: valueOr(t.Eps, cmp.Or(otherwise.Eps, 1e-6)), Theta: valueOr(t.Theta, cmp.Or(otherwise.Theta, 10000)),
		Types: t.LayerTypes, Sections: otherwise.Sections,
		HeadDim: valueOr(t.HeadDim, otherwise.HeadDim), Interleaved: family.interleaves() && otherwise.Sections != nil,
	}
	if t.HeadDim == nil && out.HeadDim == 0 && t.Heads > 0 {
		out.HeadDim = t.Hidden / t.Heads
	}
	out.Rotary = int(float64(out.HeadDim) * t.partialRotary(family))
	switch family {
	case Qwen2, Qwen25VL:
		out.QKVBias = true
	case Qwen3, Qwen3VL, Qwen35, Qwen35Text:
		out.QKNorm = true
		out.QKVBias = valueOr(t.AttentionBias, false)
		out.OutBias = out.QKVBias
	case Llama:
		out.QKVBias = valueOr(t.AttentionBias, false)
		out.OutBias = out.QKVBias
		out.MLPBias = valueOr(t.MLPBias, false)
	}
	for _, r := range []*configRope{t.Scaling, t.Rope} {
		if r == nil {
			continue
		}
		out.Theta = valueOr(r.Theta, out.Theta)
		if r.Sections != nil {
			out.Sections = r.Sections
			out.Interleaved = valueOr(r.Interleaved, family.interleaves())
		}
		if r.kind() == "llama3" {
			out.Scaling = &r.RopeScaling
		}
	}
	if family.isQwen35() {
		t.configLinear.build(&out)
	}
	return out
}

// partialRotary is the part of a head's features that rotary positions turn.
func (t *configText) partialRotary(family Family) float64 {
	part := 1.0
	if family.isQwen35() {
		part = 0.25
	}
	part = valueOr(t.PartialRotary, part)
	for _, r := range []*configRope{t.Scaling, t.Rope} {
		if r != nil {
			part = valueOr(r.Partial, part)
		}
	}
	return part
}

func (r *configRope) kind() string {
	if r.RopeType != "" {
		return r.RopeType
	}
	return r.Type
}

func (v *configVision) build(family Family) *Vision {
	out := v.Vision
	out.Channels = cmp.Or(v.InChans, v.Channels, 3)
	out.Temporal, out.Merge = cmp.Or(v.Temporal, 2), cmp.Or(v.Merge, 2)
	if family == Qwen25VL {
		out.Positions, out.Deepstack = 0, nil
	} else {
		out.Window, out.FullBlocks = 0, nil
	}
	return &out
}
