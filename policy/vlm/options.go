package vlm

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/gomlx/compute/dtypes"

	"vagen/internal/field"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/generate"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/internal/tree"
	"vagen/policy/vlm/internal/weights"
)

// Critic is the source of values.
type Critic string

// The kinds of critics.
const (
	NoCritic       Critic = learn.NoCritic
	SharedCritic   Critic = learn.SharedCritic   // a value head on the policy's own trunk
	SeparateCritic Critic = learn.SeparateCritic // a model of its own, as in VAGEN
)

// Recompute selects what the backward pass recomputes instead of keeping it.
type Recompute string

// The choices, from fastest to smallest.
const (
	RecomputeNothing   Recompute = "nothing"
	RecomputeAttention Recompute = "attention" // attention probabilities
	RecomputeBlocks    Recompute = "blocks"    // everything inside a block (gradient checkpointing)
)

var (
	// ErrOption is wrapped by errors about Options, and by calls that need other Options
	// than those of the model.
	ErrOption = backend.ErrOption
	// ErrNotFinite is wrapped by errors about weights, log-probs, entropies or values that
	// are NaN or infinite.
	ErrNotFinite = net.ErrNotFinite
	// ErrWeights is wrapped by errors about tensors that are missing, have the wrong
	// shape, or contradict the config.
	ErrWeights = weights.ErrWeights
	// ErrDiverged is wrapped by the error of an update after which ranks have different weights.
	ErrDiverged = learn.ErrDiverged
	// ErrClosed is returned by a Model that has been closed.
	ErrClosed = errors.New("vlm: the model has been closed")
)

// Options configure a Model. The zero value generates and scores on the best available
// backend; DefaultOptions has the usual settings for training.
type Options struct {
	// Backend is auto, xla, cuda or go; "" is auto.
	Backend string
	// Devices is the number of devices of Backend that train, score and generate together: 1,
	// 2, 4 or 8, or AllDevices; 0 is 1. Each device has all weights, unless ShardWeights is
	// set. On a CPU, devices share the processors.
	Devices int
	// PreferDevices replaces AllDevices where there are as many devices.
	PreferDevices int
	// SameBytes divides the work for one device as for several, so that 1, 2, 4 and 8 devices
	// give the same bytes of weights, moments and results. It is always set with several
	// devices. With one it costs time and memory.
	SameBytes bool
	// Nodes makes this process one of several that train together; the zero value is this process
	// alone. Results have the bytes of one process with SameBytes.
	Nodes Nodes
	// PartPerDevice divides the work of several devices into one part for each instead of the
	// eight parts of SameBytes. Batches are larger and fewer sums of gradients exist, so it takes
	// less time and memory, but rounding depends on the number of devices.
	PartPerDevice bool
	// ShardWeights keeps each weight on one of several devices and copies those of a layer to the
	// others whenever they compute with it, so that a model needs not fit one device. While
	// conversations are open, each device has a copy of the decoder. Results have the same bytes.
	ShardWeights bool
	// BFloat16 computes activations and products in bfloat16. Weights stay
	// float32. It is faster on accelerators, not on CPUs.
	BFloat16 bool
	// RolloutDType is the type of the weights that decoding reads; "" is RolloutFloat32. With the others it reads
	// copies of the decoder's matrices, which exist from the first response to the next update: decoding few rows takes
	// about as long as reading them. Log-probs of responses are those of the rounded weights; contexts are read, scored
	// and trained in float32. It needs a CPU and computation in float32. Without kernels it is slow.
	RolloutDType RolloutDType
	// Autotune is a file with XLA's choice of a kernel for each matrix product on a GPU, by
	// measured times. If it does not exist, products are measured when they are compiled, and
	// Close writes it; such a run cannot be repeated byte for byte, but those that read
	// the file can. Without a file, and for products that it lacks, fixed rules choose. It needs
	// the backend cuda, is valid for one model of GPU and version of the plugin, and is the same for all models of a
	// process.
	Autotune string
	// AutotuneSHA256 is the sum that the file must have; "" permits any.
	AutotuneSHA256 string
	// Recompute trades time for memory in training; "" is RecomputeNothing.
	Recompute Recompute
	// Critic is the source of values; "" is NoCritic.
	Critic Critic
	// CriticPath is a folder with a separate critic's weights. Its config.json and image processor, if
	// there are any, must ask for the policy's computation. By default the critic starts from the
	// policy's weights with a new value head. With LoRA or Adapter it may be the folder of a critic's
	// adapter, as Save writes it.
	CriticPath string
	// ZeroValueHead initialises a new value head with zeros instead of small random
	// weights, so that the first values are 0.
	ZeroValueHead bool
	// Reference keeps a frozen copy of the policy for KL terms.
	Reference bool
	// ReferencePath is a folder with another model of the same family and with the same tokenizer as the
	// reference: a teacher. "" is the policy. Tie leaves it as it is.
	ReferencePath string
	// OffloadReference keeps the reference's own weights in host memory and copies them to the devices
	// whenever it scores. With LoRA it has none but adapters.
	OffloadReference bool
	// OffloadCritic does the same for a separate critic's weights, which are on the devices while it
	// scores or is updated.
	OffloadCritic bool
	// OffloadMoments and OffloadCriticMoments keep the optimiser's moments of the policy and of a
	// separate critic in host memory. Those of a layer are on a device while it is updated. Results
	// have the same bytes.
	OffloadMoments, OffloadCriticMoments bool
	// LoRA trains adapters instead of the weights; nil trains the weights. Policy,
	// reference and a separate critic then share the base weights, unless CriticPath is
	// another model.
	LoRA *LoRA
	// Adapter is a folder with a LoRA adapter in PEFT's layout, from which training
	// continues.
	Adapter string
	// Freeze names weights that are not trained, by their names in transformers' module tree;
	// * matches anything. "model.visual.*" is the vision tower,
	// "*.embed_tokens.weight" the token embedding.
	Freeze []string
	// MicroTokens is the number of tokens, including padding, of a micro-batch in scoring
	// and training; 0 is 4096.
	MicroTokens int
	// MicroRows limits a micro-batch to so many rows (or, if short rows are packed, bins of
	// the longest row's length, with SharePrefix of up to four times that); 0 is no limit.
	MicroRows int
	// CriticMicroTokens and CriticMicroRows are the same for updates of a separate critic;
	// 0 means the policy's.
	CriticMicroTokens, CriticMicroRows int
	// Template holds variables for the chat template, such as enable_thinking.
	Template map[string]any
	// HeadTokens is the number of tokens whose logits are in memory at once; 0 is 512.
	HeadTokens int
	// MaxRows is the number of conversations that advance together in one batch; 0 is
	// 128. Further ones wait for free rows.
	MaxRows int
	// CacheTokens is the smallest length of a conversation's cache. Setting it to
	// the longest conversation avoids recompiling while conversations grow.
	CacheTokens int
	// CompileCache is the folder in which XLA's executables are kept, so that later processes
	// load instead of compile them: CompileCacheAuto or "", CompileCacheOn, CompileCacheOff, or
	// a path. Results have the same bytes. None are kept while Autotune measures.
	CompileCache string
	// TokensPerCall is the number of tokens that one program makes of each conversation, in a
	// loop on the device: 1, 2, 4 or 8; 0 is the backend's default, 8 on accelerators and 1 on
	// CPUs. Results do not depend on it on CPUs; on accelerators XLA may round otherwise. Up to
	// TokensPerCall−1 tokens are discarded when a response ends, and a context is checked
	// between programs. The pure-Go backend needs 0 or 1.
	TokensPerCall int
	// SharePrefix reads the tokens with which all conversations of a new batch begin, such as a system prompt, once
	// and copies their keys, values and states, unless Continuous is set, which opens conversations one by one.
	// Pictures and what follows them are not shared. Scoring and training read rows of a micro-batch that have the same
	// tokens and pictures before their first scored token together, as a prompt that all of them attend to, unless a
	// layer keeps a state. Last bits may differ from those without it; the same calls give the same bytes.
	SharePrefix bool
	// DraftTokens is the number of tokens, up to 3, that are guessed after the next one of a conversation that decodes
	// alone, and of which two that decode together have one: those that followed the last tokens before, in the
	// conversation or in other responses. One pass computes them all, and right guesses save passes. Results have the
	// same bytes. It needs a CPU with kernels, float32, a model without states, and no adapters, unless
	// RolloutDType merges them into copies.
	DraftTokens int
	// Continuous lets calls of Generate that overlap in time decode together: a call joins between two tokens, and
	// returns when its own responses are complete. Each conversation then has a cache of its own, contexts are read one
	// by one, and which conversations share a batch depends on when calls arrive: tokens and log-probs repeat up
	// to rounding only. Updates and scores wait for the end of all calls. It needs one device and one process, without
	// SameBytes.
	Continuous bool
	// Seed is the random seed of new weights.
	Seed uint64
	// Log receives progress and warnings; nil discards them.
	Log *slog.Logger
}

func (o *Options) fill() error {
	var bad field.Checks
	addf := bad.Say
	pick(&bad, "Recompute", &o.Recompute, RecomputeNothing, RecomputeAttention, RecomputeBlocks)
	pick(&bad, "Critic", &o.Critic, NoCritic, SharedCritic, SeparateCritic)
	pick(&bad, "RolloutDType", &o.RolloutDType, RolloutFloat32, RolloutBFloat16, RolloutInt8)
	for _, f := range []struct {
		name      string
		value     *int
		otherwise int
	}{{"MicroTokens", &o.MicroTokens, 4096}, {"HeadTokens", &o.HeadTokens, 512}, {"MaxRows", &o.MaxRows, 128}} {
		if *f.value == 0 {
			*f.value = f.otherwise
		}
		if *f.value < 1 {
			addf("%s is %d, must be positive", f.name, *f.value)
		}
	}
	if o.Devices != AllDevices && o.Devices != 0 {
		if err := tree.Check(o.Devices); err != nil {
			addf("Devices: %w", err)
		}
	}
	o.Nodes.fill(o.Devices, addf)
	if o.SameBytes && o.PartPerDevice {
		addf("SameBytes and PartPerDevice exclude each other: the first divides work into eight parts, the second into one for each device")
	}
	o.checkModes(addf)
	if o.MicroRows < 0 || o.CriticMicroTokens < 0 || o.CriticMicroRows < 0 {
		addf("MicroRows is %d, CriticMicroTokens %d and CriticMicroRows %d; they must not be negative", o.MicroRows, o.CriticMicroTokens, o.CriticMicroRows)
	}
	if o.CacheTokens < 0 {
		addf("CacheTokens is %d, must not be negative", o.CacheTokens)
	}
	if (o.ReferencePath != "" || o.OffloadReference) && !o.Reference {
		addf("ReferencePath is %q and OffloadReference %v, but Reference is not set", o.ReferencePath, o.OffloadReference)
	}
	if (o.OffloadCritic || o.OffloadCriticMoments) && o.Critic != SeparateCritic {
		addf("OffloadCritic is %v and OffloadCriticMoments %v, but Critic is %q, not %q", o.OffloadCritic, o.OffloadCriticMoments, o.Critic, SeparateCritic)
	}
	if o.CriticPath != "" && o.Critic != SeparateCritic {
		addf("CriticPath is %q, but Critic is %q", o.CriticPath, o.Critic)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	err := errors.Join(bad.Err(), generate.CheckTokensPerCall(o.TokensPerCall),
		generate.CheckDraftTokens(o.DraftTokens))
	if err != nil {
		return fmt.Errorf("vlm: %w: %w", ErrOption, err)
	}
	return nil
}

// compute is the type of activations.
func (o *Options) compute() dtypes.DType {
	if o.BFloat16 {
		return dtypes.BFloat16
	}
	return dtypes.Float32
}

// pick sets the default, which is the first of the allowed values, and refuses others.
func pick[T ~string](bad *field.Checks, name string, got *T, allowed ...T) {
	if *got == "" {
		*got = allowed[0]
	}
	if !slices.Contains(allowed, *got) {
		bad.Say("%s is %q, must be one of %q", name, *got, allowed)
	}
}

// checkModes reports options about the choice of kernels that have no effect, and what BFloat16 and Continuous cannot
// be with.
func (o *Options) checkModes(addf func(format string, args ...any)) {
	if o.BFloat16 && o.RolloutDType != RolloutFloat32 {
		addf("RolloutDType is %q, must be %q with BFloat16, which computes with rounded weights anyway",
			o.RolloutDType, RolloutFloat32)
	}
	if o.Continuous && (o.Devices > 1 || o.Nodes.Count > 1 || o.SameBytes) {
		addf("Continuous needs one device and one process without SameBytes: Devices is %d, Nodes.Count %d and SameBytes %v",
			o.Devices, o.Nodes.Count, o.SameBytes)
	}
	switch {
	case o.Autotune == "" && o.AutotuneSHA256 != "":
		addf("AutotuneSHA256 is %q, but Autotune is empty", o.AutotuneSHA256)
	case o.Autotune != "" && o.Backend != backend.CUDA:
		addf("Autotune is %q, but Backend is %q, must be %q: other backends do not choose between kernels",
			o.Autotune, o.Backend, backend.CUDA)
	}
}
