package model

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// EmbedForward looks up tokens [n] int32 in the table [vocab, hidden]. Where
// imageRow [n] int32 is not negative, that row of images [m, hidden] replaces the
// token's embedding. images and imageRow may be nil. The result is [n, hidden].
func EmbedForward(table, tokens, images, imageRow *Node, compute dtypes.DType) *Node {
	x := cast(takeRows(table, tokens), compute)
	if images == nil {
		return x
	}
	return Where(ofImages(imageRow), takeRows(cast(images, compute), MaxScalar(imageRow, 0)), x)
}

// ofImages marks the tokens that have a row of images.
func ofImages(imageRow *Node) *Node {
	return GreaterOrEqual(imageRow, ScalarZero(imageRow.Graph(), dtypes.Int32))
}

// EmbedBackward returns the gradients, for the result's gradient dx [n, hidden],
// of the table, added to acc (nil: not added), and of the images if there are
// any. slot [m] int32 is the position of each image row in the tokens, n if it
// has none.
func EmbedBackward(table, tokens, imageRow, slot, dx, acc *Node) (dTable, dImages *Node) {
	dx = f32(dx)
	dText := dx
	if imageRow != nil {
		dText = Where(ofImages(imageRow), ZerosLike(dx), dx)
		dImages = takeRowsOrZero(dx, slot)
	}
	if acc == nil {
		acc = Zeros(table.Graph(), table.Shape())
	}
	return ScatterSum(acc, Reshape(tokens, tokens.Shape().Size(), 1), dText, false, false), dImages
}

// Angles returns cos and sin [n, headDim/2] for positions [n, 3] int32 (t, h, w).
func (t *Text) Angles(pos *Node) (cos, sin *Node) {
	g := pos.Graph()
	p := ConvertDType(pos, dtypes.Float32)
	axis := t.Axis()
	var angle *Node
	for k := range 3 {
		freq := make([]float32, len(axis))
		used := false
		for i, f := range t.InvFreq() {
			if axis[i] == k {
				freq[i], used = float32(f), true
			}
		}
		if !used {
			continue
		}
		angle = addTo(angle, Mul(columns(p, k, k+1), Const(g, [][]float32{freq})))
	}
	return Cos(angle), Sin(angle)
}

// AddRows adds row imageRow[i] of images to row i of x where imageRow[i] is not
// negative. Qwen3-VL's deepstack features enter the decoder this way.
func AddRows(x, images, imageRow *Node) *Node {
	pic := takeRows(cast(images, x.DType()), MaxScalar(imageRow, 0))
	return Add(x, where(ofImages(imageRow), pic))
}

// TakeRows returns the rows of x at slot, zeros where slot equals the number of
// rows: the gradient of AddRows for the images.
func TakeRows(x, slot *Node) *Node { return takeRowsOrZero(f32(x), slot) }
