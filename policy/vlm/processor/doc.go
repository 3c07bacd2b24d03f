// Package processor converts images to the patches that the vision towers of
// Qwen2-VL, Qwen2.5-VL, Qwen3-VL and Qwen3.5 read, bit for bit as transformers does with
// Pillow up to version 12.
//
// An image goes through five steps: 8-bit RGB with transparency composited over white; the
// size rule ([SmartSize]); Pillow's bicubic resampling; scaling and normalising;
// and cutting into patches. The patches of a [Config] with P = PatchSize,
// M = MergeSize, T = TemporalPatchSize are ordered block by block, a block being
// M×M patches that the model merges into one token:
//
//	block row, block column, row in the block, column in the block
//
// and within a patch by channel, copy (T times the same), y, x.
//
// There are two forms. [Processor.Patches] gives one byte per value, without the
// copies; a trainer stores this form, and a device can normalise it with
// Rescale, Mean and Std of the [Config]. [Processor.Normalize] converts it to the
// float32 rows that are the input of the patch embedding.
//
//	p, err := processor.Load(dir)
//	…
//	var patches processor.Patches
//	err = p.Patches(&patches, img)
//	rows := p.Normalize(nil, patches.Pix) // [patches.Grid.Patches(), p.Dim()]
//	tokens := p.Tokens(patches.Grid)      // placeholders in the text
package processor
