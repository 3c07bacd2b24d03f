package processor

import (
	"fmt"
	"math"
)

const (
	// maxSide and maxPixels bound images and settings so that no size overflows.
	maxSide   = 1 << 16
	maxPixels = 1 << 28
	maxRatio  = 200 // longer side over shorter side
)

// SmartSize returns the size to which an image is resized: sides that are multiples
// of factor, an area within [minPixels, maxPixels] as far as such sides allow, and
// about the same aspect ratio.
//
//	h' = round(h/f)·f, w' = round(w/f)·f   (ties to even)
//	if h'·w' > max:  b = √(h·w/max),    h' = max(f, ⌊h/b/f⌋·f), w' likewise
//	if h'·w' < min:  b = √(min/(h·w)),  h' = ⌈h·b/f⌉·f,        w' likewise
//
// This is smart_resize of the Qwen vision utilities, in float64 and in that
// order of operations. An image of a side below 1, or of one side more than 200
// times the other, is an error that wraps ErrImage.
func SmartSize(height, width, factor, minPixels, maxPixels int) (h, w int, err error) {
	if height < 1 || width < 1 || height > maxSide || width > maxSide {
		return 0, 0, fmt.Errorf("processor: %w: %d by %d pixels, want sides of 1 to %d", ErrImage, width, height, maxSide)
	}
	if factor < 1 || minPixels < 1 || maxPixels < 1 {
		return 0, 0, fmt.Errorf("processor: %w: factor %d, bounds %d and %d, want at least 1", ErrConfig, factor, minPixels,
			maxPixels)
	}
	if float64(max(height, width))/float64(min(height, width)) > maxRatio {
		return 0, 0, fmt.Errorf("processor: %w: %d by %d pixels, one side may be at most %d times the other", ErrImage, width,
			height, maxRatio)
	}
	y, x, f := float64(height), float64(width), float64(factor)
	h = int(math.RoundToEven(y/f)) * factor
	w = int(math.RoundToEven(x/f)) * factor
	switch {
	case h*w > maxPixels:
		b := math.Sqrt(y * x / float64(maxPixels))
		h = max(factor, int(math.Floor(y/b/f))*factor)
		w = max(factor, int(math.Floor(x/b/f))*factor)
	case h*w < minPixels:
		b := math.Sqrt(float64(minPixels) / (y * x))
		// Products are rounded before the division, so that fused multiply-add cannot
		// change the result.
		h = int(math.Ceil(float64(y*b)/f)) * factor
		w = int(math.Ceil(float64(x*b)/f)) * factor
	}
	return h, w, nil
}
