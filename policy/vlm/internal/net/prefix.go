package net

import (
	"encoding/binary"
	"fmt"
	"slices"

	"vagen/policy"
)

// prefix is what a row has in common with other rows: the tokens and images before its first wanted token, without
// the last one, from which that token is predicted.
type prefix struct {
	first  int // the first row of the batch that begins so
	length int // tokens; 0 if no other row begins so
	images int
}

// prefixes returns the prefix of each row, nil if the packer does not share them.
func (b *batch) prefixes() ([]prefix, error) {
	if !b.Share {
		return nil, nil
	}
	rows, want := b.rows, b.want
	out := make([]prefix, rows.Len())
	first := map[string]int{}
	for i := range out {
		from := rows.Offsets[i]
		n := slices.Index(want[from:rows.Offsets[i+1]], true) - 1
		if n < 1 {
			continue
		}
		tokens := rows.Tokens[from : from+n]
		images, whole, err := b.imagesIn(i, tokens)
		if err != nil {
			return nil, fmt.Errorf("vlm: row %d: %w", i, err)
		}
		if !whole {
			continue
		}
		var own []policy.Image
		if images > 0 {
			own = rows.Images[i][:images]
		}
		key := ContextKey(tokens, own)
		j, known := first[key]
		if !known {
			first[key], out[i].first = i, i
			continue
		}
		out[j].length, out[j].images = n, images
		out[i] = prefix{j, n, images}
	}
	return out, nil
}

// ContextKey is equal for contexts of the same tokens and images.
func ContextKey(ids []int32, images []policy.Image) string {
	key := make([]byte, 0, 4*len(ids)+32*len(images))
	for _, id := range ids {
		key = binary.LittleEndian.AppendUint32(key, uint32(id))
	}
	for _, im := range images {
		key = append(key, im.Hash[:]...)
	}
	return string(key)
}

// imagesIn counts the images of a row in its first tokens. whole is false if these end inside an image.
func (b *batch) imagesIn(row int, tokens []int32) (n int, whole bool, err error) {
	left := 0
	for _, id := range tokens {
		if b.rows.Images != nil && id == b.Cfg.ImageToken {
			left++
		}
	}
	for ; left > 0 && n < len(b.rows.Images[row]); n++ {
		pic, err := b.Picture(b.rows.Images[row][n])
		if err != nil {
			return 0, false, fmt.Errorf("image %d: %w", n, err)
		}
		left -= pic.Grid.Tokens(b.Cfg.Vision.Merge)
	}
	return n, left == 0, nil
}

// sharedIn returns how many of a row's tokens a bin has already.
func (b *batch) sharedIn(bin []int, i int) int {
	if b.of == nil || b.of[i].length == 0 ||
		!slices.ContainsFunc(bin, func(j int) bool { return b.of[j].length > 0 && b.of[j].first == b.of[i].first }) {
		return 0
	}
	return b.of[i].length
}

// Bits of a token's segment: those of the segment itself, and above them those of the shared prefix that the token
// attends to besides, plus 1. See model.Layout.
func withPrefix(segment, prefix int32) int32 { return segment | (prefix+1)<<16 }
