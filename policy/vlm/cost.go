package vlm

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"

	"vagen/policy/vlm/internal/model"
)

// Step is a kind of step on rows of tokens without images.
type Step string

// The steps.
const (
	StepTrain   Step = "train"   // forward and backward pass, AdamW
	StepScore   Step = "score"   // log-probs of all tokens but the first of a row
	StepPrefill Step = "prefill" // read a prompt and sample a token
	StepDecode  Step = "decode"  // sample one token for each row
)

// Cost is the least work of a step.
type Cost struct {
	// Bytes are those that must be read from memory or written to it: the weights once for
	// each pass over a micro-batch, the caches, and in training gradients and moments.
	// Activations are not included.
	Bytes int64
	// FLOPs are the operations of the matrix products that the result depends on, and
	// HardwareFLOPs those executed: with the masked half of attention and what the backward
	// pass computes again.
	FLOPs, HardwareFLOPs int64
}

// Cost returns the least work of a step on so many rows of so many tokens. In StepDecode
// tokens is the number of tokens of a row that are in the cache before the step.
func (m *Model) Cost(step Step, rows, tokens int) (Cost, error) {
	if rows < 1 || tokens < 1 {
		return Cost{}, fmt.Errorf("vlm: cost: rows is %d and tokens is %d, both must be at least 1", rows, tokens)
	}
	r := costRule{spec: m.net.spec, compute: m.net.compute, narrow: m.narrows(), recompute: m.opts.Recompute, micro: m.microBatches(rows, tokens)}
	return r.cost(step, rows, tokens)
}

// microBatches returns the number of micro-batches of rows of equal length.
func (m *Model) microBatches(rows, tokens int) int {
	k := m.packer(m.net)
	full := k.perPack(bucket(tokens))
	return (rows + full - 1) / full
}

// costRule is what a cost depends on besides the rows.
type costRule struct {
	spec      *model.Config
	compute   dtypes.DType
	narrow    bool // generation reads matrices in the type of computation
	recompute Recompute
	micro     int // micro-batches of scoring and training
}

func (r costRule) cost(step Step, rows, tokens int) (Cost, error) {
	const float = 4 // bytes
	matrices, vectors := r.spec.DecoderNumbers()
	weights := float * (matrices + vectors)
	generated := weights // as generation reads them
	if r.narrow {
		generated = int64(r.compute.Size())*matrices + float*vectors
	}
	state := int64(rows) * r.spec.CacheBytes(0, r.compute)
	token := int64(rows)*r.spec.CacheBytes(1, r.compute) - state // keys and values of a token of each row
	pass, bytes := model.Pass{Rows: rows, Tokens: tokens}, int64(0)
	switch step {
	case StepDecode:
		pass.Tokens, pass.Past, pass.Logits = 1, tokens, 1
		bytes = generated + token*int64(tokens) + token + 2*state
	case StepPrefill:
		pass.Logits = 1
		bytes = generated + token*int64(tokens) + state
	case StepScore:
		pass.Logits = tokens - 1
		bytes = weights * int64(r.micro)
	case StepTrain:
		pass.Logits, pass.Train = tokens-1, true
		pass.AttentionAgain, pass.BlocksAgain = r.recompute == RecomputeAttention, r.recompute == RecomputeBlocks
		const passes = 2 // the backward pass of a layer contains the forward pass that it computes again
		// A micro-batch reads the gradients' sum and writes it, the first only writes it. The
		// norm reads it, and AdamW reads gradients, weights and two moments and writes the last three.
		trained := float * r.spec.TrainedNumbers()
		bytes = passes*weights*int64(r.micro) + (2*int64(r.micro)-1)*trained + trained + 7*trained
	default:
		return Cost{}, fmt.Errorf("vlm: cost: step is %q, must be one of %q", step, []Step{StepTrain, StepScore, StepPrefill, StepDecode})
	}
	f := r.spec.FLOPs(pass)
	return Cost{Bytes: bytes, FLOPs: f.Model, HardwareFLOPs: f.Hardware}, nil
}
