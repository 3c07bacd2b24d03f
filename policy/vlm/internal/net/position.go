package net

import (
	"fmt"

	"vagen/policy/vlm/internal/model"
)

// Grid is an image's size in patches.
type Grid struct{ H, W int }

// Tokens is the number of placeholder tokens of the image.
func (g Grid) Tokens(merge int) int { return g.H * g.W / (merge * merge) }

// position is a token's position on the three axes of multimodal rotary positions
// (Qwen2-VL, arXiv:2409.12191, §2.1): time, height, width.
type position [3]int32

// Positions numbers the tokens of a row. Text counts up on all three axes together. An
// image of a×b merged cells takes (0, row, column) relative to the end of the text, and the
// text continues at the largest of them plus one. The second result is the position of the
// next token.
//
// Images are matched to the runs of the placeholder token in order. A placeholder without
// an image, a truncated run and an image without a run are errors.
func Positions(cfg *model.Config, tokens []int32, images []Grid) ([]position, int32, error) {
	pos := make([]position, len(tokens))
	cur, image := int32(0), 0
	for i := 0; i < len(tokens); {
		if cfg.Vision == nil || tokens[i] != cfg.ImageToken {
			pos[i] = position{cur, cur, cur}
			cur++
			i++
			continue
		}
		if image == len(images) {
			return nil, 0, fmt.Errorf("token %d is an image placeholder, but the row has only %d images", i, len(images))
		}
		g := images[image]
		a, b := g.H/cfg.Vision.Merge, g.W/cfg.Vision.Merge
		for k := range a * b {
			if i+k >= len(tokens) || tokens[i+k] != cfg.ImageToken {
				return nil, 0, fmt.Errorf("image %d needs %d placeholders from token %d on, found %d", image, a*b, i, k)
			}
			pos[i+k] = position{cur, cur + int32(k/b), cur + int32(k%b)}
		}
		cur += int32(max(a, b))
		i += a * b
		image++
	}
	if image != len(images) {
		return nil, 0, fmt.Errorf("%d images, but placeholders for %d", len(images), image)
	}
	return pos, cur, nil
}

// windows numbers the merged cells of an image row by row, divides them into square windows
// of side cells from the top left, and returns the cells window by window with the number
// of cells of each. Windows at the border are smaller.
func windows(a, b, side int) (order []int32, sizes []int) {
	order = make([]int32, 0, a*b)
	for top := 0; top < a; top += side {
		for left := 0; left < b; left += side {
			n := len(order)
			for r := top; r < min(top+side, a); r++ {
				for c := left; c < min(left+side, b); c++ {
					order = append(order, int32(r*b+c))
				}
			}
			sizes = append(sizes, len(order)-n)
		}
	}
	return order, sizes
}
