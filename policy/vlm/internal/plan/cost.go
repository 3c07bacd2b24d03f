package plan

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"

	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
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

// CostRule is what a cost depends on besides the rows.
type CostRule struct {
	Spec    *model.Config
	Compute dtypes.DType
	Narrow  bool  // generation reads matrices in the type of computation
	Packed  int64 // bytes of the matrices' copies that decoding reads; 0 without
	Keep    net.KeepMode
	Micro   int // micro-batches of scoring and training
}

func (r CostRule) Cost(step Step, rows, tokens int) (Cost, error) {
	const float = 4 // bytes
	matrices, vectors := r.Spec.DecoderNumbers()
	weights := float * (matrices + vectors)
	generated := weights // as generation reads them
	if r.Narrow {
		generated = int64(r.Compute.Size())*matrices + float*vectors
	}
	state := int64(rows) * r.Spec.CacheBytes(0, r.Compute)
	token := int64(rows)*r.Spec.CacheBytes(1, r.Compute) - state // keys and values of a token of each row
	pass, bytes := model.Pass{Rows: rows, Tokens: tokens}, int64(0)
	switch step {
	case StepDecode:
		pass.Tokens, pass.Past, pass.Logits = 1, tokens, 1
		if r.Packed > 0 {
			generated = r.Packed + float*vectors
		}
		bytes = generated + token*int64(tokens) + token + 2*state
	case StepPrefill:
		pass.Logits = 1
		bytes = generated + token*int64(tokens) + state
	case StepScore:
		pass.Logits = tokens - 1
		bytes = weights * int64(r.Micro)
	case StepTrain:
		pass.Logits, pass.Train = tokens-1, true
		pass.AttentionAgain, pass.BlocksAgain = r.Keep == net.KeepMost, r.Keep == net.KeepInputs
		const passes = 2 // the backward pass of a layer contains the forward pass that it computes again
		// A micro-batch reads the gradients' sum and writes it, the first only writes it. The
		// norm reads it, and AdamW reads gradients, weights and two moments and writes the last three.
		trained := float * r.Spec.TrainedNumbers()
		bytes = passes*weights*int64(r.Micro) + (2*int64(r.Micro)-1)*trained + trained + 7*trained
	default:
		return Cost{}, fmt.Errorf("vlm: cost: step is %q, must be one of %q", step,
			[]Step{StepTrain, StepScore, StepPrefill, StepDecode})
	}
	f := r.Spec.FLOPs(pass)
	return Cost{Bytes: bytes, FLOPs: f.Model, HardwareFLOPs: f.Hardware}, nil
}
