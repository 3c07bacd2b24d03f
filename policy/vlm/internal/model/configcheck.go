package model

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"vagen/internal/endtokens"
	"vagen/internal/field"
)

// sizeLimit is a size of a config with its name and the binary logarithm of its
// upper limit. The limits are far above any model; they keep products of sizes
// inside an int.
type sizeLimit struct {
	name  string
	value int
	bits  int
}

func checkRanges(addf func(format string, args ...any), sizes []sizeLimit) {
	for _, f := range sizes {
		if f.value < 1 || f.value > 1<<f.bits {
			addf("%s is %d, must be in [1, 2^%d]", f.name, f.value, f.bits)
		}
	}
}

// maxParameters is the upper limit on a model's parameters. No machine can hold
// so many.
const maxParameters = 1e13

// checkSize rejects sizes that are each allowed but together give too many
// parameters.
func (c *Config) checkSize(bad *field.Checks) {
	var total float64
	for _, g := range c.Groups().All() {
		for _, p := range g.Params {
			size := 1.0
			for _, d := range p.Dims {
				size *= float64(d)
			}
			total += size
		}
	}
	if total > maxParameters {
		bad.Say("the sizes make a model of %.3g parameters, at most %.0g are allowed", total, maxParameters)
	}
}

// check checks the settings outside the decoder and the vision tower.
func (f *configFile) check(bad *field.Checks, t *configText, c *Config) {
	vocab := c.Text.Vocab
	for _, q := range []struct {
		key   string
		value json.RawMessage
	}{{"quantization_config", f.Quantization}, {"compression_config", f.Compression}} {
		if len(q.value) > 0 && string(q.value) != "null" && string(q.value) != "{}" {
			bad.Say("%s is set: quantised weights are not supported", q.key)
		}
	}
	if err := endtokens.IDs(c.EndOfTurn).Check(vocab); err != nil {
		bad.Say("%w", err)
	}
	for _, token := range []struct {
		key string
		id  *int32
	}{
		{"bos_token_id", t.BOS}, {"video_token_id", f.VideoToken},
		{"vision_start_token_id", f.VisionStart}, {"vision_end_token_id", f.VisionEnd},
	} {
		if id := token.id; id != nil && (*id < 0 || int(*id) >= vocab) {
			bad.Say("%s is %d, must be in [0, %d)", token.key, *id, vocab)
		}
	}
	if !(c.InitRange >= 0 && c.InitRange <= 10) {
		bad.Say("initializer_range is %v, must be in [0, 10]", c.InitRange)
	}
}

// check checks the settings of the decoder, before those of other parts.
func (t *configText) check(bad *field.Checks, family Family, x *Text) {
	addf := bad.Say
	checkRanges(addf, []sizeLimit{
		{"vocab_size", x.Vocab, 24}, {"hidden_size", x.Hidden, 20}, {"intermediate_size", x.FF, 20},
		{"num_hidden_layers", x.Layers, 12}, {"num_attention_heads", x.Heads, 12},
	})
	if x.MaxPositions < 0 || x.MaxPositions > maxPositions {
		addf("max_position_embeddings is %d, must be in [0, %d]", x.MaxPositions, maxPositions)
	}
	if bad.Err() != nil {
		return
	}
	if x.KVHeads < 1 || x.Heads%x.KVHeads != 0 {
		addf("num_key_value_heads is %d, must divide num_attention_heads = %d", x.KVHeads, x.Heads)
	}
	if x.HeadDim < 2 || x.HeadDim%2 != 0 || x.HeadDim > 4096 {
		addf("head_dim is %d, must be even and in [2, 4096]", x.HeadDim)
	}
	if t.Act != "" && t.Act != "silu" {
		addf("hidden_act is %q, only silu is supported", t.Act)
	}
	if t.UseSlidingWindow {
		addf("use_sliding_window is true, sliding-window attention is not supported")
	}
	if !(x.Eps > 0 && x.Eps < 1) {
		addf("rms_norm_eps is %v, must be in (0, 1)", x.Eps)
	}
	if (x.Linear != nil || x.Types != nil) && len(x.Types) != x.Layers {
		addf("layer_types has %d entries, must have num_hidden_layers = %d", len(x.Types), x.Layers)
	}
	kinds := []string{fullAttention}
	if x.Linear != nil {
		kinds = []string{linearAttention, fullAttention}
	}
	for i, kind := range x.Types {
		if !slices.Contains(kinds, kind) {
			addf("layer_types[%d] is %q, only %s is supported", i, kind, strings.Join(kinds, ", "))
		}
	}
	t.checkRope(addf, family, x)
}

// Limits far above any model: beyond them sizes and frequencies lose their meaning.
const (
	maxTheta     = 1e12
	maxPositions = 1 << 30
)

// checkRope checks the rotary positions.
func (t *configText) checkRope(addf func(format string, args ...any), family Family, x *Text) {
	if !(x.Theta > 1 && x.Theta <= maxTheta) {
		addf("rope_theta is %v, must be in (1, %.0g]", x.Theta, maxTheta)
	}
	if part := t.partialRotary(family); !family.isQwen35() && part != 1 {
		addf("partial_rotary_factor is %v, only 1 is supported", part)
	} else if x.Rotary < 2 || x.Rotary%2 != 0 || x.Rotary > x.HeadDim {
		addf("partial_rotary_factor %v of head_dim = %d is %d, must be even and in [2, %d]", part, x.HeadDim, x.Rotary,
			x.HeadDim)
	}
	kinds := []string{"default", "mrope", "llama3"}
	if family.isQwen35() {
		kinds = kinds[:2]
	}
	for _, r := range []*configRope{t.Scaling, t.Rope} {
		if r == nil {
			continue
		}
		if k := r.kind(); k != "" && !slices.Contains(kinds, k) {
			addf("rope type %q is not supported; supported are %s", k, strings.Join(kinds, ", "))
		}
	}
	if x.Sections != nil && x.Interleaved != family.interleaves() {
		addf("mrope_interleaved is %v, only %v is supported", x.Interleaved, family.interleaves())
	}
	if s := x.Scaling; s != nil && !(s.Factor > 0 && s.LowFreq > 0 && s.HighFreq > s.LowFreq && s.OriginalContext > 0 &&
		max(s.Factor, s.HighFreq, float64(s.OriginalContext)) <= maxPositions) {
		addf("llama3 rope scaling %+v needs factor > 0, 0 < low_freq_factor < high_freq_factor, "+
			"original_max_position_embeddings > 0, and none above %d", *s, maxPositions)
	}
	if len(x.Sections) != 3 && (family.HasVision() || x.Sections != nil) {
		addf("mrope_section is %v, must have three entries", x.Sections)
	}
	sum := 0
	for _, n := range x.Sections {
		if n < 0 || n > maxPositions {
			addf("mrope_section is %v, must not be negative or above %d", x.Sections, maxPositions)
		}
		sum += n
	}
	// Interleaved ones may be longer or shorter: other frequencies than they name use the t position.
	if half := x.Rotary / 2; len(x.Sections) == 3 && !x.Interleaved && sum != half {
		addf("mrope_section %v adds up to %d, must be half of head_dim = %d", x.Sections, sum, half)
	}
}

func (v *configVision) check(bad *field.Checks, family Family, c *Config) {
	x, before := c.Vision, len(bad.Errors())
	addf := func(format string, args ...any) { bad.Say("vision_config: "+format, args...) }
	checkRanges(addf, []sizeLimit{
		{"depth", x.Depth, 12}, {"hidden_size", x.Hidden, 20}, {"intermediate_size", x.FF, 20}, {"num_heads", x.Heads, 12},
		{"patch_size", x.Patch, 10}, {"spatial_merge_size", x.Merge, 4}, {"temporal_patch_size", x.Temporal, 4},
	})
	if x.Channels != 3 {
		addf("in_channels is %d, only 3 is supported", x.Channels)
	}
	if len(bad.Errors()) > before {
		return
	}
	if x.Hidden%x.Heads != 0 || x.HeadDim()%4 != 0 {
		addf("hidden_size %d over num_heads %d must give heads of a multiple of 4", x.Hidden, x.Heads)
	}
	if x.Out != c.Text.Hidden {
		addf("out_hidden_size is %d, must be the decoder's hidden_size %d", x.Out, c.Text.Hidden)
	}
	if family == Qwen25VL && (x.Window < x.Patch*x.Merge || x.Window > 1<<20) {
		addf("window_size is %d, must be at least patch_size·spatial_merge_size = %d, and at most 2^20",
			x.Window, x.Patch*x.Merge)
	}
	if i := slices.IndexFunc(x.FullBlocks, func(b int) bool { return b < 0 || b >= x.Depth }); i >= 0 {
		addf("fullatt_block_indexes is %v, must be in [0, %d)", x.FullBlocks, x.Depth)
	}
	act := "silu"
	if family.learnedPositions() {
		act = "gelu_pytorch_tanh"
	}
	if v.Act != "" && v.Act != act {
		addf("hidden_act is %q, only %s is supported", v.Act, act)
	}
	if family == Qwen35 && len(x.Deepstack) > 0 {
		addf("deepstack_visual_indexes is %v, must be empty", x.Deepstack)
	}
	if family.learnedPositions() {
		if side := int(math.Sqrt(float64(x.Positions))); x.Positions > 1<<20 || side < 1 || side*side != x.Positions {
			addf("num_position_embeddings is %d, must be a square in [1, 2^20]", x.Positions)
		}
		for k, d := range x.Deepstack {
			if d < 0 || d >= x.Depth || k > 0 && d <= x.Deepstack[k-1] {
				addf("deepstack_visual_indexes is %v, must increase and be in [0, %d)", x.Deepstack, x.Depth)
				break
			}
		}
		if len(x.Deepstack) > c.Text.Layers {
			addf("%d deepstack levels for %d decoder layers", len(x.Deepstack), c.Text.Layers)
		}
	}
}

// ComputesLike lists the settings with which the policy's programs would compute other numbers from a model's weights
// and pictures than its own. Other differences change the shapes of weights.
func (c *Config) ComputesLike(policy *Config) error {
	var bad field.Checks
	for _, f := range []struct {
		name     string
		its, own any
	}{
		{"model_type", c.Family, policy.Family}, {"vision_config", c.Vision, policy.Vision},
		{"num_attention_heads", c.Text.Heads, policy.Text.Heads}, {"head_dim", c.Text.HeadDim, policy.Text.HeadDim},
		{"rms_norm_eps", c.Text.Eps, policy.Text.Eps}, {"rope_theta", c.Text.Theta, policy.Text.Theta},
		{"rope_scaling", c.Text.Scaling, policy.Text.Scaling}, {"mrope_section", c.Text.Sections, policy.Text.Sections},
		{"mrope_interleaved", c.Text.Interleaved, policy.Text.Interleaved},
		{"partial_rotary_factor, in features,", c.Text.Rotary, policy.Text.Rotary},
		{"linear_attention", c.Text.Linear, policy.Text.Linear}, {"rescale_factor", c.Rescale, policy.Rescale},
		{"image_mean", c.NormMean, policy.NormMean}, {"image_std", c.NormStd, policy.NormStd},
	} {
		if its, own := fmt.Sprintf("%+v", f.its), fmt.Sprintf("%+v", f.own); its != own {
			bad.Say("%s is %s, must be the policy's, %s", f.name, its, own)
		}
	}
	return bad.Err()
}
