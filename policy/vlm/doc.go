// Package vlm runs and trains vision-language models, and models of text alone, on
// XLA through GoMLX. A Model implements policy.Learner: it writes responses with
// their log-probs, scores rows of tokens, and takes optimiser steps on them.
//
//	folder                                 model
//	Qwen2.5-VL, Qwen3-VL, Qwen3.5          decoder and vision tower
//	Qwen2, Qwen3, Llama, Qwen3.5's text    decoder
//
// Open reads a folder in the Hugging Face layout (config.json, safetensors,
// tokenizer files). Save and Export write folders that transformers and vLLM load.
// Create makes the folder of a new, small model. Package tokenizer converts
// conversations to tokens, package processor converts images to patches, and package hub
// downloads models by their id.
//
// # Backends
//
// Options.Backend selects the backend of the graphs: XLA on the CPU or on an NVIDIA
// GPU, or GoMLX's pure-Go backend, which needs no installation and is 15 to 25 times
// slower. The graphs are the same. Panics of GoMLX become errors.
//
// # Memory
//
// The memory of training depends on Options: the kind of critic, the reference, LoRA
// instead of all weights, what the backward pass recomputes, and the number of tokens in
// a micro-batch. Plan estimates it in advance.
package vlm
