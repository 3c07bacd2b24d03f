package net

import (
	"math/bits"

	"github.com/gomlx/compute/support/xslices"

	"vagen/policy/vlm/internal/model"
)

// Bucket rounds n up to limit the number of different sizes: at most four per doubling, so
// at most a quarter is wasted.
func Bucket(n int) int {
	if n <= 4 {
		return max(n, 1)
	}
	step := 1 << (bits.Len(uint(n-1)) - 3)
	return (n + step - 1) / step * step
}

// ImageBucket rounds a number of equal images up. The steps are coarse because every size needs its own executable.
func ImageBucket(n int) int { return RoundUp(n, 16) }

// RoundUp rounds n up to a power of two, or above most, which is one, to a multiple of most.
func RoundUp(n, most int) int {
	if n > most {
		return (n + most - 1) / most * most
	}
	return 1 << bits.Len(uint(max(n, 1)-1))
}

// Picture is an image in the input format of the vision tower.
type Picture struct {
	Grid   Grid
	Pixels []byte // [patches, channels·patch·patch], cell by cell, row-major inside a cell
}

// VisionPlan is the input of the vision tower for the images of a micro-batch. Patches are
// in window order, so that the groups of every block are contiguous; tokens undo that order
// when they look up their rows of the merger's output.
type VisionPlan struct {
	patches int
	cells   [][]byte // the pictures' pixels, cell by cell; nil, and what is missing at the end, are zeros
	place   []int32  // [patches, 2] row and column in the image
	Table   []int32  // [patches, 4] rows of the learned position table (Qwen3-VL)
	TableW  []float32
	window  segments // groups of windowed blocks
	full    segments // groups of the other blocks: whole images
	// row [cells] is, for each merged cell of the images in order, its row of the merger's
	// output.
	Row []int32
}

// segments are contiguous runs of patches that attend to each other.
type segments struct {
	groups, length int
	even           bool    // all runs have the same length: no index needed
	segment        []int32 // [groups, length]: 0 for a patch, −1 for padding
	index          []int32 // [groups·length]: patch, or patches for padding
	inverse        []int32 // [patches]: slot, or groups·length for padding
}

// PlanVision plans images, of which there must be at least one.
func PlanVision(cfg *model.Config, images []Picture) *VisionPlan {
	v := cfg.Vision
	cell := v.Merge * v.Merge
	var windowSizes, imageSizes []int
	even := true
	for _, im := range images {
		even = even && im.Grid == images[0].Grid
	}
	pad := 0 // images of zeros that pad the batch to a bucket size
	if even {
		pad = ImageBucket(len(images)) - len(images)
	}
	patches := pad * images[0].Grid.H * images[0].Grid.W
	for _, im := range images {
		patches += im.Grid.H * im.Grid.W
	}
	p := &VisionPlan{cells: make([][]byte, 0, patches/cell)}
	for i := range len(images) + pad {
		im := Picture{Grid: images[0].Grid}
		if i < len(images) {
			im = images[i]
		}
		p.addImage(cfg, im, i < len(images), &windowSizes)
		imageSizes = append(imageSizes, im.Grid.H*im.Grid.W)
	}
	p.patches = len(p.place) / 2
	if !even {
		p.padPatches(v, Bucket(p.patches/cell)*cell)
	}
	p.full = layoutSegments(imageSizes, p.patches)
	p.window = p.full
	if v.Window > 0 {
		for i := range windowSizes {
			windowSizes[i] *= cell
		}
		p.window = layoutSegments(windowSizes, p.patches)
	}
	return p
}

// addImage appends the patches of one image. If real is false, the pixels are zeros and the
// cells are not recorded.
func (p *VisionPlan) addImage(cfg *model.Config, im Picture, real bool, windowSizes *[]int) {
	v := cfg.Vision
	cell := v.Merge * v.Merge
	dim := v.PatchDim()
	a, b := im.Grid.H/v.Merge, im.Grid.W/v.Merge
	var order []int32
	if v.Window > 0 {
		var sizes []int
		order, sizes = windows(a, b, v.WindowCells())
		*windowSizes = append(*windowSizes, sizes...)
	} else {
		order = xslices.Iota(int32(0), a*b)
	}
	first := int32(len(p.place) / 2 / cell)
	if real {
		at := len(p.Row)
		p.Row = append(p.Row, make([]int32, a*b)...)
		for k, c := range order {
			p.Row[at+int(c)] = first + int32(k)
		}
	}
	for _, c := range order {
		for k := range cell {
			row := int(c)/b*v.Merge + k/v.Merge
			col := int(c)%b*v.Merge + k%v.Merge
			p.place = append(p.place, int32(row), int32(col))
			if v.Positions > 0 {
				p.addTable(v, im.Grid, row, col)
			}
		}
		var pixels []byte
		if real {
			pixels = im.Pixels[int(c)*cell*dim : (int(c)+1)*cell*dim]
		}
		p.cells = append(p.cells, pixels)
	}
}

// pixels returns [patches, v.PatchDim()]. The plans of a whole batch exist at the same time, so they share the
// pictures' pixels until they are uploaded.
func (p *VisionPlan) pixels(v *model.Vision) []byte {
	out := make([]byte, p.patches*v.PatchDim())
	size := v.Merge * v.Merge * v.PatchDim()
	for i, cell := range p.cells {
		copy(out[i*size:], cell)
	}
	return out
}

// addTable adds the four entries of the learned position table around a patch and their
// bilinear weights; the table's corners are aligned with the image's corners.
func (p *VisionPlan) addTable(v *model.Vision, g Grid, row, col int) {
	side := 1
	for side*side < v.Positions {
		side++
	}
	r0, r1, fr := between(row, g.H, side)
	c0, c1, fc := between(col, g.W, side)
	p.Table = append(p.Table, int32(r0*side+c0), int32(r0*side+c1), int32(r1*side+c0), int32(r1*side+c1))
	p.TableW = append(p.TableW, (1-fr)*(1-fc), (1-fr)*fc, fr*(1-fc), fr*fc)
}

// between maps index i of n evenly to 0…side−1 and returns the neighbours and the fraction
// of the distance to the second.
func between(i, n, side int) (lo, hi int, f float32) {
	if n == 1 {
		return 0, min(1, side-1), 0
	}
	// In float32, as in the original.
	x := float32(i) * (float32(side-1) / float32(n-1))
	if i == n-1 {
		x = float32(side - 1)
	}
	lo = int(x)
	return lo, min(lo+1, side-1), x - float32(lo)
}

// padPatches pads with patches that belong to no group.
func (p *VisionPlan) padPatches(v *model.Vision, to int) {
	extra := to - p.patches
	p.place = append(p.place, make([]int32, 2*extra)...)
	if v.Positions > 0 {
		p.Table = append(p.Table, make([]int32, 4*extra)...)
		p.TableW = append(p.TableW, make([]float32, 4*extra)...)
	}
	p.patches = to
}

// layoutSegments returns the layout of runs of the given sizes, the first at patch 0.
func layoutSegments(sizes []int, patches int) segments {
	s := segments{groups: len(sizes), even: true}
	total := 0
	for _, n := range sizes {
		s.even = s.even && n == sizes[0]
		s.length = max(s.length, n)
		total += n
	}
	if s.even && total == patches {
		s.segment = make([]int32, s.groups*s.length)
		return s
	}
	s.even = false
	s.groups, s.length = Bucket(s.groups), Bucket(s.length)
	slots := s.groups * s.length
	s.segment, s.index, s.inverse = make([]int32, slots), make([]int32, slots), make([]int32, patches)
	for i := range slots {
		s.segment[i], s.index[i] = -1, int32(patches)
	}
	for i := range s.inverse {
		s.inverse[i] = int32(slots)
	}
	patch := 0
	for g, n := range sizes {
		for k := range n {
			slot := g*s.length + k
			s.segment[slot], s.index[slot], s.inverse[patch] = 0, int32(patch), int32(slot)
			patch++
		}
	}
	return s
}
