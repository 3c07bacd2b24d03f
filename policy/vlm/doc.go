// Package vlm runs and trains vision-language models, and models of text alone, on
// XLA through GoMLX. A Model implements policy.Learner: it writes responses with
// their log-probs, scores rows of tokens, and takes optimiser steps on them.
//
//	folder                       model
//	Qwen2.5-VL, Qwen3-VL         decoder and vision tower
//	Qwen2, Qwen3, Llama          decoder
//
// Open reads a folder in the Hugging Face layout (config.json, safetensors,
// tokenizer files), and Save and Export write one that transformers and vLLM load as
// it is. Create makes the folder of a new, small model. Package tokenizer below this
// one turns conversations into tokens, package processor images into patches, and
// package hub fetches folders by their id.
//
// # Backends
//
// Options.Backend chooses what the graphs run on: XLA on the CPU or on an NVIDIA
// GPU, or GoMLX's pure-Go backend, which needs nothing and is 15 to 25 times slower.
// The graphs are the same. GoMLX's panics do not leave this package; they are errors.
//
// # Memory
//
// What training holds follows from Options: the critic (none, a head on the policy's
// trunk, a model of its own), the reference, LoRA in place of all weights, what the
// backward pass computes again, and how many tokens go through the network at once.
// Plan says in advance what that comes to.
package vlm
