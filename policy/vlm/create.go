package vlm

import "vagen/policy/vlm/internal/create"

// ErrShape is wrapped by errors about an invalid Shape.
var ErrShape = create.ErrShape

// Shape is the size of a new model: see its fields.
type Shape = create.Shape

// LinearShape is the size of qwen3_5's layers with a gated delta net.
type LinearShape = create.LinearShape

// Small returns the shape of the quickstart: 0.5 million parameters, for pictures of
// 28-pixel tiles, one token per tile.
func Small() Shape { return create.Small() }

// ShapeNames returns the names that NamedShape accepts.
func ShapeNames() []string { return create.ShapeNames() }

// NamedShape returns a shape by its name: those of some released models, to measure speed
// and memory without their weights.
func NamedShape(name string) (Shape, error) { return create.Named(name) }

// Create writes the folder of a new model to dir: random weights from the seed, and a
// tokenizer with one token for each of the words. The folder must not hold a model yet.
// Open and transformers load it.
//
// Matrices are initialised normally with variance 1/(3·inputs), like PyTorch's linear
// layers, embeddings with standard deviation 0.05, norms so that they scale by 1, biases with 0, and the
// decay of a delta net like in transformers: dt_bias 1, A_log the logarithm of a uniform number in (0, 16].
func Create(dir string, s Shape, words []string, seed uint64) error {
	return create.Model(dir, s, words, seed)
}
