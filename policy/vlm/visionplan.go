package vlm

import (
	"math/bits"

	"vagen/policy/vlm/internal/model"
)

// bucket rounds n up to limit the number of different sizes: at most four per doubling, so
// at most a quarter is wasted.
func bucket(n int) int {
	if n <= 4 {
		return max(n, 1)
	}
	step := 1 << (bits.Len(uint(n-1)) - 3)
	return (n + step - 1) / step * step
}

// imageBucket rounds a number of equal images up: 1, 2, 4, 8, 16, then multiples of 16. The
// steps are coarse because every size needs its own executable.
func imageBucket(n int) int {
	if n > 16 {
		return (n + 15) / 16 * 16
	}
	return 1 << bits.Len(uint(n-1))
}

// picture is an image in the input format of the vision tower.
type picture struct {
	grid   grid
	pixels []byte // [patches, channels·patch·patch], cell by cell, row-major inside a cell
}

// visionPlan is the input of the vision tower for the images of a micro-batch. Patches are
// in window order, so that the groups of every block are contiguous; tokens undo that order
// when they look up their rows of the merger's output.
type visionPlan struct {
	patches int
	pixels  []byte
	place   []int32 // [patches, 2] row and column in the image
	table   []int32 // [patches, 4] rows of the learned position table (Qwen3-VL)
	tableW  []float32
	window  segments // groups of windowed blocks
	full    segments // groups of the other blocks: whole images
	// row [cells] is, for each merged cell of the images in order, its row of the merger's
	// output.
	row []int32
}

// segments are contiguous runs of patches that attend to each other.
type segments struct {
	groups, length int
	even           bool    // all runs have the same length: no index needed
	segment        []int32 // [groups, length]: 0 for a patch, −1 for padding
	index          []int32 // [groups·length]: patch, or patches for padding
	inverse        []int32 // [patches]: slot, or groups·length for padding
}

// planVision plans images, of which there must be at least one.
func planVision(cfg *model.Config, images []picture) *visionPlan {
	v := cfg.Vision
	cell := v.Merge * v.Merge
	p := &visionPlan{}
	var windowSizes, imageSizes []int
	even := true
	for _, im := range images {
		even = even && im.grid == images[0].grid
	}
	pad := 0 // images of zeros that pad the batch to a bucket size
	if even {
		pad = imageBucket(len(images)) - len(images)
	}
	for i := range len(images) + pad {
		im := picture{grid: images[0].grid}
		if i < len(images) {
			im = images[i]
		}
		p.addImage(cfg, im, i < len(images), &windowSizes)
		imageSizes = append(imageSizes, im.grid.h*im.grid.w)
	}
	p.patches = len(p.place) / 2
	if !even {
		p.padPatches(v, bucket(p.patches/cell)*cell)
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
func (p *visionPlan) addImage(cfg *model.Config, im picture, real bool, windowSizes *[]int) {
	v := cfg.Vision
	cell := v.Merge * v.Merge
	dim := v.PatchDim()
	a, b := im.grid.h/v.Merge, im.grid.w/v.Merge
	var order []int32
	if v.Window > 0 {
		var sizes []int
		order, sizes = windows(a, b, v.WindowCells())
		*windowSizes = append(*windowSizes, sizes...)
	} else {
		order = make([]int32, a*b)
		for i := range order {
			order[i] = int32(i)
		}
	}
	first := int32(len(p.place) / 2 / cell)
	if real {
		at := len(p.row)
		p.row = append(p.row, make([]int32, a*b)...)
		for k, c := range order {
			p.row[at+int(c)] = first + int32(k)
		}
	}
	for _, c := range order {
		for k := range cell {
			row := int(c)/b*v.Merge + k/v.Merge
			col := int(c)%b*v.Merge + k%v.Merge
			p.place = append(p.place, int32(row), int32(col))
			if v.Positions > 0 {
				p.addTable(v, im.grid, row, col)
			}
		}
		if real {
			p.pixels = append(p.pixels, im.pixels[int(c)*cell*dim:(int(c)+1)*cell*dim]...)
		} else {
			p.pixels = append(p.pixels, make([]byte, cell*dim)...)
		}
	}
}

// addTable adds the four entries of the learned position table around a patch and their
// bilinear weights; the table's corners are aligned with the image's corners.
func (p *visionPlan) addTable(v *model.Vision, g grid, row, col int) {
	side := 1
	for side*side < v.Positions {
		side++
	}
	r0, r1, fr := between(row, g.h, side)
	c0, c1, fc := between(col, g.w, side)
	p.table = append(p.table, int32(r0*side+c0), int32(r0*side+c1), int32(r1*side+c0), int32(r1*side+c1))
	p.tableW = append(p.tableW, (1-fr)*(1-fc), (1-fr)*fc, fr*(1-fc), fr*fc)
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
func (p *visionPlan) padPatches(v *model.Vision, to int) {
	extra := to - p.patches
	p.place = append(p.place, make([]int32, 2*extra)...)
	p.pixels = append(p.pixels, make([]byte, extra*v.PatchDim())...)
	if v.Positions > 0 {
		p.table = append(p.table, make([]int32, 4*extra)...)
		p.tableW = append(p.tableW, make([]float32, 4*extra)...)
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
	s.groups, s.length = bucket(s.groups), bucket(s.length)
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

// pictureBytes is the Go memory for the images of two rounds, with as much garbage, and
// for those of a micro-batch as floats.
func (m *Model) pictureBytes(w Workload, at microBatchPlan) int64 {
	if m.net.vision == nil || w.Images == 0 {
		return 0
	}
	one := int64(w.Patches) * int64(m.cfg.Vision.PatchDim())
	kept := min(2*int64(w.Rows*w.Images)*one, learnedPictures)
	return 2*kept + 2*4*int64(at.images)*one
}
