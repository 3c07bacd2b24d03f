package svg

import "image"

// structural compares the edges of two pictures: the number of pixels that are edges in
// both, divided by the number of pixels that are edges in at least one. It is 0 if there are
// no edges or the sizes differ.
func structural(a, b image.Image) float64 {
	if a.Bounds().Size() != b.Bounds().Size() {
		return 0
	}
	return overlap(edgesIn(a), edgesIn(b))
}

// perceptual returns the similarity of two pictures on white, in [0, 1]: 1 for equal
// pictures, 0 if nothing overlaps. It needs no model, and increases smoothly while an attempt
// gets closer to its target, so that improvements are rewarded.
//
// Let t and a be the ink of the two pictures, 1 − value for each colour of each pixel,
// averaged over squares of 2, 4, 8 and 16 pixels, and g and h the gradients of the luma of
// these averages. Each of the four square sizes gives
//
//	ink  = Σ min(t, a) / Σ max(t, a)
//	line = Σ min(|g|, |h|)·max(0, cos∠(g, h)) / Σ max(|g|, |h|)
//
// and the score is the mean of all eight. Both terms are generalised Jaccard indices: ink of
// areas and colours, line of outlines and their directions. A term is 1 if both pictures are
// empty. Small squares reward exact drawings, large ones approximate drawings. Pictures of
// different sizes score 0.
func perceptual(target, attempt image.Image) float64 {
	if target.Bounds().Size() != attempt.Bounds().Size() {
		return 0
	}
	return similarity(pyramidOf(target), pyramidOf(attempt))
}
