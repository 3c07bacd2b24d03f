// Package safetensors reads and writes model weights in the safetensors format,
// in one file or in shards with an index, in the layout of the Hugging Face tools.
//
// A file is an 8-byte little-endian length N, N bytes of JSON, and the data.
// The JSON object gives for every tensor its dtype, its shape and the range of
// data bytes it occupies; the key "__metadata__" contains strings. The ranges must
// cover the data exactly. See https://github.com/huggingface/safetensors.
//
// [Open] and [OpenSharded] check all of this first and report all errors instead of only
// the first. A file is never copied as a whole: [Reader.Bytes] is a view of a memory map,
// and conversions use a buffer of [chunkBytes], so that loading a model needs little more
// memory than the caller's slices.
//
//	r, err := safetensors.OpenSharded(dir)
//	…
//	defer r.Close()
//	for _, name := range r.Names() {
//		buf, err = r.Float32(name, buf) // buf is reused when it is large enough
//	}
//
// [Create] and [CreateSharded] write tensors one at a time, in a given order, to
// temporary files that take their final names only in [Writer.Commit].
package safetensors
