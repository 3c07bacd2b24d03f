// Package engine generates responses on servers of vLLM or SGLang.
//
// Open connects a Fleet with a Codec, NewPolicy samples on it, and Diagnose compares its
// log-probs with those of the learner.
//
// A Fleet is one or several servers with the same model. A Policy sends them the tokens and
// images of a conversation and receives tokens with log-probs; no text is exchanged, so the
// tokens of a training row are those that the server read and wrote. Every response is
// checked: the server must have read the prompt that was sent, and the current version of
// the weights must have written the response.
//
//	           one image placeholder per image, images in the model's own size
//	Policy ──────────────────────────────────────────────────────────────────▶ server
//	       ◀──────────────────────────────────────────────────────────────────
//	           tokens, log-probs, versions of the weights, the prompt as it was read
//
// Publish brings new weights to the servers: an adapter as a new folder under a new name, or
// all weights from a folder that the servers can read, with generation paused meanwhile.
//
// A server that fails is not used until a probe finds it healthy and its weights current;
// requests that failed are sent to another server. A request that fails on every attempt
// costs its conversation. If no server is healthy for Options.Outage, the call fails.
//
// Sources: the recorded traffic of vLLM 0.32.0 in testdata/engine, and the schema of SGLang
// 0.5.23 beside it. docs/scale.md describes how the servers are started.
package engine
