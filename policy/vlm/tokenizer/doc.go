// Package tokenizer converts text to token ids and back for the byte-level BPE
// vocabularies of the Qwen2, Qwen3, Qwen3.5, Llama 3 and SmolLM families, and renders
// conversations the way their chat templates do.
//
// [Load] reads a model folder in the Hugging Face layout. Settings of tokenizer.json
// are implemented exactly or rejected: an unknown normalizer, split pattern
// or chat template is an error that names it. No id is built in;
// special tokens are looked up by their text.
//
//	tok, err := tokenizer.Load(dir)
//	…
//	ids, err := tok.Encode("Where is the box?")
//	chat, err := tok.Chat(nil)
//	text, err := chat.Open([]tokenizer.Message{tokenizer.Text("user", "Where is the box?")})
//
// Encoding follows Hugging Face's order: added tokens are matched literally,
// longest match first; the rest is normalised, split by the pre-tokenizer, and
// merged by rank within each piece.
package tokenizer
