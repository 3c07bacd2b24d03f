package durable

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"path/filepath"

	"vagen/internal/regular"
)

// Sum is the size and checksum of a file.
type Sum struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Sums returns the sums of all files below dir except the file except, by slash-separated
// relative paths.
func Sums(ctx context.Context, dir, except string) (map[string]Sum, error) {
	out := map[string]Sum{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return errors.Join(err, ctx.Err())
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == except {
			return err
		}
		out[filepath.ToSlash(name)], err = SumOf(path)
		return err
	})
	return out, err
}

// SumOf returns the sum of a file.
func SumOf(path string) (Sum, error) {
	f, err := regular.Open(path)
	if err != nil {
		return Sum{}, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return Sum{Size: n, SHA256: hex.EncodeToString(h.Sum(nil))}, err
}
