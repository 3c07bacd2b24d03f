package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"

	"vagen/internal/durable"
	"vagen/internal/imagefile"
	"vagen/internal/regular"
)

// imageFolder is the folder beside the files.
const imageFolder = "images"

// maxPixels limits the size of images that are decoded.
const maxPixels = 1 << 26

// folder stores images by the hash of their pixels.
type folder struct {
	dir  string
	seen map[string]bool        // names that were written, found on disk, or not stored
	last map[string]image.Image // cache of images that were read

	gallery *Gallery // nil for a single file
	bytes   int64    // size of all images of a gallery
	fresh   []string // paths of a gallery's images that Sync has not synced
	lenient bool     // missing images are Absent
	absent  bool     // all images are
}

// cached is the largest number of images in a reader's cache.
const cached = 256

func newFolder(file string) *folder {
	return &folder{dir: filepath.Join(filepath.Dir(file), imageFolder), seen: map[string]bool{},
		last: map[string]image.Image{}}
}

func nameOf(im *image.NRGBA) string {
	h := sha256.New()
	var size [16]byte
	binary.LittleEndian.PutUint64(size[:], uint64(im.Rect.Dx()))
	binary.LittleEndian.PutUint64(size[8:], uint64(im.Rect.Dy()))
	h.Write(size[:])
	h.Write(im.Pix)
	return hex.EncodeToString(h.Sum(nil))
}

// named returns an image in the pixel format of stored images, with its name. An image that is
// Absent has only a name.
func named(im image.Image) (*image.NRGBA, string, error) {
	if name, ok := im.(Absent); ok {
		return nil, string(name), nil
	}
	if im == nil || im.Bounds().Empty() {
		return nil, "", errors.New("the image is nil or has no pixels")
	}
	p := imagefile.NRGBA(im)
	return p, nameOf(p), nil
}

// storeImage writes an image, unless it is stored already, and returns its name.
func (f *folder) storeImage(im image.Image) (string, error) {
	p, name, err := named(im)
	if p == nil {
		return name, err
	}
	if f.seen[name] || f.gallery != nil && f.gallery.o.NamesOnly {
		return name, nil
	}
	f.seen[name] = true
	path := filepath.Join(f.dir, name+".png")
	if info, err := os.Stat(path); err == nil && info.Size() > 0 { // an empty file is what a power failure left
		return name, nil
	}
	return name, f.store(path, p)
}

// store writes an image that is not on disk.
func (f *folder) store(path string, p *image.NRGBA) error {
	g := f.gallery
	enc := png.Encoder{BufferPool: imagefile.Buffers}
	if g != nil {
		enc.CompressionLevel = g.o.Level
	}
	var b bytes.Buffer
	if err := enc.Encode(&b, p); err != nil {
		return err
	}
	if g != nil && g.o.Quota > 0 && f.bytes+int64(b.Len()) > g.o.Quota {
		g.omit("the folder of images is full, some are left out", "quota", g.o.Quota, "bytes", f.bytes)
		return nil
	}
	err := os.MkdirAll(f.dir, 0o755)
	if err == nil {
		err = write(path, b.Bytes())
	}
	switch {
	case err == nil && g != nil:
		f.bytes += int64(b.Len())
		f.fresh = append(f.fresh, path)
	case g != nil:
		g.omit("an image cannot be written", "err", err)
		return nil
	}
	return err
}

// write creates a file atomically.
func write(path string, data []byte) error {
	tmp, err := durable.CreateTemp(path)
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	return durable.Commit(tmp, path, err)
}

// fetch reads an image and checks that its name is the hash of its pixels.
func (f *folder) fetch(name string) (image.Image, error) {
	if im, ok := f.last[name]; ok {
		return im, nil
	}
	if f.absent {
		return Absent(name), nil
	}
	if !isName(name) {
		return nil, fmt.Errorf("%w: %q is not the name of an image", ErrFormat, name)
	}
	path := filepath.Join(f.dir, name+".png")
	data, err := regular.ReadAtMost(path, MaxImageBytes, ErrFormat)
	if f.lenient && errors.Is(err, fs.ErrNotExist) {
		return Absent(name), nil
	}
	if err != nil {
		return nil, err
	}
	p, err := decodeImage(name, data)
	if err != nil {
		return nil, err
	}
	if len(f.last) >= cached {
		clear(f.last)
	}
	f.last[name] = p
	return p, nil
}

// decodeImage decodes an image and checks that its name is the hash of its pixels.
func decodeImage(name string, data []byte) (image.Image, error) {
	size, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%w: image %s: %w", ErrFormat, name, err)
	}
	if size.Width < 1 || size.Height < 1 || size.Width > maxPixels/size.Height {
		return nil, fmt.Errorf("%w: image %s has %d by %d pixels, at most %d in total are allowed", ErrFormat, name,
			size.Width, size.Height, maxPixels)
	}
	im, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%w: image %s: %w", ErrFormat, name, err)
	}
	p := imagefile.NRGBA(im)
	if got := nameOf(p); got != name {
		return nil, fmt.Errorf("%w: image %s: the hash of its pixels is %s, must be equal to its name", ErrFormat, name, got)
	}
	return p, nil
}

// isName reports whether a text can be the name of an image.
func isName(name string) bool {
	raw, err := hex.DecodeString(name)
	return err == nil && len(raw) == sha256.Size && hex.EncodeToString(raw) == name
}

// ImageName returns the name of an image in stored records, without .png; "" for nil.
func ImageName(im image.Image) string {
	if im == nil {
		return ""
	}
	if name, ok := im.(Absent); ok {
		return string(name)
	}
	return nameOf(imagefile.NRGBA(im))
}
